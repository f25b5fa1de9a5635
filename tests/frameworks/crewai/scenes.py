"""Scenes with crews and flows of CrewAI: `scenes FOLDER` plays each of them, and prints what failed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import traceback
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from crewai import LLM, Agent, Crew, Task
from crewai.flow import HumanFeedbackPending, HumanFeedbackProvider, PendingFeedbackContext
from crewai.flow.flow import Flow, start
from crewai.flow.human_feedback import human_feedback
from crewai.flow.persistence import persist
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool, tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel, Field

import takeback
from takeback.frameworks.crewai import (
    StoppedByTakeback,
    TakebackPersistence,
    WaitingForApproval,
    protect_model,
    protect_tools,
)
from tests.frameworks import shop

BOOK = [("book", {"room": "attic"})]
PAY = [("pay", {"amount": 7})]


class Rounds(BaseLLM):
    """A model with a list of rounds, of calls or of texts. It counts how often it is asked."""

    rounds: list[Any] = Field(default_factory=list)
    asked: list[list[Any]] = Field(default_factory=list)
    native: bool = True

    def supports_function_calling(self) -> bool:
        return self.native

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        done = sum(message["role"] == "assistant" for message in messages)
        self.asked.append(messages)
        answer = self.rounds[done] if done < len(self.rounds) else "done"
        if isinstance(answer, str):
            return answer if self.native or answer != "done" else "Thought: I know.\nFinal Answer: done"
        return [
            {
                "id": str(uuid.uuid4()),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(args)},
            }
            for name, args in answer
        ]

    async def acall(self, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(0)
        return self.call(*args, **more)


class Scene:
    """A folder for one scene, and its thread."""

    def __init__(self, folder: Path) -> None:
        (folder / "work").mkdir(parents=True)
        (folder / "shop").mkdir()
        os.environ |= {"WORK": str(folder / "work"), "SHOP": str(folder / "shop")}
        self.workspace = takeback.open(folder / "work")
        self.thread = self.again()

    def again(self) -> takeback.Thread:
        """The same thread as another process would open it."""
        return self.workspace.thread(key="talk", approvals="host")

    def crew(
        self, model: BaseLLM, tools: list[Any], thread: takeback.Thread | None = None, **more: Any
    ) -> Crew:
        thread = thread or self.thread
        agent = Agent(
            role="clerk",
            goal="serve",
            backstory="none",
            tools=protect_tools(tools, thread),
            llm=protect_model(model, thread),
        )
        task = Task(description="serve {guest}", expected_output="done", agent=agent, **more)
        return Crew(agents=[agent], tasks=[task])


def raised(expected: type[BaseException], act: Callable[[], Any]) -> Any:
    try:
        act()
    except expected as error:
        return error
    raise AssertionError(f"{expected.__name__} was not raised")


def refused(expected: type[BaseException], act: Callable[[], Any]) -> str:
    return str(raised(expected, act))


def rooms() -> list[str]:
    return [row["room"] for row in shop.rows("bookings")]


def a_crew_that_is_kicked_off_again_in_its_turn_gets_what_is_recorded(scene: Scene) -> None:
    model = Rounds(model="rounds", rounds=[BOOK])
    with scene.thread.turn("1"):
        first = scene.crew(model, [tool(shop.book)]).kickoff(inputs={"guest": "ann"})
    later = scene.again()
    with later.turn("1"):
        again = scene.crew(model, [tool(shop.book)], later).kickoff(inputs={"guest": "ann"})
    assert rooms() == ["attic"] and len(model.asked) == 2
    assert first.raw == again.raw == "done"
    with later.turn("2"):
        scene.crew(model, [tool(shop.book)], later).kickoff(inputs={"guest": "ann"})
    assert rooms() == ["attic", "attic"] and len(model.asked) == 4
    assert scene.thread.rollback(to="2").verdict == "clean" and rooms() == ["attic"]


def a_model_that_writes_its_calls_as_text_is_recorded_alike(scene: Scene) -> None:
    said = 'Thought: book.\nAction: book\nAction Input: {"room": "attic"}'
    model = Rounds(model="rounds", rounds=[said], native=False)
    for _process in range(2):
        thread = scene.again()
        with thread.turn("1"):
            assert scene.crew(model, [tool(shop.book)], thread).kickoff({"guest": "ann"}).raw == "done"
    assert rooms() == ["attic"] and len(model.asked) == 2


def async_crews_and_tools_are_recorded_alike(scene: Scene) -> None:
    @tool
    @takeback.action(undo=shop.cancel, check=shop.find)
    async def book(room: str) -> str:
        """Book a room."""
        await asyncio.sleep(0)
        return shop.book(room)

    model = Rounds(model="rounds", rounds=[BOOK])
    for _process in range(2):
        thread = scene.again()
        with thread.turn("1"):
            crew = scene.crew(model, [book], thread)
            assert asyncio.run(crew.akickoff(inputs={"guest": "ann"})).raw == "done"
    assert rooms() == ["attic"] and len(model.asked) == 2

    async def asked() -> tuple[Any, Any]:
        thread = scene.again()
        protected = protect_model(Rounds(model="rounds"), thread)
        said = [{"role": "user", "content": "hello"}]
        async with thread.turn("2"):
            return await protected.acall(said), await protect_tools([book], thread)[0].arun(room="barn")

    assert asyncio.run(asked()) == asyncio.run(asked()) == ("done", "booked barn")
    assert rooms() == ["attic", "barn"]


def a_crew_waits_for_approval_however_it_runs(scene: Scene) -> None:
    model = Rounds(model="rounds", rounds=[PAY])
    with scene.thread.turn("1"):
        waits = refused(
            WaitingForApproval, lambda: scene.crew(model, [tool(shop.pay)]).kickoff({"guest": "a"})
        )
    assert "pay waits for your approval: takeback approve" in waits
    in_background = scene.crew(model, [tool(shop.pay)], async_execution=True)
    with scene.thread.turn("2"):
        refused(WaitingForApproval, lambda: in_background.kickoff({"guest": "b"}))
    streaming = scene.crew(model, [tool(shop.pay)])
    streaming.stream = True
    with scene.thread.turn("3"):
        refused(WaitingForApproval, lambda: list(streaming.kickoff({"guest": "c"})))  # type: ignore[arg-type]
    assert shop.rows("payments") == [] and len(scene.workspace.approvals()) == 1
    ask = scene.workspace.approvals()[0]
    assert len(model.asked) == 3
    # In another turn the same request is approved: it is bound to the arguments, and used once.
    with scene.thread.turn("1"):
        waiting = raised(
            WaitingForApproval, lambda: scene.crew(model, [tool(shop.pay)]).kickoff({"guest": "a"})
        )
    assert waiting.ask.approval == ask.id
    waiting.ask.grant(by="ann", via="test").end("paid by hand")
    with scene.thread.turn("1"):
        assert scene.crew(model, [tool(shop.pay)]).kickoff({"guest": "a"}).raw == "done"
    assert shop.rows("payments") == [] and len(model.asked) == 4


def a_crew_stops_if_takeback_fails_and_goes_on_if_a_tool_does(scene: Scene) -> None:
    """CrewAI would tell it to the model as the text of a tool, and the model would go on without a record."""

    @tool
    def use(text: str) -> str:
        """Use Takeback for itself, and fail."""
        raise takeback.UsageError("the tool's own mistake")

    @tool
    async def ends(text: str) -> str:
        """End what records the call."""
        scene.workspace.close()
        return "ended"

    model = Rounds(model="rounds", rounds=[[("use", {"text": "x"})]])
    with scene.thread.turn("1"):
        assert scene.crew(model, [use]).kickoff({"guest": "a"}).raw == "done"
    model = Rounds(model="rounds", rounds=[[("ends", {"text": "x"})]])

    def kicked_off() -> None:
        scene.crew(model, [ends]).kickoff({"guest": "a"})

    with contextlib.suppress(takeback.UsageError), scene.thread.turn("2"):
        stopped = raised(StoppedByTakeback, kicked_off)
    assert isinstance(stopped.error, takeback.UsageError) and "closed" in str(stopped)
    assert len(model.asked) == 1


class Room(BaseModel):
    """What a tool returns."""

    name: str
    beds: int


class Look(BaseTool):
    """A tool with a class of its own."""

    name: str = "look"
    description: str = "Look at a room."

    @takeback.action(effect="none")
    def _run(self, room: str) -> Room:
        shop.add("looks", room=room)
        return Room(name=room, beds=2)


def results_are_told_in_the_same_words_again(scene: Scene) -> None:
    @tool
    def pair(room: str) -> Any:
        """Return something that JSON does not have."""
        shop.add("looks", room=room)
        return (room, {1})

    asked = [("look", {"room": "attic"})], [("pair", {"room": "barn"})]
    model = Rounds(model="rounds", rounds=list(asked))
    for _process in range(2):
        thread = scene.again()
        with thread.turn("1"):
            scene.crew(model, [Look(), pair], thread).kickoff({"guest": "ann"})
    assert len(shop.rows("looks")) == 2 and len(model.asked) == 3
    told = [message["content"] for message in model.asked[-1] if message["role"] == "tool"]
    assert told == ['{"name":"attic","beds":2}', "('barn', {1})"]
    thread = scene.again()
    with thread.turn("2"):
        assert protect_tools([Look()], thread)[0].run(room="attic") == Room(name="attic", beds=2)
    thread = scene.again()
    with thread.turn("2"):
        assert protect_tools([Look()], thread)[0].run(room="attic") == Room(name="attic", beds=2)
    assert len(shop.rows("looks")) == 3


def what_a_tool_reports_as_failed_is_recorded_so(scene: Scene) -> None:
    @tool
    @takeback.action(effect="restorable")
    def send(to: str) -> Any:
        """Send something."""
        return ToolFailure(message=f"{to} is unknown")

    model = Rounds(model="rounds", rounds=[[("send", {"to": "bob"})], [("spoil", {"name": "d.txt"})]])
    with scene.thread.turn("1"):
        scene.crew(model, [send, tool(shop.spoil)]).kickoff({"guest": "ann"})
    assert [(action.name, action.outcome) for action in scene.thread.actions()] == [
        ("send", "failed"),
        ("spoil", "failed"),
    ]
    assert "bob is unknown" in scene.thread.actions()[0].error
    assert "is full" in scene.thread.actions()[1].error


def a_call_that_failed_is_made_again_with_the_same_key(scene: Scene) -> None:
    @tool
    @takeback.action(undo=shop.cancel, check=shop.find)
    def book(room: str) -> str:
        """Book a room, if the other system is there."""
        shop.add("tries", key=takeback.current_call().key)
        if len(shop.rows("tries")) == 1:
            raise ConnectionError("nobody answers")
        return shop.book(room)

    for _process in range(2):
        thread = scene.again()
        with thread.turn("1"):
            scene.crew(Rounds(model="rounds", rounds=[BOOK]), [book], thread).kickoff({"guest": "ann"})
    first, second = shop.rows("tries")
    assert first == second and rooms() == ["attic"]
    assert scene.thread.rollback(to="1").verdict == "clean" and rooms() == []


def nothing_runs_outside_of_a_turn(scene: Scene) -> None:
    model = Rounds(model="rounds", rounds=[BOOK])
    said = refused(
        takeback.UsageError, lambda: scene.crew(model, [tool(shop.book)]).kickoff({"guest": "ann"})
    )
    assert "outside of a turn" in said and not model.asked
    refused(takeback.UsageError, lambda: protect_tools([tool(shop.book)], scene.thread)[0].run(room="attic"))
    assert rooms() == []


def a_restored_tool_refuses_to_run(scene: Scene) -> None:
    protected = protect_tools([tool(shop.book)], scene.thread)[0]
    restored = type(protected).model_validate(protected.model_dump())
    with scene.thread.turn("1"):
        said = refused(takeback.UsageError, lambda: restored.run(room="attic"))
    assert "was restored without its thread" in said and rooms() == []


def copies_of_a_crew_are_protected_too(scene: Scene) -> None:
    model = Rounds(model="rounds", rounds=[BOOK])
    crew = scene.crew(model, [tool(shop.book)])
    for _process in range(2):
        with scene.thread.turn("1"):
            crew.kickoff_for_each([{"guest": "ann"}, {"guest": "bob"}])
    assert rooms() == ["attic", "attic"] and len(model.asked) == 4
    assert type(model) is Rounds and isinstance(crew.agents[0].llm, Rounds)
    twice = protect_model(protect_model(model, scene.thread), scene.thread)
    assert [base.__name__ for base in type(twice).__mro__].count("_Recording") == 1
    assert "is not a tool of CrewAI" in refused(
        takeback.UsageError,
        lambda: protect_tools([shop.book], scene.thread),  # type: ignore[list-item]
    )


class Shaped(Rounds):
    """A model that answers with an object, as it is asked to."""

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.asked.append(messages)
        return Room(name="attic", beds=len(self.asked))


class Part:
    """A call as Gemini's package has it: CrewAI knows it by its name and its shape."""

    def __init__(self, name: str, args: dict[str, Any]) -> None:
        self.function_call = SimpleNamespace(name=name, args=args)


