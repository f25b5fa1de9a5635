"""Making one call: known already, or let through, recorded, made, tried again, and recorded with what it gave."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from takeback import faults
from takeback.core import events as e
from takeback.core import keys
from takeback.core.lifecycle import Life
from takeback.core.subjects import Action, Run
from takeback.core.values import plain, said
from takeback.engine import actions, arguments
from takeback.engine.actions import Function, declared, hides_something, is_async, unwrapped
from takeback.engine.at_work import AtWork, wholly
from takeback.engine.calls import Calls, Seen, change_of, in_doubt, is_gone, is_outside, standing, told
from takeback.engine.gate import Gate
from takeback.engine.ground import name_in_rules
from takeback.engine.life import Heartbeat
from takeback.engine.recovery import settle_calls
from takeback.engine.rollback import Rollbacks
from takeback.engine.tracker import Tracker
from takeback.errors import HandedOver, InvariantBroken, RefusedError, UsageError
from takeback.resources.calls.resource import Call

FINAL = (InvariantBroken, HandedOver, RefusedError)
"""Never tried again, whatever a function declares as transient."""
PAUSE_S = 0.1
PAUSE_MAX_S = 30.0

BEFORE_RECORD = faults.crash_point("call-before-record")
RECORDED = faults.crash_point("call-recorded")
MADE = faults.crash_point("call-made")
ENDED = faults.crash_point("call-ended")


class Parts(Protocol):
    @property
    def tracker(self) -> Tracker: ...
    @property
    def calls(self) -> Calls: ...
    @property
    def gate(self) -> Gate: ...
    @property
    def rollbacks(self) -> Rollbacks: ...


class Given(msgspec.Struct, frozen=True):
    """What a call is given, as it is kept."""

    plain: dict[str, Any]
    key: str
    named: Any
    """The arguments by their names, where they can be told."""
    intent: str = ""
    """For a key that was given: what it is given for."""


class Caller:
    """One call of a run, from its beginning to its end."""

    def __init__(
        self,
        function: Function,
        *,
        run: Run,
        parts: Parts,
        place: str,
        nth: Callable[[str], int],
        key: str,
        parent: str,
        step: str,
        looking: bool,
        retries: int,
        replayed: bool,
        beat: Heartbeat,
        at_work: AtWork,
    ) -> None:
        self._asked_for = function
        self._function, _, _ = unwrapped(function)
        self._declared = declared(function)
        self._tool = name_in_rules(function)
        self._run = run
        self._tracker = parts.tracker
        self._ledger = parts.tracker.ledger
        self._calls = parts.calls
        self._gate = parts.gate
        self._rollbacks = parts.rollbacks
        self._place = place
        self._nth = nth
        self._key = key
        self._parent = parent
        self._step = step
        self._looking = looking and self._declared.effect is not e.Effect.NONE
        self._retries = self._declared.retries or retries
        self._replayed = replayed
        self._beat = beat
        self._at_work = at_work

    def make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _, args, kwargs = unwrapped(self._asked_for, args, kwargs)
        given = self._given(args, kwargs)
        if is_async(self._function):
            return self._make_async(given, args, kwargs)
        with self._at_work.on(given.key):
            return self._make(given, lambda: self._function(*args, **kwargs))

    # The two ways of making it: with threads and with a loop

    def _make(self, given: Given, function: Callable[[], Any]) -> Any:
        if earlier := self._completed(given):
            return self._calls.result(earlier)
        call, id = self._begin(given)
        left = self._retries
        while True:
            try:
                with _Calling(call, id):
                    result = function()
            except BaseException as error:  # noqa: BLE001  an interrupt, too, leaves a call to be judged
                if found := self._after_error(id, error, left):
                    return found.result
            else:
                return self._end(id, given, result)
            time.sleep(self._pause_s(left))
            left -= 1

    async def _make_async(self, given: Given, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        async with self._at_work.on_async(given.key):
            if earlier := self._completed(given):
                return self._calls.result(earlier)
            (call, id), cancelled = await wholly(lambda: self._begin(given), apart=True)
            if cancelled:
                why = "it was cancelled before it was made"
                await wholly(lambda: self._close(id, None, e.Outcome.STOPPED, why, happened=False))
                raise cancelled
            left = self._retries
            while True:
                try:
                    with _Calling(call, id):
                        result = await self._function(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001  as above
                    found, cancelled = await wholly(partial(self._after_error, id, error, left))
                    if found:
                        return _unless(cancelled, found.result)
                else:
                    ended, cancelled = await wholly(partial(self._end, id, given, result))
                    return _unless(cancelled, ended)
                await asyncio.sleep(self._pause_s(left))
                left -= 1

    # Before

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        name = self._declared.name
        kept = {
            "args": [plain(item, f"argument {n} of {name}") for n, item in enumerate(args, 1)],
            "kwargs": {key: plain(item, f"argument {key} of {name}") for key, item in kwargs.items()},
        }
        bound = arguments.by_name(self._function, kept)
        # A name that was chosen is the identity: the function may move. Otherwise two modules may have one of it.
        chosen = name != getattr(self._function, "__qualname__", "")
        identity = name if chosen else self._tool
        intended = keys.intent(bound, self._declared.volatile, arguments.spread(self._function))
        if self._key:
            return Given(kept, self._key, bound, keys.intent_key(identity, intended))
        if hides_something(self._function):
            raise UsageError(
                f"{name} is an object with a state of its own, so its arguments do not say which call is meant; "
                "it was not called",
                hint="run.call(..., key=...) names it, or call a function",
            )
        # Its place among those of the same intent: threads and tasks may come in another order the next time.
        key = partial(keys.action_key, self._place, name=identity, intended=intended)
        return Given(kept, key(position=self._nth(key(position=0))), bound)

    def _completed(self, given: Given) -> Action | None:
        """The same call, if it was completed and not taken back."""
        history = self._ledger.refresh()
        for id in reversed(self._run.keys.get(given.key, [])):
            action = history.actions[id]
            # Nobody else is at work on this key, so one that is open was cut short by an interrupt.
            settle_calls(self._tracker, self._calls, [id], "it was interrupted")
            if action.name != self._declared.name:
                raise UsageError(
                    f"the key {given.key!r} is that of {action.name} ({id}); {self._declared.name} was not called",
                    hint="a key names one action of its run",
                )
            if is_outside(action) and history.is_half_undone(id):
                self._rollbacks.once_more(id)
                if history.is_half_undone(id):
                    raise HandedOver(
                        f"{action.name} ({id}) was to be taken back, and nobody can tell whether it is",
                        hint=f"look, mend its undo handler, then `takeback undo {id}`",
                    )
            if in_doubt(history, action) and not self._cleared_up(action):
                raise HandedOver(
                    f"nobody can tell whether {action.name} ({id}) happened: {action.why}",
                    hint=f"look, then `takeback handover return {self._run.id} --happened {id}` (or --never)",
                )
            # Also one that raised, was cut short, or could not be taken back: the other system has it.
            if standing(history, action):
                return self._same(action, given)
            if is_gone(history, action):
                break
            if action.life is Life.DONE:
                return self._same(action, given)
        if self._replayed:
            raise UsageError(
                f"run {self._run.id} was committed without this call of {self._declared.name}; it was not made",
                hint="a changed plan is another run: give it another key",
            )
        return None

    def _same(self, action: Action, given: Given) -> Action:
        """This recorded call, if it is the one that is wanted: a key that was given says too little by itself."""
        recorded = getattr(action.began, "intent", "")
        if recorded and given.intent and recorded != given.intent:
            raise UsageError(
                f"the key {given.key!r} is that of {action.name} with other arguments ({action.id}); "
                "nothing was called",
                hint="give each call its own key; what differs by attempt is named with @action(volatile=...)",
            )
        return action

    def _cleared_up(self, action: Action) -> bool:
        """Ask the check of a call in doubt once more: it may be able to tell by now."""
        seen = self._calls.look_at(action)
        if seen.in_doubt:
            return False
        changes = told(self._ledger.history, action, happened=seen.happened)
        with self._calls.keeping(seen.result) as kept:
            word = e.ActionTold(action.id, seen.happened, changes, "check", kept.view, kept.full)
            self._ledger.append([word], self._run.id)
        return True

    def _begin(self, given: Given) -> tuple[Call, str]:
        run, named = self._run, self._declared
        if named.effect is e.Effect.DEFERRED:
            raise UsageError(
                f"{named.name} is deferred, which needs the outbox; it was not called",
                hint="call it after the run has committed",
            )
        if named.effect is e.Effect.TRANSACTIONAL:
            raise UsageError(
                f"{named.name} is transactional, which needs a guarded database, and none is; it was not called",
                hint="declare an undo handler, or effect='irreversible'",
            )
        effect = self._gate.effect(named.effect, given.named)
        passed = self._gate.pass_through(
            run.id,
            named.name,
            effect,
            given.plain,
            tool=self._tool,
            named=given.named,
            seen=arguments.seen(self._function, given.plain),
        )
        history = self._ledger.history
        attempts = [id for id in run.keys.get(given.key, []) if is_gone(history, history.actions[id])]
        identity = f"key {run.began.key}" if run.began.key else f"run {run.id}"
        key = keys.call_key(self._tracker.name, identity, run.began.generation, given.key, 1 + len(attempts))
        call = Call(named.name, given.plain["args"], given.plain["kwargs"], key)
        if effect is e.Effect.NONE:
            if passed:
                self._ledger.append(passed, run.id)
            return call, ""
        began = e.ActionBegan(
            named.name,
            effect,
            step=self._step,
            parent=self._parent,
            key=given.key,
            handlers=named.handlers(),
            call_key=key,
            tool=self._tool,
            intent=given.intent,
        )
        with self._calls.keeping(given.plain, arguments.seen(self._function, given.plain)) as kept:
            began = msgspec.structs.replace(began, arguments=kept.view, full=kept.full)
            faults.reach(BEFORE_RECORD)
            id = self._tracker.begin(began, stream=run.id, before=passed, looking=self._looking)
        if self._looking:
            self._beat.add(id)
        faults.reach(RECORDED)
        return call, id

    # After

    def _end(self, id: str, given: Given, result: Any) -> Any:
        """Record what it gave. It happened, whatever becomes of that."""
        try:
            faults.reach(MADE)
            self._beat.show()
            with self._calls.keeping(plain(result, f"what {self._declared.name} returned")) as kept:
                self._close(id, given, e.Outcome.DONE, "", kept.view, kept.full, happened=True)
        except BaseException as error:
            why = error.message if isinstance(error, UsageError) else f"it was made, and then: {said(error)}"
            if id and self._ledger.refresh().actions[id].life is not Life.OPEN:
                raise
            if id or isinstance(error, UsageError):
                self._close(id, given, e.Outcome.FAILED, why, happened=True)
            raise
        faults.reach(ENDED)
        return result

    def _after_error(self, id: str, error: BaseException, left: int) -> Seen | None:
        """Judge a call that raised: None is to try again; what the world has after all is its result."""
        transient = isinstance(error, self._declared.retry_on) and not isinstance(error, FINAL)
        action = self._ledger.history.actions.get(id)
        seen = self._calls.look_at(action) if action else Seen(False)
        if transient and left and not seen.in_doubt:
            if not seen.happened:
                return None
            with self._calls.keeping(seen.result) as kept:
                self._close(id, None, e.Outcome.DONE, seen.why, kept.view, kept.full, happened=True)
            return seen
        why = said(error)
        with self._calls.keeping(seen.result) as kept:
            view, full, doubt = kept.view, kept.full, seen.in_doubt
            self._close(id, None, e.Outcome.FAILED, why, view, full, happened=seen.happened, in_doubt=doubt)
        raise error

    def _close(
        self,
        id: str,
        given: Given | None,
        outcome: e.Outcome,
        why: str,
        result: Any = None,
        full: str = "",
        *,
        happened: bool,
        in_doubt: bool = False,
    ) -> None:
        if not id:
            if given is not None:
                noted = e.ActionNoted(
                    self._declared.name,
                    outcome,
                    self._step,
                    self._parent,
                    given.key,
                    self._calls.keep(given.plain, arguments.seen(self._function, given.plain)).view,
                    result,
                    full,
                    why,
                    self._tool,
                    given.intent,
                )
                self._ledger.append([noted], self._run.id)
            return
        action = self._ledger.history.actions[id]
        changes = change_of(action, in_doubt=in_doubt) if happened else ()
        if self._looking:
            self._tracker.end(id, outcome, why=why, changes=changes, result=result, full=full)
            self._beat.remove(id)
        else:
            ended = e.ActionEnded(id, outcome, changes, why=why, result=result, full=full)
            self._ledger.append([ended], self._run.id)

    def _pause_s(self, left: int) -> float:
        pause_s: float = PAUSE_S * 2 ** (self._retries - left)
        return min(PAUSE_MAX_S, pause_s) * random.uniform(0.5, 1.5)


def _unless(cancelled: asyncio.CancelledError | None, result: Any) -> Any:
    if cancelled:
        raise cancelled
    return result


class _Calling:
    """Says, to whoever asks in this context, which call is being made."""

    def __init__(self, call: Call, id: str) -> None:
        self._here = (call, id)

    def __enter__(self) -> None:
        self._token = actions.current.set(self._here)

    def __exit__(self, *error: object) -> None:
        actions.current.reset(self._token)
