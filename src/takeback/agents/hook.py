"""`takeback-hook AGENT`: one event of an agent on standard input, the answer in its dialect on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from takeback.agents.dialects import Dialect, dialect
from takeback.agents.event import SILENT, Answer, Decision, Event, Kind
from takeback.errors import TakebackError

# What begins nothing: there is something to say about it only where somebody was at work already.
IDLE = (Kind.GATE, Kind.SESSION, Kind.AGENT_BEGIN)


def handle(agent: str, data: bytes, env: Mapping[str, str]) -> Answer:
    """Record an event, and give the answer. A call that cannot be protected is refused, or allowed with a warning."""
    speech = dialect(agent)
    event = speech.read(data, env)
    if event.kind is Kind.UNREADABLE:
        warning = f"Takeback could not read what {agent} told it ({event.why}), so this was not protected."
        return speech.answer(event, Decision(warning=warning))
    if event.kind is Kind.IGNORED:
        return SILENT
    try:
        return _follow(agent, speech, event)
    except Exception as error:  # noqa: BLE001 - whatever it is, the agent has to be told: it would go on unprotected
        from takeback.agents import unprotected

        return unprotected.answer(speech, event, error)


def _follow(agent: str, speech: Dialect, event: Event) -> Answer:
    from takeback import config
    from takeback.agents import unprotected
    from takeback.agents.following import Following
    from takeback.opening import find_root, open_workspace
    from takeback.storage.registry import Registry

    registry = Registry(config.state_home())
    root = find_root(event.root or event.cwd or ".", registry)
    if event.kind in IDLE and not registry.knows(root):
        return SILENT
    with open_workspace(root, watching=False) as opened:
        try:
            return speech.answer(event, Following(agent, opened).tell(event))
        except Exception as error:  # noqa: BLE001 - as above; now it is known what the settings want
            return unprotected.answer(speech, event, error, opened)


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
