"""A hook that answers by the word that it finds in a command, with the answers of the product.

usage: answering.py AGENT, with an event on standard input
"""

from __future__ import annotations

import os
import sys

from takeback.agents.dialects import dialect
from takeback.agents.event import Event, HookDecision, Kind, Permission

REASON, HOW, CONTEXT = "the reason is blue", "the way is green", "the context is red"


def decision(event: Event) -> HookDecision:
    if event.kind is Kind.BEGIN and "denied" in event.command:
        return HookDecision(do=Permission.DENY, reason=REASON, warning="no", context="no")
    if event.kind is Kind.BEGIN and "asked" in event.command:
        return HookDecision(do=Permission.ASK, reason=REASON, how=HOW)
    if event.kind is Kind.END:
        return HookDecision(context=CONTEXT, warning="a warning")
    return HookDecision()


def main(agent: str) -> None:
    speech = dialect(agent)
    event = speech.read(sys.stdin.buffer.read(), os.environ)
    answer = speech.answer(event, decision(event))
    sys.stdout.buffer.write(answer.stdout)
    sys.stderr.buffer.write(answer.stderr)
    sys.exit(answer.code)


if __name__ == "__main__":
    main(*sys.argv[1:])
