"""`takeback-hook AGENT`: one event of an agent on standard input, the answer in its dialect on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from takeback.agents.dialects import Dialect, dialect
from takeback.agents.event import SILENT, Answer, Decision, Do, Event, Kind
from takeback.errors import TakebackError

# What needs no record. A question that comes in addition to a call is answered there.
IDLE = (Kind.IGNORED, Kind.GATE, Kind.SESSION, Kind.AGENT_BEGIN)


def handle(agent: str, data: bytes, env: Mapping[str, str], *, blocks: bool = True) -> Answer:
    """Record an event, and give the answer. A call that cannot be protected is refused, or allowed with a warning."""
    speech = dialect(agent)
    event = speech.read(data, env)
    if event.kind is Kind.UNREADABLE:
        warning = f"Takeback could not read what {agent} told it ({event.why}), so this was not protected."
        return speech.answer(event, Decision(warning=warning))
    if event.kind in IDLE:
        return SILENT
    try:
        return speech.answer(event, _follow(agent, event))
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent has to be told: it would go on unprotected
        return _unprotected(speech, event, error, blocks=blocks)


def _follow(agent: str, event: Event) -> Decision:
    from takeback import config
    from takeback.agents.following import Following
    from takeback.opening import find_root, open_workspace
    from takeback.storage.registry import Registry

    root = find_root(event.root or event.cwd or ".", Registry(config.state_home()))
    with open_workspace(root, watching=False) as opened:
        return Following(agent, opened).tell(event)


def _unprotected(speech: Dialect, event: Event, error: Exception, *, blocks: bool) -> Answer:
    hint = f" ({error.hint})" if isinstance(error, TakebackError) and error.hint else ""
    why = f"Takeback cannot protect this: {str(error) or type(error).__name__}{hint}"
    if blocks and event.kind is Kind.BEGIN:
        return speech.answer(event, Decision(do=Do.DENY, reason=why, warning=why))
    return speech.answer(event, Decision(warning=why))


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1:
        sys.stderr.write("usage: takeback-hook AGENT, with an event on standard input\n")
        return 1  # not 2: for an agent that would be a refusal
    try:
        answer = handle(words[0], sys.stdin.buffer.read(), os.environ)
    except TakebackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(answer.stdout)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(answer.stderr)
    return answer.code


if __name__ == "__main__":
    sys.exit(main())
