"""The store on disk and its twin in memory keep every sentence of the port."""

from __future__ import annotations

from pathlib import Path

from takeback.ports.content import BlobStore
from takeback.storage.content.packs import MemoryBlobs, PackStore
from takeback.testing.blob_contract import BlobContract, DurableBlobContract


class TestMemoryBlobs(BlobContract):
    def open(self, where: Path) -> BlobStore:
        return MemoryBlobs()


class TestPackStore(DurableBlobContract):
    def open(self, where: Path) -> BlobStore:
        return PackStore(where / "packs")


class TestManySmallPacks(DurableBlobContract):
    """With limits so small that every test fills packs and folds the log into runs."""

    def open(self, where: Path) -> BlobStore:
        return PackStore(where / "packs", pack_bytes_max=20_000, log_rows_max=3)
