"""Scenes with protected agents: `scenes FOLDER` plays each of them in one process, and prints what failed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents
from agents import (
    Agent,
    ApplyPatchTool,
    CustomTool,
    LocalShellTool,
    Runner,
    RunState,
    ShellCommandOutput,
    ShellResult,
    ShellTool,
    ToolOutputText,
    function_tool,
)
from agents.editor import ApplyPatchResult
from agents.mcp import MCPServer
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
)
from openai.types.responses.response_output_item import LocalShellCall

import takeback
from takeback.frameworks.openai_agents import TakebackSession, TakebackTracing, protect
from tests.frameworks import shop
from tests.frameworks.openai_agents.scripted import scripted, text_of


class Scene:
    """A folder with a workspace and other systems, and a conversation in it."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        (folder / "shop").mkdir()
        os.environ |= {"WORK": str(self.work), "SHOP": str(folder / "shop")}
        self.tb = takeback.open(self.work)
        self.session = TakebackSession("1", self.tb)

    def play(self, agent: Agent[Any], given: Any = "go", **options: Any) -> Any:
        """Play a turn as a process of its own would: with an agent and a session that know nothing yet."""
        self.session = TakebackSession("1", self.tb)
        return asyncio.run(Runner.run(protect(agent, self.session), given, session=self.session, **options))

    def again(self, agent: Agent[Any]) -> Any:
        """Resume the last turn, as after a crash."""
        self.session = TakebackSession("1", self.tb)
        began = asyncio.run(self.session.resume())
        assert began, "there is nothing to resume"
        return asyncio.run(Runner.run(protect(agent, self.session), began, session=self.session))

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(action.name, action.outcome) for action in self.session.thread.actions()]

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.work.iterdir())


class CutShort(Exception):
    """Ends a turn after its calls, as a crash before the next answer of the model does."""


def once(*calls: Any) -> ScriptedModel:
    """A model that makes these calls together, if there are any, and then says "done"."""
    return ScriptedModel([*([[*calls]] if calls else []), [assistant_message("done")]])


def cut(*calls: Any) -> ScriptedModel:
    """A model that makes these calls together, and never answers again."""
    return ScriptedModel([[*calls], ModelStep.raise_error(CutShort("the line is dead"))])


def new_id() -> str:
    return f"call-{uuid.uuid4()}"


def cut_short(scene: Scene, agent: Agent[Any]) -> None:
    try:
        scene.play(agent)
    except CutShort:
        return
    raise AssertionError("the turn was not cut short")


def refused(call: Callable[[], Any]) -> str:
    try:
        call()
    except (takeback.TakebackError, agents.exceptions.UserError) as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_tools_that_are_not_functions_are_called_once(scene: Scene) -> None:
    made: list[str] = []

    def shell(request: Any) -> ShellResult:
        made.append("shell")
        for command in request.data.action.commands:
            subprocess.run(command, shell=True, cwd=scene.work, check=True)
        return ShellResult([ShellCommandOutput(stdout="ok", command="touch")], provider_data={"n": 1})

    def local_shell(request: Any) -> str:
        made.append("local_shell")
        subprocess.run(request.data.action.command, cwd=scene.work, check=True)
        return "local ok"

    class Editor:
        def create_file(self, operation: Any) -> ApplyPatchResult:
            made.append("apply_patch")
            (scene.work / operation.path).write_text(operation.diff)
            return ApplyPatchResult("completed", "created")

        update_file = delete_file = create_file

    async def invent(context: Any, given: str) -> str:
        made.append("invent")
        (scene.work / given).write_text("invented")
        return f"invented {given}"

    invent = takeback.action(effect="restorable")(invent)

    def calls() -> list[Any]:
        patch = {"type": "create_file", "path": "patched.txt", "diff": "+hello"}
        act = {"type": "exec", "command": ["touch", "local.txt"], "env": {}}
        return [
            ResponseFunctionShellToolCall.model_validate(
                {
                    "id": new_id(),
                    "call_id": new_id(),
                    "type": "shell_call",
                    "status": "completed",
                    "action": {
                        "commands": ["touch shell.txt"],
                        "timeout_ms": None,
                        "max_output_length": None,
                    },
                    "environment": None,
                }
            ),
            LocalShellCall.model_validate(
                {
                    "id": new_id(),
                    "call_id": new_id(),
                    "type": "local_shell_call",
                    "status": "completed",
                    "action": act,
                }
            ),
            ResponseApplyPatchToolCall.model_validate(
                {
                    "id": new_id(),
                    "call_id": new_id(),
                    "type": "apply_patch_call",
                    "status": "completed",
                    "operation": patch,
                }
            ),
            ResponseCustomToolCall(
                type="custom_tool_call", id=new_id(), call_id=new_id(), name="invent", input="custom.txt"
            ),
        ]

    def agent(model: Any) -> Agent[Any]:
        tools: list[Any] = [ShellTool(shell), LocalShellTool(local_shell), ApplyPatchTool(Editor())]
        tools.append(CustomTool("invent", "Invents a file.", invent))
        return Agent(name="coder", model=model, tools=tools)

    wanted = ["apply_patch", "invent", "local_shell", "shell"]
    cut_short(scene, agent(cut(*calls())))
    assert sorted(made) == wanted and len(scene.files) == 4, (made, scene.files)
    first = [item for item in asyncio.run(scene.session.get_items()) if "output" in str(item.get("type"))]
    # The model would ask for the same under other ids; the recorded answer is used in its place.
    assert scene.again(agent(once())).final_output == "done"
    second = [item for item in asyncio.run(scene.session.get_items()) if "output" in str(item.get("type"))]
    assert first == second and len(second) == 4, (first, second)
    assert sorted(made) == wanted and {outcome for _, outcome in scene.outcomes} == {"done"}
    report = asyncio.run(scene.session.go_back(""))
    assert str(report.verdict) == "clean" and scene.files == [] and not asyncio.run(scene.session.get_items())


