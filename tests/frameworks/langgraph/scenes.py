"""Scenes with the saver in real graphs: `scenes STORE FOLDER` plays each of them, and prints what failed.

They run in one process, in the environment of LangGraph, since importing the framework takes longer than all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import operator
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import takeback
from takeback.frameworks.langchain import Takeback
from takeback.frameworks.langgraph import TakebackSaver

STEPS = 6


class Scene:
    """A folder for one scene, and how its saver is opened."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store, self.folder = store, folder
        folder.mkdir()

    def saver(self, **more: Any) -> Any:
        return TakebackSaver.from_conn_string(self.store or self.folder, root=self.folder, **more)


def at(thread: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


class Talk(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    count: int


def talking(saver: TakebackSaver, steps: int = STEPS) -> Any:
    """A graph that adds one message in each step."""

    def speak(state: Talk) -> dict[str, Any]:
        number = state.get("count", 0) + 1
        return {"messages": [AIMessage(f"step {number}", id=f"m{number}")], "count": number}

    graph = StateGraph(Talk)
    graph.add_node("speak", speak)
    graph.add_edge(START, "speak")
    graph.add_conditional_edges("speak", lambda state: END if state["count"] >= steps else "speak")
    return graph.compile(checkpointer=saver)


def texts(state: Any) -> list[str]:
    return [message.content for message in state.values["messages"]]


SAID = ["go", *(f"step {number}" for number in range(1, STEPS + 1))]


def a_thread_goes_on_in_another_opening(scene: Scene) -> None:
    with scene.saver() as saver:
        talking(saver).invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        assert texts(talking(saver).get_state(at("t"))) == SAID
        if scene.store == "memory":
            return
    with scene.saver() as saver:
        graph = talking(saver, STEPS + 1)
        assert texts(graph.get_state(at("t"))) == SAID
        graph.invoke({"messages": [HumanMessage("more", id="h2")]}, at("t"))
        assert texts(graph.get_state(at("t"))) == [*SAID, "more", f"step {STEPS + 1}"]


def time_travel_finds_each_earlier_state(scene: Scene) -> None:
    with scene.saver() as saver:
        graph = talking(saver)
        graph.invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        history = list(graph.get_state_history(at("t")))
        assert [len(state.values.get("messages", ())) for state in history] == [*range(STEPS + 1, 0, -1), 0]
        earlier = history[3]
        fork = graph.update_state(earlier.config, {"messages": [AIMessage("another way", id="x")]})
        assert texts(graph.get_state(fork)) == [*texts(earlier), "another way"]
        assert texts(graph.get_state(history[0].config)) == SAID


def one_saver_serves_sync_and_async(scene: Scene) -> None:
    async def work() -> None:
        async with scene.saver() as saver:
            graph = talking(saver)
            await graph.ainvoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
            assert texts(await graph.aget_state(at("t"))) == SAID
            assert texts(await asyncio.to_thread(graph.get_state, at("t"))) == SAID
            found = [state async for state in graph.aget_state_history(at("t"), limit=2)]
            assert [texts(state) for state in found] == [SAID, SAID[:-1]]

    asyncio.run(work())


def the_event_loop_never_waits_for_the_disk(scene: Scene) -> None:
    async def work() -> None:
        async with scene.saver() as saver:
            users = set()
            store = saver._store

            class Watched:
                def __getattr__(self, name: str) -> Any:
                    users.add(threading.get_ident())
                    return getattr(store, name)

            saver._store = Watched()
            graph = talking(saver)
            await graph.ainvoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
            [state async for state in graph.aget_state_history(at("t"))]
            await saver.aprune(["t"])
            await saver.acopy_thread("t", "u")
            await saver.adelete_for_runs(["none"])
            await saver.adelete_thread("t")
            await saver.aget_delta_channel_history(config=at("u"), channels=["messages"])
            assert users and threading.get_ident() not in users

    asyncio.run(work())


def a_question_is_answered_in_another_opening(scene: Scene) -> None:
    def ask(state: Talk) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {interrupt('really?')}", id="a")]}

    def graph(saver: TakebackSaver) -> Any:
        made = StateGraph(Talk)
        made.add_node("ask", ask)
        made.add_edge(START, "ask")
        return made.compile(checkpointer=saver)

    with scene.saver() as saver:
        found = graph(saver).invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        assert found["__interrupt__"][0].value == "really?"
        if scene.store == "memory":
            return
    with scene.saver() as saver:
        found = graph(saver).invoke(Command(resume="yes"), at("t"))
        assert [message.content for message in found["messages"]] == ["go", "you said yes"]


def joined(lists: Iterable[list[str]]) -> list[str]:
    return list(itertools.chain.from_iterable(lists))


class Log(TypedDict):
    lines: Annotated[list[str], DeltaChannel(lambda state, writes: [*state, *joined(writes)])]
    count: Annotated[int, operator.add]


def logging(saver: TakebackSaver) -> Any:
    """A graph whose list is kept as the writes since an earlier checkpoint."""
    graph = StateGraph(Log)
    graph.add_node("work", lambda state: {"lines": [f"line {state['count']}"], "count": 1})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: END if state["count"] % STEPS == 0 else "work")
    return graph.compile(checkpointer=saver)


def pruning_copying_and_deleting_keep_what_a_delta_needs(scene: Scene) -> None:
    with scene.saver() as saver:
        graph = logging(saver)
        first = {**at("t"), "run_id": "11111111-1111-4111-8111-111111111111"}
        second = {**at("t"), "run_id": "22222222-2222-4222-8222-222222222222"}
        graph.invoke({"lines": ["begin"], "count": 0}, first)
        graph.invoke({"lines": ["again"], "count": 1}, second)
        lines = graph.get_state(at("t")).values["lines"]
        assert lines[0] == "begin" and len(lines) > STEPS
        assert all("lines" not in found.checkpoint["channel_values"] for found in saver.list(at("t")))
        history = saver.get_delta_channel_history(config=at("t"), channels=["lines", "none"])
        assert joined(write[2] for write in history["lines"]["writes"]) == lines
        assert history["none"] == {"writes": []}

        saver.copy_thread("t", "copy")
        saver.delete_for_runs([str(first["run_id"])])
        assert graph.get_state(at("t")).values["lines"] == lines
        saver.prune(["t"])
        assert graph.get_state(at("t")).values["lines"] == lines
        saver.delete_thread("t")
        assert graph.get_state(at("copy")).values["lines"] == lines
        saver.prune(["copy"], strategy="delete")
        assert not graph.get_state(at("copy")).values and saver._store.threads() == []


def a_message_that_was_changed_in_place_is_stored_anew(scene: Scene) -> None:
    with scene.saver() as saver:
        message = ToolMessage("first", id="m", tool_call_id="c", additional_kwargs={"deep": {"er": [1]}})
        config: Any = at("t")
        seen = []
        changes: list[Callable[[], object]] = [
            lambda: None,
            lambda: setattr(message, "content", "second"),
            lambda: message.additional_kwargs["deep"]["er"].append(2),
            lambda: message.additional_kwargs["deep"].update(
                er=[True, 2]
            ),  # equal to 1, and yet not the same
            lambda: setattr(message, "artifact", {"data": b"x"}),
        ]
        for number, change in enumerate(changes, start=1):
            change()
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": [HumanMessage("go", id="h"), message]}
            checkpoint["channel_versions"] = {"messages": number}
            config = saver.put(config, checkpoint, {"step": number}, {"messages": number})
            seen.append((config, message.model_dump_json()))
        for config, dumped in seen:
            found = saver.get_tuple(config)
            assert found and found.checkpoint["channel_values"]["messages"][1].model_dump_json() == dumped


def an_unchanged_message_is_serialised_once_for_all_checkpoints(scene: Scene) -> None:
    with scene.saver() as saver:
        dumped: list[Any] = []
        serde = saver.serde

        class Counting:
            def dumps_typed(self, value: Any) -> Any:
                dumped.append(value)
                return serde.dumps_typed(value)

            def loads_typed(self, data: tuple[str, bytes]) -> Any:
                return serde.loads_typed(data)

        saver.serde = Counting()
        config, messages = at("t"), [AIMessage("begin", id="m")]
        for number in range(STEPS):
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": list(messages)}
            checkpoint["channel_versions"] = {"messages": number + 1}
            config = saver.put(config, checkpoint, {"step": number}, {"messages": number + 1})
            messages.append(AIMessage(f"step {number}", id=f"m{number}"))
            saver.put_writes(config, [("messages", messages[-1:])], "task")
        names = [f"m{number}" for number in range(STEPS)]
        assert [value.id for value in dumped if isinstance(value, AIMessage)] == ["m", *names[:-1]]
        written = [value[0].id for value in dumped if isinstance(value, list) and len(value) == 1]
        assert written == names  # a short one is part of its write as well


def a_long_message_is_serialised_and_stored_once(scene: Scene) -> None:
    with scene.saver() as saver:
        dumped: list[Any] = []
        serde = saver.serde

        class Counting:
            def dumps_typed(self, value: Any) -> Any:
                dumped.append(value)
                return serde.dumps_typed(value)

            def loads_typed(self, data: tuple[str, bytes]) -> Any:
                return serde.loads_typed(data)

        saver.serde = Counting()
        message = AIMessage("long " * 1000, id="m")
        checkpoint = empty_checkpoint()
        config = saver.put(at("t"), checkpoint, {"step": 0}, {})
        saver.put_writes(config, [("messages", [message])], "task")
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": [message]}
        checkpoint["channel_versions"] = {"messages": 1}
        saver.put(config, checkpoint, {"step": 1}, {"messages": 1})
        assert [value for value in dumped if value in (message, [message])] == [message]
        found = saver.get_tuple(config)
        assert found and found.pending_writes == [("task", "messages", [message])]


def a_thread_that_another_prunes_meanwhile_stays_whole(scene: Scene) -> None:
    if scene.store == "memory":
        return
    with scene.saver() as saver, scene.saver() as other:
        graph = talking(saver)
        graph.invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        graph.update_state(at("t"), {"messages": [AIMessage("kept", id="k")]})
        other.prune(["t"])
        graph.update_state(at("t"), {"messages": [AIMessage("later", id="l")]})
        assert texts(talking(other).get_state(at("t"))) == [*SAID, "kept", "later"]
        other.delete_thread("t")
        graph.update_state(at("t"), {"messages": [AIMessage("anew", id="n")]})
        assert texts(talking(other).get_state(at("t"))) == ["anew"]


@dataclass
class Own:
    """A type that the serializer does not know."""

    x: int


def types_are_loaded_only_if_allowed(scene: Scene) -> None:
    with scene.saver() as saver:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"own": Own(1), "list": [Own(2), "x"]}
        config = saver.put(at("t"), checkpoint, {}, {})
        strict = saver.get_tuple(config)
        assert strict and not isinstance(strict.checkpoint["channel_values"]["own"], Own)
        allowing = saver.with_allowlist([(Own.__module__, Own.__name__)])
        found = allowing.get_tuple(config)
        assert found and found.checkpoint["channel_values"] == {"own": Own(1), "list": [Own(2), "x"]}


