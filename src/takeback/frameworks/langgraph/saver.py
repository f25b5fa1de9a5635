"""A checkpointer for LangGraph whose content is in the store of a workspace, and never a file in the workspace."""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import takeback
from takeback.core.conversation import Snapshot, Spot, StatePiece, Write
from takeback.errors import UsageError
from takeback.frameworks.answering import ask_anew
from takeback.frameworks.langgraph.packing import Known, Packing, ThreadCache, unpacked, written
from takeback.ports.conversations import StoredSnapshot
from takeback.workspace.opening import open_workspace
from takeback.workspace.store.conversations import conversations_of
from takeback.workspace.workspace import Workspace

THREADS_MAX = 64
"""How many threads are remembered; of others, unchanged messages are serialised again."""
TRIES_MAX = 100

LANGGRAPH = "langgraph"
"""Begins the key of the Takeback thread that has the calls of a LangGraph thread."""

_COUNTERS = "counters_since_delta_snapshot"
"""What LangGraph notes about channels whose value is made of the writes since an earlier checkpoint."""


class TakebackSaver(BaseCheckpointSaver[int]):
    """A checkpointer in the store of a workspace. One object serves synchronous and asynchronous graphs.

    A checkpoint is durable when its method returns. Only types on the serializer's list are loaded; give
    `serde=JsonPlusSerializer(allowed_msgpack_modules=[…])` to allow types of your own.
    """

    def __init__(self, workspace: Workspace, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=None))
        self.workspace = workspace
        self._store = conversations_of(workspace)
        self._caches: OrderedDict[str, ThreadCache] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str | PathLike[str],
        *,
        root: str | PathLike[str] = ".",
        serde: SerializerProtocol | None = None,
    ) -> OpenSaver:
        """Open a workspace and return its saver as a context manager, for `with` and for `async with`.

        `conn_string` is the folder of the workspace; or the address of its store ("postgresql://…" or "memory"),
        and then `root` is the folder.
        """
        address = str(conn_string)
        if address == "memory" or "://" in address:
            return OpenSaver(root, address, serde)
        return OpenSaver(conn_string, "", serde)

    def setup(self) -> None:
        """Do nothing: the store was created when the workspace was opened."""

    # Storing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, space, parent = _where(config)
        about = get_checkpoint_metadata(config, metadata)
        rest = cast("dict[str, Any]", {**checkpoint})
        values, versions = rest.pop("channel_values"), checkpoint["channel_versions"]
        spot = Spot(thread, space, checkpoint["id"])
        for cache in self._tries(thread):
            packing = Packing(self.serde, cache)
            inline, apart = packing.checkpoint_values(
                values, versions, new_versions, cache.parents.get((space, parent))
            )
            snapshot = Snapshot(
                spot,
                parent,
                str(about.get("run_id") or ""),
                tuple(name for name in about.get(_COUNTERS) or () if name not in values),
                StatePiece(*self.serde.dumps_typed(about)),
                StatePiece(*self.serde.dumps_typed([rest, inline])),
                tuple(apart.values()),
            )
            if self._store.put(cache.token, snapshot, packing.pieces):
                cache.note(packing)
                cache.note_parent(space, spot.id, Known(versions, apart))
                break
        return _config(spot)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        thread, space, id = _where(config)
        replace = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        for cache in self._tries(thread):
            packing = Packing(self.serde, cache)
            rows = [
                Write(task_id, WRITES_IDX_MAP.get(channel, index), task_path, channel, packing.written(value))
                for index, (channel, value) in enumerate(writes)
            ]
            if self._store.put_writes(
                cache.token, Spot(thread, space, id), rows, packing.pieces, replace=replace
            ):
                cache.note(packing)
                break

    def _tries(self, thread: str) -> Iterator[ThreadCache]:
        """Yield what is known of a thread; anew while others remove pieces of it at the same time."""
        with self._lock:
            cache = self._caches.pop(thread, None)
        for _ in range(TRIES_MAX):
            if cache is None:
                cache = ThreadCache(self._store.token(thread))
            with self._lock:
                self._caches[thread] = cache
                if len(self._caches) > THREADS_MAX:
                    self._caches.popitem(last=False)
            yield cache
            cache = None
        raise UsageError(
            f"the thread {thread} is being pruned again and again while it is written; nothing was stored",
            hint="prune a thread while no graph runs in it",
        )

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, space, id = _where(config)
        found = self._store.find(thread, space, id)
        return self._tuple(found) if found else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        given = config["configurable"] if config else {}
        thread = str(given["thread_id"]) if "thread_id" in given else None
        spots = self._store.spots(
            thread,
            given.get("checkpoint_ns"),
            (get_checkpoint_id(config) or "") if config else "",
            (get_checkpoint_id(before) or "") if before else "",
        )
        left = limit
        for spot, about in spots:
            if left is not None and left <= 0:
                return
            if filter:
                known = self.serde.loads_typed(about)
                if any(known.get(name) != value for name, value in filter.items()):
                    continue
            found = self._store.find(*spot)
            if found is None:
                continue  # removed meanwhile
            yield self._tuple(found)
            left = None if left is None else left - 1

    def _tuple(self, found: StoredSnapshot) -> CheckpointTuple:
        snapshot, serde = found.snapshot, self.serde
        rest, values = serde.loads_typed(snapshot.body)
        values |= {value.name: unpacked(serde, found, value) for value in snapshot.values}
        spot = snapshot.spot
        return CheckpointTuple(
            _config(spot),
            cast("Checkpoint", {**rest, "channel_values": values}),
            serde.loads_typed(snapshot.about),
            _config(spot._replace(id=snapshot.parent)) if snapshot.parent else None,
            [(write.task, write.channel, written(serde, found, write.value)) for write in found.writes],
        )

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Walk back from a checkpoint; of each one before it, load only these channels."""
        thread, space, id = _where(config)
        start = self._store.find(thread, space, id) if channels else None
        writes: dict[str, builtins.list[Any]] = {name: [] for name in channels}
        history: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        lacking, parent = set(channels), start.snapshot.parent if start else ""
        while lacking and parent:
            found = self._store.find(thread, space, parent)
            if found is None:
                break
            for write in reversed(found.writes):
                if write.channel in lacking:
                    value = written(self.serde, found, write.value)
                    writes[write.channel].append((write.task, write.channel, value))
            inline = self.serde.loads_typed(found.snapshot.body)[1]
            apart = {value.name: value for value in found.snapshot.values}
            for name in lacking & (inline.keys() | apart.keys()):
                seed = inline[name] if name in inline else unpacked(self.serde, found, apart[name])
                history[name]["seed"] = seed
                lacking = lacking - {name}
            parent = found.snapshot.parent
        for name in channels:
            history[name]["writes"] = writes[name][::-1]
        return history

    # Removing and copying

    def delete_thread(self, thread_id: str) -> None:
        self._store.delete(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete what these runs stored, except checkpoints that the state of another one is made of."""
        self._store.delete_runs([str(run) for run in run_ids])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._store.copy(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, and those that its state is made of; or delete all."""
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(
                f"there is no strategy {strategy!r} for prune; nothing was removed",
                hint="use keep_latest or delete",
            )
        for thread in thread_ids:
            if strategy == "delete":
                self._store.delete(str(thread))
            else:
                self._store.keep_latest(str(thread))

    def go_back(self, thread_id: str, checkpoint_id: str) -> takeback.RollbackReport:
        """Go back to a checkpoint: take back what the tools of the thread did since, and forget what was said since.

        The world goes first. If not all of it can be taken back, RollbackIncomplete is raised, and the conversation
        stays as it is. After a crash in between, call it again.
        """
        spot = next((spot for spot, _ in self._store.spots(str(thread_id), "", checkpoint_id)), None)
        if spot is None or not checkpoint_id:
            raise UsageError(
                f"thread {thread_id} has no checkpoint {checkpoint_id or 'without an id'}; nothing was taken back",
                hint="`graph.get_state_history(config)` lists the checkpoints of a thread",
            )
        thread = self.workspace.thread(key=f"{LANGGRAPH}/{thread_id}")
        # A call is made by a step that began at a checkpoint. Ids of checkpoints are in the order of time.
        first = next((action for action in thread.actions() if action.ref >= checkpoint_id), None)
        report = thread.go_back(first)
        ask_anew(thread)
        self._store.delete_after(str(thread_id), checkpoint_id)
        return report

    async def ago_back(self, thread_id: str, checkpoint_id: str) -> takeback.RollbackReport:
        """Do what `go_back` does, without blocking the event loop."""
        return await asyncio.to_thread(self.go_back, thread_id, checkpoint_id)

    # The same for asynchronous graphs: in a thread, since a sync of the disk must not stop the event loop.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await asyncio.to_thread(self.get_delta_channel_history, config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)


class OpenSaver:
    """A workspace that is opened for its saver, and closed at the end of the block."""

    def __init__(self, root: str | PathLike[str], store: str, serde: SerializerProtocol | None) -> None:
        self._root = root
        self._store = store
        self._serde = serde
        self._workspace: Workspace | None = None

    def __enter__(self) -> TakebackSaver:
        self._workspace = open_workspace(self._root, store=self._store)
        return TakebackSaver(self._workspace, serde=self._serde)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workspace is not None:
            self._workspace.close()

    async def __aenter__(self) -> TakebackSaver:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _where(config: RunnableConfig) -> tuple[str, str, str]:
    """Return the thread, the namespace, and the id of the checkpoint, or an empty one."""
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns") or "", get_checkpoint_id(config) or ""


def _config(spot: Spot) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": spot.thread,
            "checkpoint_ns": spot.space,
            "checkpoint_id": spot.id,
        }
    }
