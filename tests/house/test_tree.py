"""A folder is one concept that fits into a head; a file is a whole concept too, and not a crumb of another one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from tests.house.source import SourceModule, importers, plant, source

MODULES_MAX = 20
CRUMB_LINES_MAX = 80

# Folders that are one list of things of one kind: commands, and pure decisions.
LISTS = {"cli.commands", "core"}

# Rooms in which a small module that one other uses is as it should be.
SMALL_BY_NATURE = {
    "cli.commands": "a command is a file",
    "core": "it is pure, and tested as such",
    "ports": "it is a contract",
    "senders": "a sender is a file",
    "testing": "it is public",
}

# Small modules that one other imports, each with the reason why it is not a part of that one.
CRUMBS = {
    "engine.shadow.rehearsal": "what stands in for calls; the workspace's part has views and processes",
    "agents.agent_process": "looks at processes; the hook that asks it looks at events",
    "agents.elsewhere": "the workspaces in which one session works; the hook that asks it records in one",
    "agents.doctor.scratch": "a folder that goes away with its process; the trial is what happens in it",
    "agents.hook_removal": "the use case of `uninstall`, which is not the command line's",
    "agents.settings.failing_open": "pure: the line of shell that stands in users' settings",
    "agents.settings.opencode": "pure: one agent's settings, as the others have theirs",
    "cli.pager": "starts the pager of the user; a diff only yields lines",
    "cli.render.sessions": "values in, lines out",
    "cli.render.stats": "values in, lines out",
    "cli.suggest": "loaded only if somebody mistyped",
    "cli.render.worker": "values in, lines out",
    "daemon.hook_command": "the command line that is written into users' settings",
    "daemon.knock": "its path stands in users' settings, and it may load next to nothing",
    "engine.outbox.check": "verifies the outbox against the journal; nothing else of the outbox looks back",
    "engine.outbox.metrics": "the only module that knows OpenTelemetry",
    "engine.sandbox.boot": "the program itself: it runs before anything else of Takeback can be imported",
    "engine.tracking.own_processes": "an implementation of a port, put in by the composition root",
    "frameworks.crewai.flows": "loaded only by whoever has flows; crews do without",
    "resources.files.look.proof": "the deep look, which no ordinary look uses",
    "resources.files.outside.roots": "checks what a caller names, before a run begins",
    "resources.files.tree.cache": "a format on disk",
    "resources.git.format.objects": "knows which objects a version needs",
    "resources.git.put_back.pushes": "what no undo reaches, and the command that would",
    "resources.memory": "a resource",
    "resources.postgres.transactions": "an implementation of a port, put in by the composition root",
    "resources.postgres.words": "pure: values in, sentences out",
    "shell.languages.sed_awk": "pure: one language, as the others have theirs",
    "storage.content.bucket.shelf": "objects with another life than packs",
    "storage.content.bucket.verify": "the bucket's part of verify",
    "storage.content.packs.reader": "reading alone, without the store's state",
    "storage.content.stored_contents": "an implementation of a port, put in by the composition root",
    "storage.journal.memory.lease_table": "one backend's table, as the others have theirs",
    "storage.journal.memory.relocation": "an implementation of a port",
    "storage.journal.postgres.notify": "a connection of its own that listens",
    "storage.journal.postgres.undurable": "what is done after a crash of the server",
    "storage.journal.sqlite.compaction": "loaded only by whoever compacts: every command loads the journal",
    "storage.state.generation": "a format on disk",
    "workflows.text_limits": "pure, and a part of the scripts",
    "workflows.wake": "starts processes; the rest of its package only keeps files",
}


def crowded(known: dict[str, SourceModule]) -> dict[str, int]:
    """Name the folders with too many modules, and how many they have."""
    counts = Counter(name.rpartition(".")[0] for name, module in known.items() if not module.is_package)
    return {name: n for name, n in counts.items() if n > MODULES_MAX and name not in LISTS}


def unsaid(known: dict[str, SourceModule]) -> list[str]:
    """Name the packages whose docstring does not begin with one sentence on one line."""
    found = []
    for name, module in known.items():
        if module.is_package:
            first, _, rest = (ast.get_docstring(module.tree) or "").partition("\n")
            if not re.fullmatch(r"\S.*[.]", first) or (rest and not rest.startswith("\n")):
                found.append(name)
    return found


def crumbs(known: dict[str, SourceModule]) -> set[str]:
    """Name the small modules that exactly one other imports, but for those that are small by nature."""
    by = importers(known)
    return {
        name
        for name, module in known.items()
        if not module.is_package
        and module.lines < CRUMB_LINES_MAX
        and len(by[name]) == 1
        and not any(name.startswith(f"{room}.") for room in SMALL_BY_NATURE)
    }


def test_no_folder_is_crowded() -> None:
    assert crowded(source()) == {}, "which two concepts are in it? give each a folder"


def test_each_package_says_what_it_is_in_a_sentence() -> None:
    assert unsaid(source()) == []


def test_no_module_is_a_crumb_of_another() -> None:
    assert crumbs(source()) - set(CRUMBS) == set(), (
        "merge each into the module that uses it, or say in CRUMBS why not"
    )


def test_each_crumb_that_is_allowed_is_still_one() -> None:
    assert all(CRUMBS.values()) and set(CRUMBS) - crumbs(source()) == set(), "take these off the list"


def test_the_checks_can_fail(tmp_path: Path) -> None:
    texts = {f"full/m{n}": "" for n in range(MODULES_MAX + 1)} | {
        "__init__": '"""All."""',
        "full/__init__": '"""Two lines\nthat are one sentence."""',
        "fine/__init__": '"""One thing.\n\nAnd more of it."""',
        "fine/a": "",
        "user": "import takeback.fine.a\nfrom takeback.full import m0, m1",
        "other": "def f():\n    import takeback.full.m1",
    }
    known = plant(tmp_path, texts)
    assert crowded(known) == {"full": MODULES_MAX + 1}
    assert unsaid(known) == ["full"]
    assert crumbs(known) == {"fine.a", "full.m0"}
