"""Rows of guarded PostgreSQL databases.

The server records what an action did; the journal only records that it did something.

A target is what one action did in one database: `shop:a5`. It goes from absent to `tx:a5`, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from takeback.core.change import ABSENT, Change, Target, Version
from takeback.core.events import Did, Mark
from takeback.core.rollback import Do
from takeback.errors import BackendError, ConflictError, TakebackError
from takeback.ports.resource import Swap, Swapped, Traits
from takeback.resources.postgres import connection, guard, undo, words
from takeback.resources.postgres.connection import rows
from takeback.resources.postgres.guarded import GuardedDatabase, GuardedDatabases

if TYPE_CHECKING:
    from takeback.resources.postgres.inverse import Link

RESOURCE = "postgres"
GONE = "the captured rows are gone: the guard was removed from the database"

_FACTS = """
    SELECT action, schema || '.' || name, op, undone_by IS NULL, sum(lines)::bigint, detail ->> 'did'
    FROM takeback.statement WHERE action = ANY(%s)
    GROUP BY action, schema, name, op, undone_by IS NULL, detail ->> 'did' ORDER BY min(id)
    """

_OTHERS = """
    SELECT action, detail ->> 'did' FROM takeback.statement
    WHERE action = ANY(%s) AND op = 'other' AND undone_by IS NOT NULL ORDER BY id
    """


class GuardGone(BackendError):
    """The guard that captured the rows no longer exists."""


class Postgres:
    """What actions did in guarded databases."""

    name = RESOURCE
    traits = Traits()

    def __init__(self, places: GuardedDatabases, token: Callable[[str], str]) -> None:
        """`token` returns the name by which the server knows an action."""
        self._places = places
        self._token = token
        self._done: dict[Target, Mapping[str, Any]] = {}
        """What was taken back of actions that were taken back only in part."""

    def made_by(self, action: str) -> Sequence[Change]:
        return [change for place in self._places.living() if (change := self._made_in(place, action))]

    def _made_in(self, place: GuardedDatabase, action: str) -> Change | None:
        target = Target(RESOURCE, f"{place.name}:{action}")
        try:
            stands = self._standing(place, [action])
        except GuardGone:
            return None  # so nothing was captured
        except TakebackError:
            # Nothing is lost: the server keeps it, and an undo of the action will look there.
            return Change(target, ABSENT, _version(action, {"database": place.guard, "unknown": True}))
        return Change(target, ABSENT, stands[action]) if stands.get(action) else None

    def seen(self, targets: Iterable[Target]) -> Mapping[Target, Version]:
        now: dict[Target, Version] = {}
        for place, some in self._by_place(targets):
            try:
                standing = self._standing(place, [_action(target) for target in some])
            except GuardGone:
                # `foresee` looks again, and can report it
                standing = {action: _version(action, {}) for action in map(_action, some)}
            now |= {target: standing.get(_action(target), ABSENT) for target in some}
        return now

    def _standing(self, place: GuardedDatabase | None, actions: Sequence[str]) -> dict[str, Version]:
        """Return what these actions did there that has not been taken back."""
        with self._session(place) as db:
            found = rows(db, _FACTS, [[self._token(action) for action in actions]])
        facts: dict[str, dict[str, Any]] = {}
        assert place is not None
        for token, table, op, stands, lines, did in found:
            if not stands:
                continue
            data = facts.setdefault(token.rpartition(":")[2], {"database": place.guard})
            if did:
                data.setdefault("did", []).append(did)
            else:
                counts = data.setdefault("tables", {}).setdefault(table, [0, 0, 0])
                counts[{"insert": 0, "update": 1}.get(op, 2)] += lines
        return {action: _version(action, data) for action, data in facts.items()}

    def merge(self, mine: Version, base: Version, goal: Version) -> Version | str:
        return "rows are not merged column by column"

    def tell(self, change: Change, *, back: bool) -> str:
        name = change.target.name.rpartition(":")[0]
        version = change.before if back and change.before else change.after
        data = version.data or change.before.data or {}
        if back and change.target in self._done:
            data = {**data, **self._done[change.target]}
        # A redo brings back what was done, so it is described as it was done.
        return words.told(name, data, back=back and bool(change.before))

    def foresee(self, swaps: Sequence[Swap], kept: Collection[Target]) -> Mapping[Target, tuple[Do, str]]:
        found: dict[Target, tuple[Do, str]] = {}
        for place, forth, some in self._groups(swaps):
            try:
                outcome = self._carry_out(place, some, "trial", forth=forth, trial=True)
            except GuardGone as error:
                found |= {swap.target: (Do.LEAVE, error.message) for swap in some}
                continue
            for swap in some:
                found[swap.target] = self._foreseen(swap, outcome)
        return found

    def _foreseen(self, swap: Swap, outcome: undo.UndoOutcome) -> tuple[Do, str]:
        token = self._token(_action(swap.target))
        why = words.stays(outcome.stays.get(token, ()), outcome.others.get(token, ()))
        self._note(swap, outcome)
        if not outcome.done and token in outcome.stays:
            return Do.CONFLICT, words.reasons(outcome.stays[token])
        if not why:
            return Do.RESTORE, ""
        return (Do.MERGE if token in outcome.touched else Do.LEAVE), why

    def _note(self, swap: Swap, outcome: undo.UndoOutcome) -> None:
        """Remember what was taken back if that is not everything, so that no more is reported."""
        token = self._token(_action(swap.target))
        self._done.pop(swap.target, None)
        others = outcome.others.get(token, ())
        if outcome.done and not swap.goal and (others or outcome.stays.get(token)):
            did = [what for what in (swap.present.data or {}).get("did", ()) if what not in others]
            self._done[swap.target] = {"tables": outcome.counts.get(token, {}), "did": did}

    def swap(
        self, swaps: Sequence[Swap], rollback: str, *, fresh: bool, since: Mark | None = None
    ) -> Sequence[Swapped]:
        done: list[Swapped] = []
        for place, forth, some in self._groups(swaps):
            try:
                done += self._swap(place, some, rollback, forth=forth)
            except ConflictError as error:
                done += [_not_done(swap, Did.CONFLICT, error.message) for swap in some]
            except TakebackError as error:
                done += self._after_loss(place, some, error.message, forth=forth)
        return done

    def _after_loss(
        self, place: GuardedDatabase | None, swaps: Sequence[Swap], why: str, *, forth: bool
    ) -> list[Swapped]:
        """Ask the server what happened: the connection broke, perhaps after everything was done."""
        try:
            standing = self._standing(place, [_action(swap.target) for swap in swaps])
        except TakebackError:
            unknown = f"{why}, as far as is known: the server has not answered since"
            return [_not_done(swap, Did.UNVERIFIABLE, unknown) for swap in swaps]
        there = [swap for swap in swaps if bool(standing.get(_action(swap.target))) is forth]
        return [
            *self._at_goal(place, there),
            *(_not_done(swap, Did.FAILED, why) for swap in swaps if swap not in there),
        ]

    def _at_goal(self, place: GuardedDatabase | None, swaps: Sequence[Swap]) -> list[Swapped]:
        """Return the results of an earlier attempt that committed, including what it had to leave."""
        tokens = {self._token(_action(swap.target)): swap for swap in swaps if not swap.goal}
        with self._session(place) as db:
            found = rows(db, _OTHERS, [list(tokens)]) if tokens else []
        left: dict[Target, list[str]] = {}
        for token, did in found:
            left.setdefault(tokens[token].target, []).append(did)
        return [
            Swapped(
                swap.target, Did.MERGED, swap.goal, verified=False, why=words.stays((), left[swap.target])
            )
            if swap.target in left
            else Swapped(swap.target, Did.RESTORED, swap.goal, verified=True)
            for swap in swaps
        ]

    def _swap(
        self, place: GuardedDatabase | None, swaps: Sequence[Swap], rollback: str, *, forth: bool
    ) -> list[Swapped]:
        standing = self._standing(place, [_action(swap.target) for swap in swaps])
        there = [swap for swap in swaps if bool(standing.get(_action(swap.target))) is forth]
        rest = [swap for swap in swaps if swap not in there]
        done = self._at_goal(place, there) if there else []
        if not rest:
            return done
        outcome = self._carry_out(place, rest, rollback, forth=forth, trial=False)
        for swap in rest:
            token = self._token(_action(swap.target))
            why = words.stays(outcome.stays.get(token, ()), outcome.others.get(token, ()))
            self._note(swap, outcome)
            if outcome.done:
                did = Did.MERGED if why else Did.RESTORED
                whole = token not in outcome.others
                done.append(Swapped(swap.target, did, swap.goal, verified=whole, why=why))
            else:
                why = why or "another change in the same rollback has a conflict"
                done.append(Swapped(swap.target, Did.CONFLICT, swap.present, verified=True, why=why))
        return done

    def _carry_out(
        self, place: GuardedDatabase | None, swaps: Sequence[Swap], rollback: str, *, forth: bool, trial: bool
    ) -> undo.UndoOutcome:
        choice = swaps[0].choice
        actions = [self._token(_action(swap.target)) for swap in swaps]
        act = undo.bring_back if forth else undo.take_back
        with self._session(place) as db:
            return act(db, actions, self._token(rollback), choice, trial=trial)

    @contextmanager
    def _session(self, place: GuardedDatabase | None) -> Iterator[Link]:
        """Yield a connection that is not attributed to an action; after an error the database is as it was."""
        if place is None or not place.dsn:
            raise GuardGone(GONE)
        with connection.translated(place.dsn, "nothing was changed there"):
            db = connection.connect(place.dsn)
            try:
                found = guard.find(db)
                if found is None or found.id != place.guard:
                    raise GuardGone(GONE)
                yield db
            finally:
                db.close()

    def _by_place(self, targets: Iterable[Target]) -> Iterator[tuple[GuardedDatabase | None, list[Target]]]:
        ordered = sorted(targets, key=lambda target: target.name.rpartition(":")[0])
        for name, some in groupby(ordered, key=lambda target: target.name.rpartition(":")[0]):
            yield self._places.named(name), list(some)

    def _groups(self, swaps: Sequence[Swap]) -> Iterator[tuple[GuardedDatabase | None, bool, list[Swap]]]:
        """Group swaps by database and direction: each group is one transaction."""
        by_target = {swap.target: swap for swap in swaps}
        for place, targets in self._by_place(by_target):
            for forth in (False, True):
                some = [by_target[target] for target in targets if bool(by_target[target].goal) is forth]
                if some:
                    yield place, forth, some


def _not_done(swap: Swap, did: Did, why: str) -> Swapped:
    return Swapped(swap.target, did, swap.present, verified=False, why=why)


def _version(action: str, data: dict[str, Any]) -> Version:
    return Version(f"tx:{action}", data={"action": action, **data})


def _action(target: Target) -> str:
    return target.name.rpartition(":")[2]