class Gemini(Rounds):
    """A model whose calls must come back to it as they are."""

    def call(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.asked.append(messages)
        if any(message["role"] == "tool" for message in messages):
            return "done"
        return [Part(*BOOK[0])]


def answers_that_are_not_words_are_recorded_or_asked_again(scene: Scene) -> None:
    shaped, said = Shaped(model="rounds"), [{"role": "user", "content": "which room?"}]
    for _process in range(2):
        thread = scene.again()
        with thread.turn("1"):
            answer = protect_model(shaped, thread).call(said, response_model=Room)
        assert answer == Room(name="attic", beds=1)
    gemini = Gemini(model="rounds")
    for _process in range(2):
        thread = scene.again()
        with thread.turn("2"):
            assert scene.crew(gemini, [tool(shop.book)], thread).kickoff({"guest": "ann"}).raw == "done"
    assert rooms() == ["attic"] and len(gemini.asked) == 3
    assert any("raw_tool_call_parts" in message for message in gemini.asked[1])


class Completions(BaseHTTPRequestHandler):
    """What an OpenAI-compatible server answers: a call, and after its result a text."""

    asked: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if body["messages"][-1]["role"] != "tool":
            function = {"name": "book", "arguments": '{"room": "attic"}'}
            call = {"id": f"call-{uuid.uuid4()}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o",
            "choices": [choice],
        }
        told = json.dumps(answer | {"usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: Any) -> None:
        pass


def a_model_of_a_provider_is_recorded_alike(scene: Scene) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Completions)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        for _process in range(2):
            model = LLM(model="openai/gpt-4o", api_key="none", base_url=address)
            assert model.supports_function_calling()
            thread = scene.again()
            with thread.turn("1"):
                assert scene.crew(model, [tool(shop.book)], thread).kickoff({"guest": "ann"}).raw == "done"
    finally:
        server.shutdown()
        server.server_close()
    assert rooms() == ["attic"] and len(Completions.asked) == 2
    called = Completions.asked[1]["messages"]
    assert called[-2]["tool_calls"][0]["id"] == called[-1]["tool_call_id"]


class Later(HumanFeedbackProvider):  # type: ignore[misc, unused-ignore]
    """Asks a human who answers in another process."""

    def request_feedback(self, context: PendingFeedbackContext, flow: Any) -> str:
        raise HumanFeedbackPending(context=context)


def a_flow_that_waits_for_feedback_goes_on_from_the_thread(scene: Scene) -> None:
    def flow(thread: takeback.Thread) -> Any:
        @persist(TakebackPersistence(thread))
        class Review(Flow[dict[str, Any]]):  # type: ignore[type-var, unused-ignore]
            _skip_auto_memory = True

            @start()
            @human_feedback(message="Is this right?", provider=Later())
            def write(self) -> str:
                self.state["written"] = protect_tools([tool(shop.write)], thread)[0].run(
                    name="a.txt", text="a"
                )
                return "a draft"

        return Review

    with scene.thread.turn("1"):
        waiting = flow(scene.thread)(suppress_flow_events=True).kickoff(inputs={"id": "review-1"})
    assert isinstance(waiting, HumanFeedbackPending)
    thread = scene.again()
    with thread.turn("2"):
        resumed = flow(thread).from_pending("review-1", TakebackPersistence(thread))
        resumed.resume("yes")
        assert resumed.state["written"] == "wrote a.txt"
        assert resumed.last_human_feedback.feedback == "yes"
    refused(ValueError, lambda: flow(thread).from_pending("review-1", TakebackPersistence(thread)))
    assert thread.rollback(to="1").verdict == "clean"
    assert TakebackPersistence(thread).load_state("review-1") is None
    assert os.listdir(os.environ["WORK"]) == []
    said = refused(
        takeback.UsageError, lambda: TakebackPersistence(thread).save_state("x", "write", {"no": object()})
    )
    assert "the state of the flow after write cannot be stored" in said


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
