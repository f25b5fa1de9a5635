"""What the scripted agents do: each of the things that are hard to follow, in the tools of each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Script = dict[str, Sequence[Mapping[str, Any]]]

START = {
    "app.py": "print('one')\n",
    "old.txt": "to be removed\n",
    "draft.txt": "to be moved\n",
    "data/table.csv": "a,b\n1,2\n",
}
"""The project before an agent comes."""

WAITING = "until [ -e {go} ]; do sleep 0.02; done; echo late > late.txt; touch {gone}"
"""A command that ends only after somebody says so."""


def begin(project: Path) -> None:
    for name, text in START.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def tool(name: str, **given: Any) -> dict[str, Any]:
    return {"name": name, "input": given}


def turn(*tools: Mapping[str, Any], text: str = "", after: Path | None = None) -> dict[str, Any]:
    return {"text": text or ("" if tools else "Done."), "tools": list(tools), "after": str(after or "")}


def claude_code(project: Path, signals: Path) -> Script:
    """Write, edit, remove, move, fail, be refused, work in the background, delegate, do several things at once."""

    def bash(command: str, **more: Any) -> dict[str, Any]:
        return tool("Bash", command=command, description="work", **more)

    def path(name: str) -> str:
        return str(project / name)

    go, gone = signals / "go", signals / "gone"
    return {
        "work": [
            turn(tool("Write", file_path=path("notes.md"), content="plan\n"), text="I write."),
            turn(tool("Read", file_path=path("app.py")), tool("Read", file_path=path("data/table.csv"))),
            turn(tool("Edit", file_path=path("app.py"), old_string="one", new_string="two")),
            turn(bash("rm old.txt")),
            turn(bash("mkdir kept && mv draft.txt kept/final.txt && cd data")),
            turn(bash("echo 1 > first.txt"), bash("echo 2 > second.txt")),
            turn(bash("echo broken > broken.txt; exit 3")),
            turn(bash("echo forbidden > forbidden.txt")),
        ],
        "more": [
            turn(bash(WAITING.format(go=go, gone=gone), run_in_background=True)),
            turn(tool("Write", file_path=path("meanwhile.txt"), content="meanwhile\n")),
            turn(bash(f"touch {go}; until [ -e {gone} ]; do sleep 0.02; done")),
        ],
        "delegate": [
            turn(
                tool(
                    "Agent",
                    description="help",
                    prompt="[scene helper] help",
                    subagent_type="general-purpose",
                    run_in_background=False,
                )
            ),
            turn(bash("echo main > main.txt")),
        ],
        "helper": [
            turn(tool("Write", file_path=path("helper.txt"), content="helped\n")),
            turn(bash("rm data/table.csv")),
            turn(text="Helped."),
        ],
    }


def codex(project: Path, signals: Path) -> Script:
    """The same with the tools of Codex: a shell, and patches."""

    def shell(command: str, **more: Any) -> dict[str, Any]:
        return tool("exec_command", cmd=command, **more)

    def patch(*lines: str) -> dict[str, Any]:
        text = "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
        return {"name": "apply_patch", "custom": True, "input": text}

    def together(name: str, **given: Any) -> dict[str, Any]:
        return {"name": name, "namespace": "collaboration", "input": given}

    go, gone = signals / "go", signals / "gone"
    return {
        "work": [
            turn(patch("*** Add File: notes.md", "+plan"), text="I write."),
            turn(patch("*** Update File: app.py", "@@", "-print('one')", "+print('two')")),
            turn(shell("rm old.txt")),
            turn(shell("mkdir kept && mv draft.txt kept/final.txt")),
            turn(shell("echo 1 > first.txt"), shell("echo 2 > second.txt")),
            turn(shell("echo broken > broken.txt; exit 3")),
            turn(shell("echo forbidden > forbidden.txt")),
            turn(patch("*** Update File: missing.py", "@@", "-a", "+b")),
            turn(
                patch(
                    "*** Update File: app.py", "*** Move to: moved.py", "@@", "-print('two')", "+print('3')"
                )
            ),
            turn(patch("*** Delete File: notes.md")),
        ],
        "more": [
            turn(shell(WAITING.format(go=go, gone=gone), yield_time_ms=250)),
            turn(patch("*** Add File: meanwhile.txt", "+meanwhile")),
            turn(shell(f"touch {go}; until [ -e {gone} ]; do sleep 0.02; done")),
        ],
        "delegate": [
            turn(
                together("spawn_agent", message="[scene helper] help", task_name="helper", fork_turns="none")
            ),
            turn(together("wait_agent", timeout_ms=30000)),
            turn(shell("echo main > main.txt")),
        ],
        "helper": [
            turn(patch("*** Add File: helper.txt", "+helped")),
            turn(shell("rm data/table.csv")),
            turn(text="Helped."),
        ],
    }


def gemini(project: Path, signals: Path) -> Script:
    """The same with the tools of Gemini CLI."""

    def shell(command: str, **more: Any) -> dict[str, Any]:
        return tool("run_shell_command", command=command, description="work", **more)

    def path(name: str) -> str:
        return str(project / name)

    return {
        "work": [
            turn(tool("write_file", file_path=path("notes.md"), content="plan\n"), text="I write."),
            turn(tool("read_file", file_path=path("app.py")), tool("read_file", file_path=path("old.txt"))),
            turn(
                tool(
                    "replace",
                    file_path=path("app.py"),
                    old_string="one",
                    new_string="two",
                    instruction="change",
                )
            ),
            turn(shell("rm old.txt")),
            turn(shell("mkdir kept && mv draft.txt kept/final.txt")),
            turn(shell("echo 1 > first.txt"), shell("echo 2 > second.txt")),
            turn(shell("echo broken > broken.txt; exit 3")),
            turn(shell("echo forbidden > forbidden.txt")),
        ],
    }


def opencode(project: Path, signals: Path) -> Script:
    """The same with the tools of opencode."""

    def shell(command: str, **more: Any) -> dict[str, Any]:
        return tool("bash", command=command, description="work", **more)

    def path(name: str) -> str:
        return str(project / name)

    return {
        "work": [
            turn(tool("write", filePath=path("notes.md"), content="plan\n"), text="I write."),
            turn(tool("read", filePath=path("app.py")), tool("read", filePath=path("old.txt"))),
            turn(tool("edit", filePath=path("app.py"), oldString="one", newString="two")),
            turn(shell("rm old.txt")),
            turn(shell("mkdir kept && mv draft.txt kept/final.txt")),
            turn(shell("echo 1 > first.txt"), shell("echo 2 > second.txt")),
            turn(shell("echo broken > broken.txt; exit 3")),
            turn(shell("echo forbidden > forbidden.txt")),
        ],
        "delegate": [
            turn(tool("task", description="help", prompt="[scene helper] help", subagent_type="general")),
            turn(shell("echo main > main.txt")),
        ],
        "helper": [
            turn(tool("write", filePath=path("helper.txt"), content="helped\n")),
            turn(shell("rm data/table.csv")),
            turn(text="Helped."),
        ],
    }
