"""The faults: a comparison, any/all, and/or, a dropped `not`, a number, True/False, plus/minus."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One fault: in this file, instead of this text, that one."""

    path: Path
    name: str  # of the function around it
    line: int
    statement: int  # the line where its statement begins, for that is what coverage counts
    begin: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """What names it in the list of equivalent ones, also after lines above it moved."""
        return f"{self.name}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def applied(self, text: bytes) -> bytes:
        return text[: self.begin] + self.after.encode() + text[self.end :]


def mutants(path: Path) -> Iterator[Mutant]:
    """Return each fault that this file can have, in the order of its lines."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, name, statement in _expressions(ast.parse(text)):
        for other in _faults(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            after = f"({ast.unparse(other)})"
            found.append(
                Mutant(path, name, node.lineno, statement, begin, end, text[begin:end].decode(), after)
            )
    yield from sorted(found, key=lambda mutant: (mutant.begin, mutant.end))


def _expressions(tree: ast.Module) -> Iterator[tuple[ast.expr, str, int]]:
    """Walk over what is evaluated: no annotations, nothing inside an f-string (Python 3.11 tells no places there)."""

    def walk(node: ast.AST, name: str, statement: int) -> Iterator[tuple[ast.expr, str, int]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}" if name else node.name
        if isinstance(node, ast.stmt):
            statement = node.lineno
        if isinstance(node, ast.expr):
            yield node, name, statement
        for field, value in ast.iter_fields(node):
            is_type = (
                isinstance(node, ast.ClassDef) and field == "keywords"
            )  # frozen=True says what a class is
            if is_type or field in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from walk(child, name, statement)

    yield from walk(tree, "", 1)


def _faults(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                if other := COMPARISONS.get(type(operator)):
                    made = deepcopy(node)
                    made.ops[place] = other()
                    yield made
        case ast.BoolOp():
            swapped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(swapped, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp() if type(node.op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name]), node.args, node.keywords)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
