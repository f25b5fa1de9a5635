"""One event without a daemon: slower, and otherwise the same. `python -m takeback.agents.once AGENT`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from takeback.agents.hook import handle
from takeback.errors import TakebackError


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) != 1:
        sys.stderr.write("usage: takeback-hook AGENT, with an event on standard input\n")
        return 1  # not 2: for an agent that would be a refusal
    return tell(words[0], sys.stdin.buffer.read())


def tell(agent: str, data: bytes) -> int:
    """Answer one event of this agent. Return the exit code."""
    try:
        answer = handle(agent, data, os.environ, pid=os.getppid())
    except TakebackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(answer.stdout)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(answer.stderr)
    return answer.code


if __name__ == "__main__":
    sys.exit(main())
