"""Scenes with agents of Strands: `scenes FOLDER` plays each of them, and prints what failed."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from strands import Agent, ToolContext, tool
from strands.models.model import Model
from strands.types.exceptions import EventLoopException

import takeback
from takeback.frameworks.strands import Takeback
from tests.frameworks import shop


class Rounds(Model):
    """A model that asks for one call in each round, always with the same id, and then says that it is done."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        said = [n for n, message in enumerate(messages) if "text" in message["content"][0]]
        done = sum(message["role"] == "assistant" for message in messages[said[-1] :])
        yield {"messageStart": {"role": "assistant"}}
        if done < len(self.names):
            use = {"name": self.names[done], "toolUseId": "call_0"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"room": "attic"}'}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if done < len(self.names) else "end_turn"}}


class Scene:
    """A folder for one scene."""

    def __init__(self, folder: Path) -> None:
        (folder / "work").mkdir(parents=True)
        (folder / "shop").mkdir()
        os.environ |= {"WORK": str(folder / "work"), "SHOP": str(folder / "shop")}
        self.workspace = takeback.open(folder / "work")

    @property
    def thread(self) -> takeback.Thread:
        return self.workspace.thread(key="strands/talk")

    def session(self) -> Takeback:
        """The session as another process would open it."""
        return Takeback(self.workspace, "talk")

    def agent(self, *names: str, tools: list[Any], **more: Any) -> Agent:
        model, session = Rounds(*names), self.session()
        return Agent(model, tools=tools, session_manager=session, callback_handler=None, **more)

    def lose_the_last_result(self) -> None:
        """Forget what was stored after the last message of the model: as if the process had been killed."""
        session = self.session()
        stored = session.session_repository.list_messages("talk", "default")
        last = max(one.message_id for one in stored if "toolUse" in one.message["content"][0])
        log = session._log
        log.items.go_back(log.position_of("default", last + 1))


def refused(expected: type[BaseException], act: Callable[[], Any]) -> str:
    try:
        act()
    except expected as error:
        return str(error)
    raise AssertionError(f"{expected.__name__} was not raised")


def rooms() -> list[str]:
    return [row["room"] for row in shop.rows("bookings")]


def ids_that_repeat_are_told_apart(scene: Scene) -> None:
    scene.agent("book", "book", tools=[tool(shop.book)])("go")
    scene.agent("book", tools=[tool(shop.book)])("again")
    assert rooms() == ["attic"] * 3
    report = scene.session().go_back(6)
    assert report.verdict == "clean" and rooms() == ["attic"] * 2
    assert [message["role"] for message in scene.agent(tools=[]).messages] == ["user", "assistant"] * 3
    assert scene.session().go_back(0).verdict == "clean" and rooms() == []
    assert scene.agent(tools=[]).messages == []
    assert "has no 7 messages" in refused(takeback.UsageError, lambda: scene.session().go_back(7))


def results_come_back_as_they_were(scene: Scene) -> None:
    @tool
    @takeback.action(effect="none")
    def look(room: str) -> dict[str, Any]:
        """Look at a room."""
        shop.add("looks", room=room)
        image = {"format": "png", "source": {"bytes": b"\x89PNG"}}
        return {"status": "success", "content": [{"text": room}, {"image": image}]}

    agent = scene.agent("look", tools=[look])
    agent("go")
    scene.lose_the_last_result()
    again = scene.agent("look", tools=[look])
    again(None)
    assert len(shop.rows("looks")) == 1
    assert again.messages[2]["content"] == agent.messages[2]["content"]
    assert (
        again.messages[2]["content"][0]["toolResult"]["content"][1]["image"]["source"]["bytes"] == b"\x89PNG"
    )