def nothing_readable_is_stored_if_it_is_encrypted(scene: Scene) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
    with scene.saver(serde=serde) as saver:
        talking(saver).invoke({"messages": [HumanMessage("a private word", id="h")]}, at("t"))
        state = saver.workspace.state
        assert texts(talking(saver).get_state(at("t")))[0] == "a private word"
        files = [path.read_bytes() for path in state.glob("conversations.db*")]
        assert bool(files) == (not scene.store) and not any(b"private word" in file for file in files)


def nothing_is_written_into_the_workspace(scene: Scene) -> None:
    with scene.saver() as saver:
        talking(saver).invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        assert list(scene.folder.iterdir()) == []
        assert saver.workspace.log() == []


def many_threads_write_at_once(scene: Scene) -> None:
    with scene.saver() as saver:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                talking(saver).invoke({"messages": [HumanMessage("go", id="h")]}, at(f"t{number}"))
            except BaseException as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        for number in range(6):
            assert texts(talking(saver).get_state(at(f"t{number}"))) == SAID


def a_saver_can_be_made_of_an_open_workspace(scene: Scene) -> None:
    with takeback.open(scene.folder, store=scene.store) as tb:
        talking(TakebackSaver(tb)).invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        assert texts(talking(TakebackSaver(tb)).get_state(at("t"))) == SAID


