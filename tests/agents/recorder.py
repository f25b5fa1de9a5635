"""A hook that only writes down what it is given: one line of JSON for each event, in the file that it is told.

It refuses what has the word "forbidden" in it: with exit code 2 and a reason, and in the answer that our plugin for
opencode understands.
"""

import fcntl
import json
import os
import sys

BEFORE = ("PreToolUse", "BeforeTool", "tool.execute.before")
REFUSAL = "this is not allowed here"
NAMES = (
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ID",
    "GEMINI_PROJECT_DIR",
    "GEMINI_SESSION_ID",
    "GEMINI_CWD",
)


def main(place: str) -> None:
    event = json.loads(sys.stdin.buffer.read())
    seen = {name: os.environ[name] for name in NAMES if name in os.environ}
    with open(place, "a", encoding="utf-8") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        record.write(json.dumps({"env": seen, "stdin": event}) + "\n")
    kind = event.get("hook_event_name") or event.get("event")
    if kind in BEFORE and "forbidden" in json.dumps(event):
        sys.stderr.write(REFUSAL + "\n")
        if "event" in event:
            sys.stdout.write(json.dumps({"refused": REFUSAL}))
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1])
