"""A plan: steps with their tools and arguments, as data that can be judged before anything happens.

The steps form a graph. One waits for another because it says so (`after`), or because an argument refers to the
other's result: `{"$result": "step-id", "path": "/id"}`, where the path is a JSON Pointer into the result. A value
that only looks like a reference is written `{"$literal": …}`.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Annotated, Any

import msgspec

from takeback.core.codec import digest
from takeback.core.events import Effect
from takeback.errors import UsageError

BYTES_MAX = 4 * 2**20
STEPS_MAX = 10_000
DEPTH_MAX = 64
RETRIES_MAX = 100
TARGET = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$(?!\n)"

Id = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$(?!\n)",
        description="A name of your choice, unique in the plan: letters, digits, _ . -",
    ),
]
ToolName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z_][\w.-]*(:[\w.]+)?$(?!\n)",
        description="package.module:function, or a name from `tools` or from [tools] in takeback.toml",
    ),
]
ToolTarget = Annotated[
    str, msgspec.Meta(pattern=TARGET, description="What is imported: package.module:function")
]
Title = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,200}$(?!\n)")]


class PlannedStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One call of a tool."""

    id: Id
    tool: ToolName
    args: Annotated[
        dict[str, Any],
        msgspec.Meta(
            description='The arguments by name. {"$result": "step-id", "path": "/id"} stands for (a part of) '
            'the result of another step, {"$literal": …} for a value as it is'
        ),
    ] = {}
    effect: Annotated[
        Effect | None,
        msgspec.Meta(description="The effect you expect; not weaker than the one the tool declares"),
    ] = None
    after: Annotated[
        tuple[str, ...], msgspec.Meta(description="The steps that have to be done before this one")
    ] = ()
    retries: Annotated[
        int,
        msgspec.Meta(ge=0, le=RETRIES_MAX, description="How often to retry after a temporary failure"),
    ] = 0


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Steps that are done, or taken back, as one run."""

    name: Annotated[Title, msgspec.Meta(description="What the run is called")]
    steps: Annotated[tuple[PlannedStep, ...], msgspec.Meta(min_length=1, max_length=STEPS_MAX)]
    key: Annotated[
        str,
        msgspec.Meta(
            max_length=200,
            description="Two runs with the same key are the same run. By default derived from the plan itself",
        ),
    ] = ""
    tools: Annotated[
        dict[str, ToolTarget],
        msgspec.Meta(description="Short names for this plan: name to package.module:function"),
    ] = {}
    schema: Annotated[str, msgspec.Meta(description="For editors; ignored")] = msgspec.field(
        default="", name="$schema"
    )


class ResultReference(msgspec.Struct, frozen=True):
    """An argument that is (a part of) the result of another step."""

    step: str
    path: str = ""


def parse_plan(data: bytes, name: str = "the plan") -> Plan:
    """Read a plan; raise UsageError with all its faults, by step. `name` is its name in messages."""
    if len(data) > BYTES_MAX:
        raise UsageError(f"{name} has {len(data):,} bytes; a plan has at most {BYTES_MAX:,}")
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}; nothing was done") from error
    try:
        plan = msgspec.convert(raw, Plan)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{name} is not valid: {_told(str(error), raw)}; nothing was done",
            hint="docs/PLANS.md shows a plan, docs/plan.schema.json describes it",
        ) from error
    if faults := [*_faults(plan)]:
        raise UsageError(f"{name} is not valid: {'; '.join(faults)}; nothing was done")
    in_order(plan)
    return plan


_PLACE = re.compile(r"^(.*) - at `\$\.steps\[(\d+)\](.*)`$", re.DOTALL)


def _told(message: str, raw: Any) -> str:
    """Return msgspec's message with the name of the step instead of only its number."""
    if not (found := _PLACE.match(message)):
        return message
    what, number, rest = found[1], int(found[2]), found[3].lstrip(".")
    item = raw["steps"][number]
    id = item.get("id") if isinstance(item, dict) else None
    where = f"step {id}" if isinstance(id, str) and id.isprintable() else f"step number {number + 1}"
    return f"{where}: {f'`{rest}`: ' if rest else ''}{what}"


def _faults(plan: Plan) -> Iterator[str]:
    """Yield the faults of single steps; cycles are checked later."""
    known = {step.id for step in plan.steps}
    seen: set[str] = set()
    for step in plan.steps:
        if step.id in seen:
            yield f"two steps are called {step.id}"
        seen.add(step.id)
        try:
            wanted = dependencies(step)
        except UsageError as error:
            yield f"step {step.id}: {error.message}"
            continue
        for other in wanted:
            if other == step.id:
                yield f"step {step.id} waits for itself"
            elif other not in known:
                yield f"step {step.id} waits for {other!r}, which is not a step of this plan"


def dependencies(step: PlannedStep) -> tuple[str, ...]:
    """Return the steps that have to be done before this one, explicit or implied."""
    return tuple(dict.fromkeys([*step.after, *(reference.step for reference in references(step.args))]))