def a_list_is_filtered_and_limited(scene: Scene) -> None:
    with scene.saver() as saver:
        talking(saver).invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        found = list(saver.list(at("t"), filter={"source": "loop"}, limit=2))
        assert [one.metadata["step"] for one in found] == [STEPS, STEPS - 1]
        assert [one.metadata["step"] for one in saver.list(at("t"), before=found[1].config, limit=1)] == [
            STEPS - 2
        ]
        assert len(list(saver.list(None))) == STEPS + 2
        refusal = ""
        try:
            saver.prune(["t"], strategy="most")
        except takeback.UsageError as error:
            refusal = str(error)
        assert "use keep_latest or delete" in refusal


def an_answer_is_used_only_for_the_call_that_it_names(scene: Scene) -> None:
    """A plain ToolNode makes all calls of a message in one task, which gets the answers in the order they came."""
    paid: list[int] = []

    @tool
    @takeback.action(effect="irreversible")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    def model(state: Talk) -> dict[str, Any]:
        if not isinstance(state["messages"][-1], HumanMessage):
            return {"messages": [AIMessage("done", id="b")]}
        calls = [
            {"name": "pay", "args": {"amount": amount}, "id": f"call-{amount}"} for amount in (7, 1_000_000)
        ]
        return {"messages": [AIMessage("", id="a", tool_calls=calls)]}

    with scene.saver() as saver:
        made = StateGraph(Talk)
        made.add_node("model", model)
        made.add_node("tools", ToolNode([pay], **Takeback(saver).wrappers))
        made.add_edge(START, "model")
        made.add_conditional_edges(
            "model", lambda state: "tools" if state["messages"][-1].tool_calls else END
        )
        made.add_edge("tools", "model")
        graph = made.compile(checkpointer=saver)
        found = graph.invoke({"messages": [HumanMessage("go", id="h")]}, at("t"))
        found = graph.invoke(Command(resume=True), at("t"))
        assert paid == []  # for which of the two calls is not known
        for _ in range(2):
            asked = found["__interrupt__"][0].value
            granted = asked["args"]["amount"] == 7
            found = graph.invoke(Command(resume={"id": asked["id"], "approved": granted}), at("t"))
        assert paid == [7] and found["messages"][-1].content == "done"


SCENES = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__annotations__", {}).get("scene") == "Scene"
]


def main(store: str, folder: str) -> None:
    failed = 0
    for number, scene in enumerate(SCENES):
        try:
            scene(Scene(store, Path(folder) / str(number)))
            sys.stdout.write(f"passed {scene.__name__}\n")
        except Exception:  # noqa: BLE001  the next scene is played all the same
            failed += 1
            sys.stdout.write(f"FAILED {scene.__name__}\n{traceback.format_exc()}\n")
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
