"""What holds for every store of conversations: in a file, on a server and in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeback.core.conversation import (
    MANY,
    NODE_NAMES,
    ONE,
    Snapshot,
    Spot,
    StatePiece,
    StateValue,
    Write,
    folded,
    leaves_in,
    name_of,
)
from takeback.ports.conversations import Conversations
from takeback.storage.conversations import tables
from takeback.storage.conversations.memory import MemoryConversations
from takeback.storage.conversations.postgres.store import PostgresConversations
from takeback.storage.conversations.sqlite.store import SqliteConversations
from tests.resources.postgres.world import Server


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Desk:
    """A store, and how to open it a second time, as another process would."""

    def __init__(self, kind: str, folder: Path, server: Server) -> None:
        self.kind = kind
        self._path = folder / "conversations.db"
        self._dsn = server.make("") if kind == "postgres" else ""
        self._opened: list[Conversations] = []

    def open(self) -> Conversations:
        if self.kind == "memory":
            made: Conversations = self._opened[0] if self._opened else MemoryConversations()
        elif self.kind == "sqlite":
            made = SqliteConversations(self._path)
        else:
            made = PostgresConversations(self._dsn, "shop")
        self._opened.append(made)
        return made

    def close(self) -> None:
        for made in self._opened:
            made.close()


@pytest.fixture
def desk(kind: str, tmp_path: Path, server: Server) -> Iterator[Desk]:
    made = Desk(kind, tmp_path, server)
    yield made
    made.close()


@pytest.fixture
def store(desk: Desk) -> Conversations:
    return desk.open()


def piece(text: str) -> StatePiece:
    return StatePiece("text", text.encode())


def snapshot(
    thread: str,
    id: str,
    *texts: str,
    parent: str = "",
    space: str = "",
    run: str = "",
    lacks: tuple[str, ...] = (),
) -> tuple[Snapshot, dict[bytes, StatePiece]]:
    """A snapshot whose one value is a list of texts, and its pieces."""
    pieces = {name_of(piece(text)): piece(text) for text in texts}
    row, nodes = folded([name_of(piece(text)) for text in texts])
    values = (StateValue("messages", True, row),) if texts else ()
    made = Snapshot(
        Spot(thread, space, id), parent, run, lacks, piece(f"about {id}"), piece(f"body {id}"), values
    )
    return made, pieces | nodes


def put(store: Conversations, thread: str, id: str, *texts: str, **more: object) -> None:
    made, pieces = snapshot(thread, id, *texts, **more)  # type: ignore[arg-type]
    assert store.put(store.token(thread), made, pieces)


def texts_of(store: Conversations, thread: str, id: str = "", space: str = "") -> list[str]:
    found = store.find(thread, space, id)
    assert found
    return [
        found.pieces[name].body.decode()
        for value in found.snapshot.values
        for name in leaves_in(value, found.pieces)
    ]


def ids_of(store: Conversations, thread: str | None = None, **more: str) -> list[str]:
    return [spot.id for spot, _ in store.spots(thread, **more)]


def test_a_snapshot_comes_back_as_it_was(desk: Desk, store: Conversations) -> None:
    texts = [f"message {n}" for n in range(3 * NODE_NAMES + 5)]
    made, pieces = snapshot("t", "1", *texts, parent="0", run="r", lacks=("files",))
    assert store.put(store.token("t"), made, pieces)
    found = desk.open().find("t", "", "1")
    assert found and found.snapshot == made and found.writes == ()
    assert texts_of(desk.open(), "t") == texts


def test_the_newest_is_found_without_an_id(store: Conversations) -> None:
    for id in ("2", "10", "3"):
        put(store, "t", id, id)
    put(store, "t", "9", "of a subgraph", space="child")
    assert texts_of(store, "t") == ["3"]  # ids are in the order of their bytes
    assert texts_of(store, "t", space="child") == ["of a subgraph"]
    assert store.find("t", "", "4") is None and store.find("other", "") is None


def test_a_snapshot_is_replaced_by_one_with_its_spot(store: Conversations) -> None:
    put(store, "t", "1", "first")
    put(store, "t", "1", "second")
    assert texts_of(store, "t") == ["second"] and ids_of(store) == ["1"]


def test_pieces_that_are_stored_need_not_be_given_again(store: Conversations) -> None:
    token = store.token("t")
    made, pieces = snapshot("t", "1", "a", "b")
    assert store.put(token, made, pieces)
    assert store.put(token, snapshot("t", "2", "a", "b")[0], {})
    assert texts_of(store, "t", "2") == ["a", "b"]


def test_a_token_from_before_a_removal_is_refused(desk: Desk, store: Conversations) -> None:
    if desk.kind == "memory":
        return  # there pieces stay until their thread is removed, and a thread is then created again
    token = store.token("t")
    made, pieces = snapshot("t", "1", "a")
    assert store.put(token, made, pieces)
    put(store, "t", "2", "b")
    desk.open().keep_latest("t")
    later = snapshot("t", "3", "a", "b")[0]
    assert not store.put(token, later, {})
    assert not store.put_writes(
        token, Spot("t", "", "2"), [Write("task", 0, "", "c", piece("x"))], {}, replace=False
    )
    assert ids_of(store) == ["2"] and texts_of(store, "t") == ["b"]
    store.delete("t")
    assert not store.put(token, later, pieces) and store.threads() == []


def test_writes_are_in_order_and_kept_unless_replaced(store: Conversations) -> None:
    put(store, "t", "1")
    token, spot = store.token("t"), Spot("t", "", "1")
    message = piece("a message")
    row, nodes = folded([name_of(message)])
    first = [
        Write("b", 0, "2", "x", piece("late")),
        Write("a", 1, "1", "many", StatePiece(MANY, row)),
        Write("a", 0, "1", "one", StatePiece(ONE, name_of(message))),
        Write("a", -1, "1", "error", piece("bad")),
    ]
    assert store.put_writes(token, spot, first, {name_of(message): message, **nodes}, replace=False)
    again = [Write("a", 0, "1", "one", piece("other")), Write("a", 2, "1", "new", piece("more"))]
    assert store.put_writes(token, spot, again, {}, replace=False)
    assert store.put_writes(token, spot, [Write("a", -1, "1", "error", piece("worse"))], {}, replace=True)
    found = store.find("t", "", "1")
    assert found
    assert [(write.channel, write.value.body) for write in found.writes] == [
        ("error", b"worse"),
        ("one", name_of(message)),
        ("many", row),
        ("new", b"more"),
        ("x", b"late"),
    ]
    assert found.pieces[name_of(message)] == message


def test_spots_are_newest_first_and_can_be_chosen(
    store: Conversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "PAGE", 10)
    for n in range(50):
        put(store, "t", f"{n:04}")
    put(store, "t", "0049", space="child")
    put(store, "u", "0049")
    every = ids_of(store)
    assert len(every) == 52 and every == sorted(every, reverse=True)
    assert ids_of(store, "t", space="") == [f"{n:04}" for n in reversed(range(50))]
    assert ids_of(store, "t", before="0002") == ["0001", "0000"]
    assert ids_of(store, id="0049") == ["0049"] * 3
    assert next(iter(store.spots("t", id="0007")))[1] == piece("about 0007")


def test_pruning_keeps_what_the_newest_is_made_of(store: Conversations) -> None:
    put(store, "t", "1", "unneeded")
    put(store, "t", "2", "seed", parent="1")
    put(store, "t", "3", parent="2", lacks=("messages",))
    put(store, "t", "4", parent="3", lacks=("messages",))
    put(store, "t", "1", "alone", space="child")
    put(store, "t", "2", "newest", space="child", parent="1")
    token = store.token("t")
    for id in ("1", "2", "3", "4"):
        assert store.put_writes(
            token, Spot("t", "", id), [Write("task", 0, "", "messages", piece(id))], {}, replace=False
        )
    store.keep_latest("t")
    assert ids_of(store, "t", space="") == ["4", "3", "2"] and ids_of(store, "t", space="child") == ["2"]
    for id in ("2", "3", "4"):
        found = store.find("t", "", id)
        assert found and [write.value for write in found.writes] == [piece(id)]
    assert texts_of(store, "t", "2") == ["seed"]


def test_runs_are_deleted_but_not_what_others_are_made_of(store: Conversations) -> None:
    put(store, "t", "1", "seed", run="first")
    put(store, "t", "2", parent="1", lacks=("messages",), run="second")
    put(store, "t", "3", "whole", parent="2", run="third")
    put(store, "u", "1", "elsewhere", run="third")
    store.delete_runs(["first", "third"])
    assert ids_of(store, "t") == ["2", "1"] and ids_of(store, "u") == []
    store.delete_runs(["first", "second", "none"])
    assert ids_of(store) == []


def test_what_came_after_is_deleted(store: Conversations) -> None:
    for id in ("1", "2", "3"):
        put(store, "t", id, id)
        put(store, "t", id, id, space="child")
    for id in ("1", "2", "3"):
        spot, writes = Spot("t", "", id), [Write("task", 0, "", "x", piece(id))]
        assert store.put_writes(store.token("t"), spot, writes, {}, replace=False)
    store.delete_after("t", "2")
    found = [store.find("t", "", id) for id in ("1", "2")]
    assert [len(one.writes) for one in found if one] == [1, 0]
    assert ids_of(store, "t") == ["2", "2", "1", "1"] and texts_of(store, "t") == ["2"]


def test_a_copy_stands_alone(store: Conversations) -> None:
    put(store, "t", "1", "a", "b", run="r")
    put(store, "u", "1", "overwritten")
    put(store, "u", "0", "stays")
    assert store.put_writes(
        store.token("t"), Spot("t", "", "1"), [Write("task", 0, "", "x", piece("w"))], {}, replace=False
    )
    store.copy("t", "u")
    store.copy("nothing", "v")
    store.copy("t", "t")
    store.delete("t")
    assert texts_of(store, "u", "1") == ["a", "b"] and texts_of(store, "u", "0") == ["stays"]
    found = store.find("u", "", "1")
    assert found and [write.value for write in found.writes] == [piece("w")]
    assert "t" not in store.threads()


def test_a_deleted_thread_leaves_nothing_and_can_begin_again(store: Conversations) -> None:
    put(store, "t", "1", "secret")
    put(store, "u", "1", "secret")
    store.delete("t")
    store.delete("t")
    assert store.threads() == ["u"] and texts_of(store, "u") == ["secret"]
    put(store, "t", "1", "secret")
    assert texts_of(store, "t") == ["secret"]


def test_threads_write_at_the_same_time(desk: Desk, store: Conversations) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(20):
                put(store, f"t{number % 3}", f"{number}-{step:02}", f"of {number}", f"step {step}")
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    again = desk.open()
    for number in range(8):
        for step in range(20):
            assert texts_of(again, f"t{number % 3}", f"{number}-{step:02}") == [
                f"of {number}",
                f"step {step}",
            ]


def test_one_writer_s_error_is_not_another_s(desk: Desk, store: Conversations) -> None:
    if desk.kind == "memory":
        return  # it takes any text
    token = store.token("t")
    barrier, errors = threading.Barrier(6), []

    def work(number: int) -> None:
        barrier.wait()
        for step in range(10):
            made, pieces = snapshot("t", f"{number}-{step}", "x")
            if number == 0:
                made = made._replace(run="\ud800")  # no database takes this
            try:
                store.put(token, made, pieces)
            except UnicodeEncodeError:
                errors.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [0] * 10 and len(ids_of(store)) == 50


def test_the_threads_that_quote_something_are_found(store: Conversations) -> None:
    put(store, "in a message", "1", "nothing", "the key is hunter2")
    put(store, "in a message", "2", "nothing")
    put(store, "in what is known about it hunter2", "hunter2")
    put(store, "elsewhere", "1", "hunter1")
    token = store.token("in a write")
    wrote = Write("task", 0, "", "messages", piece("got hunter2"))
    assert store.put_writes(token, Spot("in a write", "", "1"), [wrote], {}, replace=False)
    every = ["in a message", "in a write", "in what is known about it hunter2"]
    assert sorted(store.quoting([b"hunter2"])) == every
    assert sorted(store.quoting([b"hunter1", b"is hunter2"])) == ["elsewhere", "in a message"]
    assert store.quoting([b"hunter3"]) == store.quoting([]) == []
    store.delete("in a message")
    assert sorted(store.quoting([b"hunter2"])) == every[1:]