def references(value: Any, depth: int = 0) -> Iterator[ResultReference]:
    """Yield every reference in these arguments."""
    if depth > DEPTH_MAX:
        raise UsageError(f"the arguments are nested more than {DEPTH_MAX} deep")
    if isinstance(value, dict):
        if (found := _reference(value)) is not None:
            yield found
        elif not _is_literal(value):
            for item in value.values():
                yield from references(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from references(item, depth + 1)


def _reference(value: dict[str, Any]) -> ResultReference | None:
    if "$result" not in value:
        return None
    step, path = value["$result"], value.get("path", "")
    if not isinstance(step, str) or not isinstance(path, str) or not value.keys() <= {"$result", "path"}:
        raise UsageError(
            'a reference is {"$result": "step-id", "path": "/pointer"}; write {"$literal": …} around a value '
            "that is not a reference"
        )
    if (path and not path.startswith("/")) or re.search(r"~(?![01])", path):
        raise UsageError(
            f"{path!r} is not a JSON Pointer such as /items/0/id; an empty one means the whole result"
        )
    return ResultReference(step, path)


def _is_literal(value: dict[str, Any]) -> bool:
    if "$literal" not in value:
        return False
    if len(value) > 1:
        raise UsageError("$literal must be the only key of its object")
    return True


def in_order(plan: Plan) -> tuple[PlannedStep, ...]:
    """Return the steps ordered so that each comes after those it waits for, otherwise as in the file."""
    place = {step.id: number for number, step in enumerate(plan.steps)}
    waits = {step.id: set(dependencies(step)) for step in plan.steps}
    waited_for: dict[str, list[str]] = {step.id: [] for step in plan.steps}
    for id, others in waits.items():
        for other in others:
            waited_for[other].append(id)
    ready = [place[id] for id, others in waits.items() if not others]
    ordered: list[PlannedStep] = []
    while ready:
        step = plan.steps[heapq.heappop(ready)]
        ordered.append(step)
        for id in waited_for[step.id]:
            waits[id].discard(step.id)
            if not waits[id]:
                heapq.heappush(ready, place[id])
    if len(ordered) < len(plan.steps):
        done = {step.id for step in ordered}
        circle = _cycle([step for step in plan.steps if step.id not in done], done)
        raise UsageError(
            f"the plan has a cycle, so no step of it can be first: {' after '.join(circle)}; nothing was done",
            hint="take one of these out of `after`, or one reference out of the arguments",
        )
    return tuple(ordered)


def _cycle(stuck: list[PlannedStep], done: set[str]) -> list[str]:
    """Return one cycle among steps that all wait for another of them."""
    waits = {step.id: next(id for id in dependencies(step) if id not in done) for step in stuck}
    path, here = [], stuck[0].id
    while here not in path:
        path.append(here)
        here = waits[here]
    return [*path[path.index(here) :], here]


def targets(plan: Plan, known: Mapping[str, str]) -> dict[str, str]:
    """Return what each step's tool imports, by step. `known` are the names from takeback.toml."""
    if taken := sorted(plan.tools.keys() & known.keys()):
        raise UsageError(
            f"the plan redefines {', '.join(taken)}, which [tools] in takeback.toml defines; nothing was done",
            hint="choose another name in the plan",
        )
    names = {**known, **plan.tools}
    missing = {step.id: step.tool for step in plan.steps if ":" not in step.tool and step.tool not in names}
    if missing:
        said = "; ".join(f"step {id}: there is no tool {tool!r}" for id, tool in missing.items())
        hint = f"known here: {', '.join(sorted(names))}" if names else "no short names are known here"
        raise UsageError(
            f"{said}; nothing was done",
            hint=f"{hint}. Or name it package.module:function",
        )
    return {step.id: names.get(step.tool, step.tool) for step in plan.steps}


def weaker(expected: Effect, own: Effect) -> bool:
    """Return whether a plan expects an effect that is easier to take back than the one the tool declares."""
    order = list(Effect)
    return order.index(expected) < order.index(own)


def default_key(plan: Plan, imports: Mapping[str, str]) -> str:
    """Return a key that depends only on the plan and its tools, not on the layout of the file."""
    bare = msgspec.structs.replace(plan, schema="", key="")
    return f"plan:{digest(msgspec.json.encode([bare, imports], order='sorted'))}"


def resolve(value: Any, results: Mapping[str, Any]) -> Any:
    """Return these arguments with references replaced by results."""
    return _replaced(value, lambda reference: _follow(reference, results[reference.step]))


def known_part(value: Any) -> Any:
    """Return these arguments as far as they are known before anything has run: references become None."""
    return _replaced(value, lambda _: None)


def _replaced(value: Any, by: Callable[[ResultReference], Any]) -> Any:
    if isinstance(value, dict):
        if (found := _reference(value)) is not None:
            return by(found)
        if _is_literal(value):
            return deepcopy(value["$literal"])
        return {key: _replaced(item, by) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, by) for item in value]
    return value


def _follow(reference: ResultReference, result: Any) -> Any:
    here = result
    for token in reference.path.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and re.fullmatch(r"0|[1-9][0-9]{0,9}", name) and int(name) < len(here):
            here = here[int(name)]
        else:
            # Names of fields help, values might be secrets.
            fields = f"has the fields {', '.join(map(str, here))[:200]}" if isinstance(here, dict) else ""
            found = fields or f"is {_shape(here)}"
            raise UsageError(f"the result of step {reference.step} has no {reference.path}: it {found}")
    return deepcopy(here)  # a tool that modifies its arguments must not change those of others


def _shape(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else f"a {type(value).__name__}"
