"""Content in a bucket that machines share: every machine finds there what another one's records name.

One folder of the bucket belongs to one workspace. Its objects are made once and never changed:

- `format`: which version this is, and whether it is sealed by a key.
- `packs/…`: blobs, many to an object, with an index at its beginning (objects.py).
- `condemned/…`: which packs a clean-up is about to remove (sweep.py).

What was put is in the packs of the machine first, as ever. `share` brings it here before a record names it.
"""

from takeback.storage.content.bucket.client import Bucket
from takeback.storage.content.bucket.encryption import PLAIN, Seal
from takeback.storage.content.bucket.sharing import SharedStore

__all__ = ["PLAIN", "Bucket", "Seal", "SharedStore"]
