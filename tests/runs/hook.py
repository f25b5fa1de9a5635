"""A hook: a short process that begins or ends one action of a session, and is gone.

python -m tests.runs.hook ROOT begin KEY CALL NAME '{"arguments": …}' ['{"effect": …}']
python -m tests.runs.hook ROOT end KEY CALL '{"result": …}'
python -m tests.runs.hook ROOT attach RUN CALL NAME    begins an action in a run of another process
python -m tests.runs.hook ROOT over KEY
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import takeback
from takeback.workspace.opening import open_workspace


def answer(given: takeback.Action | takeback.Denied | takeback.Ask) -> dict[str, Any]:
    if isinstance(given, takeback.Denied):
        return {"denied": given.rule, "reason": given.reason, "how": given.how}
    if isinstance(given, takeback.Ask):
        return {"ask": given.approval, "how": given.how}
    return {"action": given.id, "ended": given.ended, "result": given.result, "key": given.key}


def main(root: str, do: str, key: str, *words: str) -> dict[str, Any]:
    with open_workspace(root, watching=False) as tb:
        if do == "attach":
            return answer(tb.attach(key).begin(words[1], call_id=words[0], effect="restorable"))
        session = tb.session("agent", key=key, pid=int(os.environ.get("AGENT_PID", "0")))
        if do == "begin":
            call, name, *more = words
            given, options = [*map(json.loads, more), {}, {}][:2]
            return answer(session.begin(name, given, call_id=call, **{"effect": "restorable", **options})) | {
                "run": session.id
            }
        if do == "end":
            return answer(session.action(words[0]).end(**json.loads(words[1])))
        session.end()
        return {"run": session.id}


if __name__ == "__main__":
    try:
        answered = main(*sys.argv[1:])
    except takeback.TakebackError as error:
        answered = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps(answered))
