"""Content in a bucket that machines share: each machine finds there what another machine's records name.

One folder of the bucket belongs to one workspace. Its objects are created once and never changed:

/- `format`: the version, and whether the content is encrypted.
- `packs/…`: blobs, many to an object, with an index at its beginning (objects.py).
- `condemned/…`: the packs that a clean-up is about to remove (sweep.py).

New content first goes to the packs of the machine. `share` copies it here before a record names it.
"""

from takeback.storage.content.bucket.client import Bucket
from takeback.storage.content.bucket.encryption import PLAIN, Seal
from takeback.storage.content.bucket.sharing import SharedStore

__all__ = ["PLAIN", "Bucket", "Seal", "SharedStore"]
