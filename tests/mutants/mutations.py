"""The faults: another comparison, any for all, a condition dropped or turned round, a statement left out."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
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
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list", "reversed": "list"}
# Where a test may stop the program; what is left out without one is not missed.
HOOKS = {"crash_points.reach"}
# Who asks for the truth of these does not see None instead of them.
NOTHING = {"None", "False", "0", "''", "b''", "()", "[]", "{}"}


@dataclass(frozen=True)
class Mutant:
    """One fault: in this file, instead of this text, that one."""

    path: Path
    name: str  # of the function around it
    line: int
    statement: int  # the line where its statement begins
    begin: int
    end: int
    before: str
    after: str
    nth: int = 1  # of the same faults in the same function

    @property
    def key(self) -> str:
        """What names it in the list of equivalent ones, also after lines above it moved."""
        nth = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.name}: {' '.join(self.before.split())} -> {' '.join(self.after.split())}{nth}"

    def applied(self, text: bytes) -> bytes:
        return text[: self.begin] + self.after.encode() + text[self.end :]


def mutants(path: Path) -> Iterator[Mutant]:
    """Return each fault that this file can have, in the order of its lines."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, name, statement in _code(ast.parse(text)):
        for place, after in _faults(node):
            begin = starts[place.lineno - 1] + place.col_offset
            end = starts[(place.end_lineno or place.lineno) - 1] + (place.end_col_offset or 0)
            before = text[begin:end].decode()
            found.append(Mutant(path, name, place.lineno, statement, begin, end, before, after))
    seen: Counter[str] = Counter()
    for mutant in sorted(found, key=lambda mutant: (mutant.begin, mutant.end)):
        seen[mutant.key] += 1
        yield replace(mutant, nth=seen[mutant.key])


def _code(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int]]:
    """Walk over what is carried out: no annotations or assertions, nothing inside an f-string.

    Python 3.11 does not tell where in an f-string something stands.
    """

    def walk(node: ast.AST, name: str, statement: int) -> Iterator[tuple[ast.AST, str, int]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{name}.{node.name}" if name else node.name
        if isinstance(node, ast.stmt):
            statement = node.lineno
        yield node, name, statement
        for field, value in ast.iter_fields(node):
            # frozen=True says what a class is
            is_type = isinstance(node, ast.ClassDef) and field == "keywords"
            if is_type or field in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Assert):
                    yield from walk(child, name, statement)

    yield from walk(tree, "", 1)


def _faults(node: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Return what to put in the place of this, or of a part of it."""
    if isinstance(node, ast.expr):
        for other in _other_values(node):
            made = ast.unparse(other)
            yield node, made if isinstance(other, ast.Slice) else f"({made})"
    elif isinstance(node, ast.stmt):
        for text in _other_statements(node):
            yield node, text
    if isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield condition, "(True)"
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not _is_turned_elsewhere(node.test):
        yield node.test, f"(not ({ast.unparse(node.test)}))"


def _is_turned_elsewhere(test: ast.expr) -> bool:
    """Whether one of the other faults turns the whole of this condition round."""
    return isinstance(test, ast.Compare | ast.NamedExpr) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _other_statements(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call(func=called)) if ast.unparse(called) not in HOOKS:
            yield "pass"
        case ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Continue() | ast.Break():
            yield "pass"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in NOTHING:
            yield "return None"


def _other_values(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            yield from _other_comparisons(node)
        case ast.BoolOp():
            yield from _other_conditions(node)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp():
            yield from _other_operations(node)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            kept = [] if FUNCTIONS[name] == "list" else node.keywords
            yield ast.Call(ast.Name(FUNCTIONS[name]), node.args, kept)
        case ast.Slice(lower=lower, upper=upper):
            if lower:
                yield ast.Slice(None, upper, node.step)
            if upper:
                yield ast.Slice(lower, None, node.step)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)


def _other_comparisons(node: ast.Compare) -> Iterator[ast.expr]:
    for place, operator in enumerate(node.ops):
        if other := COMPARISONS.get(type(operator)):
            made = deepcopy(node)
            made.ops[place] = other()
            yield made


def _other_conditions(node: ast.BoolOp) -> Iterator[ast.expr]:
    """Return and for or, and what is left without each of the parts."""
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _other_operations(node: ast.BinOp) -> Iterator[ast.expr]:
    name = getattr(node.right, "id", getattr(node.right, "attr", ""))
    if isinstance(node.op, ast.BitOr) and name[:1].isupper():
        if name.isupper():
            yield node.left  # one flag less; anything else is a union of types
    elif other := OPERATORS.get(type(node.op)):
        yield ast.BinOp(node.left, other(), node.right)
