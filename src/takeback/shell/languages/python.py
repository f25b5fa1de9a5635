"""What a Python program says that it does: the commands it runs, the paths it writes, what it sends.

It is found by the names that its words have: of modules, of functions, of texts that stand in the program. What is
done in another way is not found, so the caller always treats a Python program as unknown too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import msgspec

from takeback.shell.judgement import Reach
from takeback.shell.sink import Folders, Sink
from takeback.shell.words import HOLE, HOME, as_given

_SHELLS = {
    *("os.system", "os.popen", "posix.system", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("asyncio.create_subprocess_shell", "commands.getoutput"),
}
_RUNS = {"subprocess." + name for name in ("run", "call", "check_call", "check_output", "Popen")}
_EXECS = {
    **dict.fromkeys(("os.execv", "os.execve", "os.execvp", "os.execvpe"), 1),
    **dict.fromkeys(("os.spawnv", "os.spawnve", "os.spawnvp", "os.spawnvpe"), 2),
    **dict.fromkeys(("os.posix_spawn", "os.posix_spawnp"), 1),
    "pty.spawn": 0,
}
"""Functions that run a program, each with the place of its list of words."""
_SPREAD = {
    "asyncio.create_subprocess_exec": 0,
    "os.execl": 1,
    "os.execlp": 1,
    "os.spawnl": 2,
    "os.spawnlp": 2,
}
"""The same for words that are not in a list."""
_DELETES = {"os.remove", "os.unlink", "os.rmdir", "os.removedirs", "shutil.rmtree"}
_WRITES = {"os.mkdir", "os.makedirs", "os.truncate", "os.chmod", "os.chown", "os.mkfifo", "os.utime"}
_TWO = {
    **dict.fromkeys(("os.rename", "os.replace", "os.renames", "shutil.move"), True),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree"), False),
    **dict.fromkeys(("os.link", "os.symlink"), False),
}
"""Functions of two paths, and whether the first is gone then."""
_METHODS = {
    **dict.fromkeys(("unlink", "rmdir"), True),
    **dict.fromkeys(("write_text", "write_bytes", "touch", "mkdir", "chmod", "rename", "replace"), False),
}
"""Methods of a path, and whether they delete it."""
_SENDS = {"post", "put", "patch", "delete"}
_REQUESTS = {"requests", "httpx", "aiohttp", "urllib3"}
_LOOPBACK = re.compile(r"https?://(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?:[:/]|$)")
TEXT_MAX = 100_000
_ENDS = {"os.kill", "os.killpg", "signal.pthread_kill"}


def judge(sink: Sink, text: str, folders: Folders, words: tuple[str, ...]) -> None:
    """Report what the program does, as far as it can be found."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        sink.say(Reach.UNKNOWN, words, "(python)", "its program cannot be parsed")
        return
    _Program(sink, tree, folders, words).judge()


class _Names(msgspec.Struct):
    """The meaning of the names in a program, where it is unambiguous."""

    dotted: dict[str, str] = {}
    """Names that stand for a module, or for something in one."""
    values: dict[str, ast.expr | None] = {}
    """Names that are set once, to this; None if they are set more than once."""


