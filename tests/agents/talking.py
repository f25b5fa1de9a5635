"""A session of Claude Code that stays: several prompts, with whatever a human does between them and beside them.

It is the client's own protocol for programs, one line of JSON for each message. The human who is asked for a
permission is a function here.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from . import clients

Message = dict[str, Any]

STREAMS = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")


class Talk:
    """Prompts in, messages out. `human` answers what the client asks: whether a tool may be used."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdin is not None and process.stdout is not None
        self._stdin: IO[str] = process.stdin
        self._lines: queue.Queue[str] = queue.Queue()
        self._requests = 0
        self.asked: list[Message] = []
        """What the human was asked."""
        self.human: Callable[[Message], bool] = lambda asked: False
        self.id = ""
        """Of the session, once it is known."""
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, prompt: str) -> list[Message]:
        """A prompt, and all that is said until the client has done with it."""
        message = {"role": "user", "content": prompt}
        self._send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"})
        return list(self._until(lambda said: said.get("type") == "result"))

    def control(self, **request: Any) -> Message:
        """Ask the client itself for something, such as to rewind."""
        self._requests += 1
        id = f"request-{self._requests}"
        self._send({"type": "control_request", "request_id": id, "request": request})
        *_, last = self._until(
            lambda said: said.get("type") == "control_response" and said["response"]["request_id"] == id
        )
        answer: Message = last["response"]
        return answer

    def close(self) -> None:
        self._stdin.close()
        assert self._process.wait(clients.TIME_S_MAX) == 0

    def _send(self, message: Mapping[str, Any]) -> None:
        self._stdin.write(json.dumps(message) + "\n")
        self._stdin.flush()

    def _until(self, is_last: Callable[[Message], bool]) -> Iterator[Message]:
        while True:
            line = self._lines.get(timeout=clients.TIME_S_MAX)
            assert line, f"the client has ended: {self._process.wait(clients.TIME_S_MAX)}"
            said: Message = json.loads(line)
            self.id = self.id or said.get("session_id", "")
            if said.get("type") == "control_request":
                self._permit(said)
            yield said
            if is_last(said):
                return

    def _permit(self, asked: Message) -> None:
        request = asked["request"]
        assert request["subtype"] == "can_use_tool", asked
        self.asked.append(request)
        if self.human(request):
            answer = {"behavior": "allow", "updatedInput": request["input"]}
        else:
            answer = {"behavior": "deny", "message": "The human said no."}
        response = {"subtype": "success", "request_id": asked["request_id"], "response": answer}
        self._send({"type": "control_response", "response": response})

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line)
        self._lines.put("")


@contextmanager
def opened(
    model: clients.Model, desk: clients.Desk, *options: str, env: Mapping[str, str] | None = None
) -> Iterator[Talk]:
    """Claude Code, for several prompts, however it ends."""
    flags = (*STREAMS, "--replay-user-messages", "--permission-prompt-tool", "stdio")
    program, names = clients.claude_program(model)
    with subprocess.Popen(
        [*model.entry, *program, "-p", *flags, *options],
        cwd=desk.project,
        # A program that asks in the client's place says which one it is: without that nobody would be there.
        env=desk.environment(model) | names | {"CLAUDE_CODE_ENTRYPOINT": "sdk-py"} | dict(env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            talk = Talk(process)
            talk.control(subtype="initialize", hooks=None)
            yield talk
        finally:
            # With all that it started: whoever holds the pipe open would keep us waiting.
            with suppress(ProcessLookupError):  # all of them have ended
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def claude_code(
    model: clients.Model, desk: clients.Desk, *options: str, env: Mapping[str, str] | None = None
) -> Iterator[Talk]:
    """The same, up to the end that the client itself makes."""
    with opened(model, desk, *options, env=env) as talk:
        yield talk
        talk.close()