def a_result_that_cannot_be_stored_is_never_made_twice(scene: Scene) -> None:
    @tool
    @takeback.action(effect="restorable")
    def odd(room: str) -> dict[str, Any]:
        """Return something that JSON does not have."""
        shop.add("odd", room=room)
        return {"status": "success", "content": [{"json": {"room": object()}}]}

    said = refused(EventLoopException, lambda: scene.agent("odd", tools=[odd])("go"))
    assert "a message cannot be stored in the session" in said
    again = scene.agent("odd", tools=[odd])
    again(None)
    assert len(shop.rows("odd")) == 1 and scene.thread.actions()[0].outcome == "done"
    told = again.messages[2]["content"][0]["toolResult"]
    assert told["status"] == "error" and "could not be stored" in told["content"][0]["text"]


def a_tool_that_asks_its_own_human_is_called_again(scene: Scene) -> None:
    @tool(context=True)
    @takeback.action(undo=shop.cancel, check=shop.find)
    def book(room: str, tool_context: ToolContext) -> str:
        """Book a room, if the human wants it."""
        answer = tool_context.interrupt("sure", reason="really?")
        return shop.book(room) if answer == "yes" else "left"

    asked = scene.agent("book", tools=[book])("go")
    assert asked.stop_reason == "interrupt" and rooms() == []
    assert [action.outcome for action in scene.thread.actions()] == ["cut-short"]
    said = {"interruptId": asked.interrupts[0].id, "response": "yes"}
    assert scene.agent("book", tools=[book])([{"interruptResponse": said}]).stop_reason == "end_turn"
    assert rooms() == ["attic"] and scene.thread.actions()[-1].outcome == "done"
    assert scene.session().go_back(0).verdict == "clean" and rooms() == []


def a_human_may_answer_with_a_word(scene: Scene) -> None:
    @tool
    @takeback.action(effect="irreversible")
    def pay(room: str) -> str:
        """Pay for a room."""
        shop.add("payments", room=room)
        return "paid"

    for answer, paid in ((False, 0), (True, 1)):
        asked = scene.agent("pay", tools=[pay])(f"pay {answer}")
        assert asked.interrupts[0].reason["approve"] == "pay"
        said = {"interruptId": asked.interrupts[0].id, "response": answer}
        scene.agent("pay", tools=[pay])([{"interruptResponse": said}])
        assert len(shop.rows("payments")) == paid


def direct_calls_and_second_agents_belong_to_the_session(scene: Scene) -> None:
    agent = scene.agent(tools=[tool(shop.book)])
    agent.tool.book(room="barn")
    assert rooms() == ["barn"] and [action.name for action in scene.thread.actions()] == ["book"]
    scene.agent("book", tools=[tool(shop.book)], agent_id="other")("go")
    assert rooms() == ["barn", "attic"]
    assert len(scene.agent(tools=[], agent_id="other").messages) == 4
    assert scene.session().go_back(0, agent_id="other").verdict == "clean" and rooms() == ["barn"]
    assert scene.agent(tools=[], agent_id="other").messages == []


def a_redacted_message_stays_redacted(scene: Scene) -> None:
    agent = scene.agent(tools=[])
    agent("a secret")
    redacted: Any = {"role": "assistant", "content": [{"text": "redacted"}]}
    agent._session_manager.redact_latest_message(redacted, agent)  # type: ignore[union-attr]
    assert [message["content"][0]["text"] for message in scene.agent(tools=[]).messages] == [
        "a secret",
        "redacted",
    ]
    repository = scene.session().session_repository
    found = repository.read_message("talk", "default", 1)
    assert found is not None and found.to_message()["content"] == [{"text": "redacted"}]
    assert repository.read_message("talk", "default", 2) is None
    assert len(repository.list_messages("talk", "default", limit=1, offset=1)) == 1


SCENES = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__annotations__", {}).get("scene") == "Scene"
]


def main(folder: str) -> None:
    failed = 0
    for number, play in enumerate(SCENES):
        scene = Scene(Path(folder) / str(number))
        try:
            play(scene)
            sys.stdout.write(f"passed {play.__name__}\n")
        except Exception:  # noqa: BLE001  the next scene is played all the same
            failed += 1
            sys.stdout.write(f"FAILED {play.__name__}\n{traceback.format_exc()}\n")
        finally:
            scene.workspace.close()
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