class _Program:
    def __init__(self, sink: Sink, tree: ast.Module, folders: Folders, words: tuple[str, ...]) -> None:
        self._sink = sink
        self._tree = tree
        self._folders = folders
        self._words = words
        self._names = _names(tree)
        self._texts: dict[str, str] = {}

    def judge(self) -> None:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call):
                self._sink.at(node.lineno)
                try:
                    self._call(node, self._dotted(node.func))
                except RecursionError:
                    self._sink.say(Reach.UNKNOWN, self._words, "(python)", "its program is nested too deeply")

    def _call(self, call: ast.Call, name: str) -> None:
        first = call.args[0] if call.args else _keyword(call, "args") or _keyword(call, "cmd")
        if name in _SHELLS and first is not None:
            self._line(first, call)
        elif name in _RUNS and first is not None:
            self._run(first, call)
        elif name in _EXECS and len(call.args) > _EXECS[name]:
            self._run(call.args[_EXECS[name]], call)
        elif name in _SPREAD:
            self._argv(call.args[_SPREAD[name] :], call)
        elif name in ("exec", "eval") and isinstance(first, ast.Constant) and isinstance(first.value, str):
            self._sink.source(first.value, "python", self._folders, self._words)
        elif name in _ENDS:
            self._say(Reach.IRREVERSIBLE, call, "ends processes")
        elif name in _DELETES | _WRITES and first is not None:
            self._touch(first, deletes=name in _DELETES)
        elif name in _TWO and len(call.args) > 1:
            if _TWO[name]:
                self._touch(call.args[0], deletes=True)
            self._touch(call.args[1])
        elif name in ("open", "io.open", "codecs.open") and first is not None:
            self._open(first, call)
        else:
            self._method(call, name)

    # What it runs

    def _run(self, command: ast.expr, call: ast.Call) -> None:
        command = self._set_to(command)
        if isinstance(command, ast.List | ast.Tuple):
            self._argv(command.elts, call)
        elif isinstance(command, ast.Call) and self._dotted(command.func) == "shlex.split" and command.args:
            self._line(command.args[0], call)
        elif (
            isinstance(command, ast.Call)
            and isinstance(command.func, ast.Attribute)
            and command.func.attr == "split"
        ):
            self._line(command.func.value, call)
        elif _keyword(call, "shell") is not None:
            self._line(command, call)
        else:
            self._argv([command], call)

    def _line(self, command: ast.expr, call: ast.Call) -> None:
        self._sink.line(self._text(command), self._where(call), self._words)

    def _argv(self, words: list[ast.expr], call: ast.Call) -> None:
        self._sink.argv([self._text(word) for word in words], self._where(call))

    def _where(self, call: ast.Call) -> Folders:
        folder = _keyword(call, "cwd")
        return self._folders if folder is None else self._sink.moved(self._text(folder), self._folders)

    # What it writes

    def _touch(self, path: ast.expr, *, deletes: bool = False) -> None:
        self._sink.touch(self._text(path), self._folders, self._words, "python", deletes=deletes)

    def _open(self, path: ast.expr, call: ast.Call) -> None:
        mode = call.args[1] if len(call.args) > 1 else _keyword(call, "mode")
        if mode is not None and set("wax+" + HOLE) & set(self._text(mode)):
            self._touch(path)

    # What it sends, and what it does to a path

    def _method(self, call: ast.Call, name: str) -> None:
        if not isinstance(call.func, ast.Attribute):
            return
        verb, holder = call.func.attr, self._set_to(call.func.value)
        modules = {dotted.partition(".")[0] for dotted in self._names.dotted.values()}
        if (
            verb in _METHODS
            and isinstance(holder, ast.Call | ast.BinOp)
            and (at := self._path(holder)) is not None
        ):
            self._sink.touch(at, self._folders, self._words, "python", deletes=_METHODS[verb])
        elif verb == "open" and (at := self._path(holder)) is not None and call.args:
            if set("wax+") & set(self._text(call.args[0])):
                self._sink.touch(at, self._folders, self._words, "python")
        elif verb in _SENDS and modules & _REQUESTS and call.args and not self._is_loopback(call.args[0]):
            self._say(Reach.IRREVERSIBLE, call, f"sends a {verb.upper()} request")
        elif verb == "request" and modules & _REQUESTS and call.args:
            method = self._text(call.args[0]).upper()
            if method not in ("GET", "HEAD", "OPTIONS") and not self._is_loopback(*call.args[1:2]):
                self._say(Reach.IRREVERSIBLE, call, f"sends a {method if method != HOLE else ''} request")
        elif name == "urllib.request.urlopen" and (len(call.args) > 1 or _keyword(call, "data") is not None):
            self._say(Reach.IRREVERSIBLE, call, "sends data")
        elif verb in ("sendmail", "send_message") and "smtplib" in modules:
            self._say(Reach.IRREVERSIBLE, call, "sends mail")

    def _is_loopback(self, *url: ast.expr) -> bool:
        return bool(url) and _LOOPBACK.match(self._text(url[0])) is not None

    def _say(self, reach: Reach, call: ast.Call, why: str) -> None:
        self._sink.say(reach, [as_given(ast.unparse(call)[:200])], "python", why)

    # What an expression means

    def _dotted(self, node: ast.expr) -> str:
        """Return the dotted name, such as `subprocess.run`, however it was imported; empty if it is ambiguous."""
        if isinstance(node, ast.Name) and self._names.values.get(node.id) is None:
            return self._names.dotted.get(node.id, node.id)
        match self._set_to(node):
            case ast.Attribute(value=value, attr=attr):
                holder = self._dotted(value)
                return f"{holder}.{attr}" if holder else ""
            case ast.Call(func=func, args=[ast.Constant(value=str(module)), *_]) if self._dotted(func) in (
                "__import__",
                "importlib.import_module",
            ):
                return module
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attr)), *_]):
                return f"{self._dotted(value)}.{attr}"
        return ""

    def _set_to(self, node: ast.expr) -> ast.expr:
        """Return what a name is set to, if it is; through a few other names."""
        for _ in range(8):
            value = self._names.values.get(node.id) if isinstance(node, ast.Name) else None
            if value is None:
                break
            node = value
        return ast.Constant(None) if isinstance(node, ast.Name) else node

    def _text(self, node: ast.expr) -> str:
        """Return a text of the program as a word; a hole where it is not plain, or too long."""
        if not isinstance(node, ast.Name):
            text = self._put_together(node)
            return text if len(text) <= TEXT_MAX else HOLE
        if node.id not in self._texts:
            self._texts[node.id] = HOLE  # where it is made of itself
            self._texts[node.id] = self._text(self._set_to(node)) if node.id in self._names.values else HOLE
        return self._texts[node.id]

    def _put_together(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return as_given(text)
            case ast.JoinedStr(values=values):
                return "".join(self._text(value) for value in values)
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return self._text(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"), args=[arg]
            ):
                listed = self._set_to(arg)
                if isinstance(listed, ast.List | ast.Tuple):
                    return between.join(self._text(part) for part in listed.elts)
            case found:
                path = self._path(found)
                return HOLE if path is None else path
        return HOLE

    def _path(self, node: ast.expr) -> str | None:
        """Return a path that is composed of texts; None for anything else."""
        node = self._set_to(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            left = self._path(node.left)
            return None if left is None else f"{left}/{self._text(node.right)}"
        if not isinstance(node, ast.Call):
            return None
        match self._dotted(node.func), node.args:
            case ("pathlib.Path.home", []):
                return HOME
            case ("pathlib.Path" | "pathlib.PurePath" | "pathlib.PosixPath" | "os.path.join", [_, *_]):
                return "/".join(self._text(part) for part in node.args)
            case ("os.path.expanduser" | "os.path.abspath" | "os.path.realpath" | "os.fspath" | "str", [arg]):
                return self._text(arg)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("expanduser", "resolve", "absolute"):
            return self._path(node.func.value)
        return None


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _names(tree: ast.Module) -> _Names:
    names = _Names()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.dotted[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names.dotted[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for name, value in _assigned(tree):
        names.values[name] = value if name not in names.values else None
    return names


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                yield name, value
            case ast.AugAssign(target=ast.Name(id=name)) | ast.arg(arg=name):
                yield name, None
            case ast.For(target=ast.Name(id=name)) | ast.comprehension(target=ast.Name(id=name)):
                yield name, None
            case ast.Assign(targets=targets):
                for target in targets:
                    for one in ast.walk(target):
                        if isinstance(one, ast.Name):
                            yield one.id, None
