"""The maker of the single-file scripts; `./dev docs` writes them.

A script is the modules one after the other, without their imports of each other. So the command line, Python and
a copied file do the same, and a test checks that the copies in scripts/ are current.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
MODULES = (
    "errors",
    "core/redact",
    *(f"workflows/{name}" for name in ("record", "text_limits", "disk", "owners")),
)
MODULES += tuple(f"workflows/{name}" for name in ("places", "checkpoints", "stale", "lines", "script"))
SCRIPTS = {"checkpoint_tool.py": "main", "checkpoint_selfcheck.py": "selfcheck"}
ABOUT = {
    "checkpoint_tool.py": "Checkpoints that survive a restart: start, update, resume, complete, list, prune, check.",
    "checkpoint_selfcheck.py": "Names unfinished workflows that are stale: OK, or ALERT and exit status 1.",
}

HEAD = """\
A single file that needs only Python 3.11: copy it wherever you need it. `./dev docs` generates it from Takeback's
modules; make changes there."""

# These serve only annotations, which are never evaluated; loading them would take time.
FOR_TYPES_ONLY = {"typing", "collections.abc"}


def script(name: str) -> str:
    """Return the text of one script."""
    plain: set[str] = set()
    named: dict[str, set[str]] = {}
    bodies, defined = [], set[str]()
    for module in MODULES:
        text = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
        tree = ast.parse(text)
        for node in tree.body:
            if isinstance(node, ast.Import):
                plain.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not _is_left_out(node.module or ""):
                named.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
        twice = defined & (own := _definitions(tree))
        assert not twice, f"{module} defines {twice}, as a module before it does"
        defined |= own
        bodies.append(f"# --- {module} ---\n\n\n{_body(tree, text)}")
    imports = [f"import {module}" for module in sorted(plain)]
    imports += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(named.items())]
    return "\n".join(
        [
            "#!/usr/bin/env python3",
            f'"""{ABOUT[name]}\n\n{HEAD}\n"""\n',
            "from __future__ import annotations\n",
            *imports,
            "",
            "\n\n".join(bodies),
            "",
            'if __name__ == "__main__":',
            f"    sys.exit({SCRIPTS[name]}())",
            "",
        ]
    )


def _is_left_out(module: str) -> bool:
    return module == "__future__" or module.startswith("takeback.") or module in FOR_TYPES_ONLY


def _definitions(tree: ast.Module) -> set[str]:
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def _body(tree: ast.Module, text: str) -> str:
    """Return the source text after the docstring and the imports."""
    last = max(node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    return "\n".join(text.splitlines()[last:]).strip("\n") + "\n"


def write_scripts(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in SCRIPTS:
        path = folder / name
        path.write_text(script(name), encoding="utf-8")
        path.chmod(0o755)


if __name__ == "__main__":
    write_scripts(Path(sys.argv[1] if len(sys.argv) > 1 else "scripts"))
