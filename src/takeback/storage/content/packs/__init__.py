"""The content store: the content of every file, by its digest, durable before anything refers to it.

One folder holds numbered files, all private to their owner:

- `NNNNNNNN.pack`: records, appended and never changed; up to 64 MiB each (record.py). They are the source of truth.
- `NNNNNNNN.idx`: sorted runs that say where a blob is (index.py); `NNNNNNNN.log`: rows that are not in a run yet
  (log.py); `catalog`: which of these files are valid (catalog.py). All derived, and rebuilt from the packs if needed.
- `NNNNNNNN.part`: a pack that a worker is writing (parts.py); `catalog.tmp`: a catalog that is being replaced.

Files of up to 4 MiB are one blob; larger ones are blocks, named by lists (file_content.py).
"""

from takeback.storage.content.file_content import Content
from takeback.storage.content.memory import MemoryBlobs
from takeback.storage.content.names import raw_name, text_name
from takeback.storage.content.packs.store import PackStore

__all__ = [
    "Content",
    "MemoryBlobs",
    "PackStore",
    "raw_name",
    "text_name",
]