def test_a_tool_with_a_default_needs_no_approval(scene: Scene) -> None:
    @function_tool
    @takeback.action(effect="restorable")
    def note(text: str = "hello") -> str:
        """Write a note."""
        (scene.work / "note").write_text(text)
        return text

    result = scene.play(Agent(name="a", model=once(function_call("note", "", call_id="c")), tools=[note]))
    assert not result.interruptions and scene.files == ["note"], result.interruptions


def test_the_policy_of_a_tool_is_asked_too(scene: Scene) -> None:
    async def policy(context: Any, args: dict[str, Any], call_id: str) -> bool:
        return bool(args["text"] == "rude")

    @function_tool(needs_approval=policy)
    @takeback.action(effect="restorable")
    def note(text: str) -> str:
        """Write a note."""
        (scene.work / "note").write_text(text)
        return text

    def says(text: str) -> Agent[Any]:
        model = once(function_call("note", {"text": text}, call_id=new_id()))
        return Agent(name="a", model=model, tools=[note])

    assert not scene.play(says("kind")).interruptions
    assert (scene.work / "note").read_text() == "kind"
    rude = says("rude")
    result = scene.play(rude)
    assert [item.tool_name for item in result.interruptions] == ["note"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    asyncio.run(Runner.run(result.last_agent, state, session=scene.session))
    assert (scene.work / "note").read_text() == "rude"


def clerk() -> Agent[Any]:
    return Agent(name="clerk", model=scripted(), tools=[function_tool(function) for function in shop.TOOLS])


def test_a_request_of_a_later_turn_is_granted_in_both_ways(scene: Scene) -> None:
    scene.play(clerk(), "prepare")
    result = scene.play(clerk(), "pay")
    assert [item.tool_name for item in result.interruptions] == ["pay"]
    (request,) = scene.tb.approvals()
    kept = result.to_state().to_string()
    scene.tb.approve(request.id)

    async def go_on(*, approved: bool) -> Any:
        agent = protect(clerk(), scene.session)
        state: Any = await RunState.from_string(agent, kept)
        if approved:
            state.approve(state.get_interruptions()[0])
        return await Runner.run(agent, state, session=scene.session)

    # The framework goes on only after an answer of its own.
    assert asyncio.run(go_on(approved=False)).interruptions and not shop.rows("payments")
    assert asyncio.run(go_on(approved=True)).final_output == "done"
    assert shop.rows("payments") == [{"amount": 7}] and not scene.tb.approvals()


def test_a_request_that_was_granted_is_used_when_its_turn_is_resumed(scene: Scene) -> None:
    scene.play(clerk(), "pay")
    scene.tb.approve(scene.tb.approvals()[0].id)
    assert scene.again(clerk()).final_output == "done"
    assert shop.rows("payments") == [{"amount": 7}]


def test_what_the_human_refused_waits_no_longer(scene: Scene) -> None:
    result = scene.play(clerk(), "pay")
    state = result.to_state()
    state.reject(result.interruptions[0])
    assert scene.tb.approvals()
    asyncio.run(Runner.run(result.last_agent, state, session=scene.session))
    assert not scene.tb.approvals() and not shop.rows("payments")


def test_a_tool_that_failed_is_recorded_as_failed(scene: Scene) -> None:
    result = scene.play(clerk(), "fail")
    assert result.final_output == "done"
    assert scene.outcomes == [("write", "done"), ("spoil", "failed")]


def test_a_rule_that_forbids_a_call_is_told_to_the_model(scene: Scene) -> None:
    (scene.work / "takeback.toml").write_text('[rules.tools]\ndeny = ["book"]\n')
    scene.tb.close()
    scene.tb = takeback.open(scene.work)
    scene.play(clerk(), "prepare")
    told = [item["output"] for item in asyncio.run(scene.session.get_items()) if "output" in item]
    assert "was refused" in told[-1] and not shop.rows("bookings"), told


def test_results_come_back_as_they_were(scene: Scene) -> None:
    made = []

    @function_tool
    @takeback.action(effect="none")
    def look() -> Any:
        """Look."""
        made.append(1)
        return [ToolOutputText(text="one"), ToolOutputText(text="two")]

    @function_tool
    @takeback.action(effect="none")
    def count() -> Any:
        """Count."""
        made.append(1)
        return {"n": 3, "of": {"x"}}

    def agent(model: Any) -> Agent[Any]:
        return Agent(name="a", model=model, tools=[look, count])

    calls = [function_call("look", {}, call_id="a"), function_call("count", {}, call_id="b")]
    cut_short(scene, agent(cut(*calls)))
    first = asyncio.run(scene.session.get_items())
    scene.again(agent(once()))
    assert asyncio.run(scene.session.get_items())[: len(first)] == first and len(made) == 2


class Notes(MCPServer):
    """A server of the Model Context Protocol, in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[Any] = []

    @property
    def name(self) -> str:
        return "notes"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[MCPTool]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        found: list[MCPTool] = [MCPTool.model_validate({"name": "remember", "inputSchema": schema})]
        return found

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> CallToolResult:
        self.called.append(arguments)
        return CallToolResult(content=[TextContent(type="text", text="remembered")])

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


def test_tools_of_mcp_servers_are_called_once(scene: Scene) -> None:
    server = Notes()
    call = function_call("remember", {"text": "milk"}, call_id="c")
    cut_short(scene, Agent(name="a", model=cut(call), mcp_servers=[server]))
    scene.again(Agent(name="a", model=once(), mcp_servers=[server]))
    assert server.called == [{"text": "milk"}] and scene.outcomes == [("remember", "done")]


def test_traces_are_linked_with_actions(scene: Scene) -> None:
    tracing = TakebackTracing()
    agents.set_trace_processors([tracing])
    agents.set_tracing_disabled(False)
    try:
        with agents.trace("a booking") as trace:
            scene.play(clerk(), "prepare")
    finally:
        agents.set_tracing_disabled(True)
    actions = scene.session.thread.actions()
    links = tracing.links(trace.trace_id)
    assert [(link.tool, link.action) for link in links] == [(action.name, action.id) for action in actions]
    assert all(trace.trace_id in action.ref for action in actions)


def test_a_session_has_what_the_framework_asks_for(scene: Scene) -> None:
    async def play() -> None:
        session = scene.session
        assert await session.resume() == [] and await session.turns() == []
        await session.add_items([{"role": "user", "content": "a"}])
        await session.add_items(
            [{"role": "assistant", "content": "b"}, {"role": "assistant", "content": "c"}]
        )
        assert [text_of(item) for item in await session.get_items(2)] == ["b", "c"]
        (turn,) = await session.turns()
        assert turn.is_done and await session.resume() == []
        assert await session.pop_item() == {"role": "assistant", "content": "c"}
        await session.clear_session()
        assert await session.get_items() == [] and await session.pop_item() is None

    asyncio.run(play())
    assert "nothing was taken back" in refused(lambda: asyncio.run(scene.session.go_back("elsewhere")))


def test_a_turn_can_be_resumed_with_other_words(scene: Scene) -> None:
    call = function_call("write", {"name": "a.txt", "text": "a"}, call_id="c")
    tools = [function_tool(shop.write)]
    cut_short(scene, Agent(name="a", model=cut(call), tools=tools))
    session = scene.session = TakebackSession("1", scene.tb)
    assert text_of(asyncio.run(session.resume())[0]) == "go"
    agent = protect(Agent(name="a", model=once(), tools=tools), session)
    asyncio.run(Runner.run(agent, "rather not", session=session))
    assert [text_of(item) for item in asyncio.run(session.get_items())] == ["rather not", "done"]


def test_the_same_words_in_a_new_conversation_are_a_new_turn(scene: Scene) -> None:
    scene.play(clerk(), "prepare")
    asyncio.run(scene.session.clear_session())
    scene.play(clerk(), "prepare")
    assert [row["room"] for row in shop.rows("bookings")] == ["attic", "attic"]


def test_without_a_session_the_same_input_is_the_same_turn(scene: Scene) -> None:
    for _ in range(2):
        agent = protect(clerk(), scene.tb, thread="7")
        assert asyncio.run(Runner.run(agent, "prepare")).final_output == "done"
    assert [row["room"] for row in shop.rows("bookings")] == ["attic"]


def test_what_cannot_be_protected_is_refused(scene: Scene) -> None:
    for wrong in (
        lambda: protect(clerk(), scene.tb),
        lambda: protect(protect(clerk(), scene.session), scene.session),
        lambda: protect(clerk(), scene.session, thread="2"),
    ):
        assert "nothing was protected" in refused(wrong)


def test_a_model_that_nobody_records_calls_no_tools(scene: Scene) -> None:
    config = agents.RunConfig(model=scripted())
    assert "was not called" in refused(lambda: scene.play(clerk(), "prepare", run_config=config))
    assert scene.files == [] and scene.outcomes == []


def test_arguments_that_cannot_be_recorded_are_told_to_the_model(scene: Scene) -> None:
    made = []

    @function_tool
    @takeback.action(effect="restorable")
    def count(to: int) -> str:
        """Count."""
        made.append(to)
        return "counted"

    call = function_call("count", {"to": 10**30}, call_id="c")
    assert scene.play(Agent(name="a", model=once(call), tools=[count])).final_output == "done"
    told = [item["output"] for item in asyncio.run(scene.session.get_items()) if "output" in item]
    assert "more than 64 bits" in told[0] and made == [] and scene.outcomes == []


BUSY = """
import sys, takeback
with takeback.open(sys.argv[1]) as tb:
    tb.thread(key="openai-agents/7").begin("write", {"name": "a", "text": "a"}, call_id="c", effect="none")
    print("begun", flush=True)
    sys.stdin.read()
"""


def test_an_error_of_the_record_stops_the_run(scene: Scene) -> None:
    call = function_call("write", {"name": "a", "text": "a"}, call_id="c")
    agent = Agent(name="a", model=once(call), tools=[function_tool(shop.write)])
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, scene.work], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "begun\n"
        protected = protect(agent, scene.tb, thread="7")
        told = refused(lambda: asyncio.run(Runner.run(protected, "go")))
        other.communicate()
    assert "is being made by process" in told and scene.files == []


def test_identical_patches_of_one_turn_are_both_made(scene: Scene) -> None:
    made = []

    class Editor:
        def update_file(self, operation: Any) -> str:
            made.append(operation.path)
            return "ok"

        create_file = delete_file = update_file

    def patch() -> Any:
        operation = {"type": "update_file", "path": "a", "diff": "+x"}
        about = {"id": new_id(), "call_id": new_id(), "type": "apply_patch_call", "status": "completed"}
        return ResponseApplyPatchToolCall.model_validate(about | {"operation": operation})

    def agent(model: Any) -> Agent[Any]:
        return Agent(name="a", model=model, tools=[ApplyPatchTool(Editor())])

    cut_short(scene, agent(ScriptedModel([[patch()], [patch()], ModelStep.raise_error(CutShort())])))
    scene.again(agent(once()))
    assert made == ["a", "a"]


SCENES: list[Callable[[Scene], None]] = [
    value for name, value in list(globals().items()) if name.startswith("test_")
]


def main(folder: str) -> None:
    failed = 0
    for number, scene in enumerate(SCENES):
        try:
            scene(Scene(Path(folder) / str(number)))
            sys.stdout.write(f"passed {scene.__name__}\n")
        except Exception:  # noqa: BLE001  the next scene is played all the same
            failed += 1
            sys.stdout.write(f"FAILED {scene.__name__}\n{traceback.format_exc()}\n")
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
