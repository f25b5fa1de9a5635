"""A model that does as it is told: real clients of coding agents talk to it on loopback, instead of to a real one.

It speaks Anthropic Messages, OpenAI Responses, Chat Completions and Gemini. What it answers stands in a script:

    {"scene": [{"text": "I write.", "tools": [{"name": "Write", "input": {…}}]}, …]}

A prompt names its scene, as in "[scene tidy] tidy up"; so several sessions, prompts and subagents can go on at once.
Which turn of the scene is next is told by the request alone: how many rounds of tool results came since that prompt,
and how often the scene was over. Nothing is remembered here, so a client may ask again as often as it likes.

A turn may also have "after", a file that has to be there before the answer is given: this puts things that happen at
once into an order. A tool may have a "namespace" or be "custom", as Codex needs for some. `@session@` inside a turn
becomes the number of the last background session that the client told of.

Before each answer it may look at the project, so that there is a picture of the world between any two calls.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import pickle
import re
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.world.picture import Picture, picture

SCENE = re.compile(r"\[scene ([\w-]+)\]")
SESSION = re.compile(r"session ID (\d+)")
END = "[end]"  # the last words of each scene, so that a later request shows that it is over
WAIT_S_MAX = 60.0
TOKENS = 10

Body = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """One entry of a conversation, whatever the dialect: a prompt, the end of a scene, or a round of results."""

    what: str  # "user", "end", "round"
    text: str


@dataclass(frozen=True)
class Turn:
    """What is to be answered."""

    scene: str
    number: int
    text: str
    tools: tuple[Body, ...]

    def id(self, place: int) -> str:
        """Of one tool call. The part before the last underscore is the same for all that are made at once."""
        return f"call_{self.scene}_{self.number}_{place}"

    @property
    def words(self) -> str:
        return self.text if self.tools else f"{self.text} {END}".lstrip()


# --- Reading a request ---


def parts_of(content: Any) -> list[Body]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content or () if isinstance(part, dict)]


def spoken(role: str, text: str) -> Iterator[Said]:
    if role == "user" and SCENE.search(text):
        yield Said("user", text)
    elif role in ("assistant", "model") and text.rstrip().endswith(END):
        yield Said("end", text)


def anthropic_conversation(body: Body) -> Iterator[Said]:
    for message in body.get("messages", ()):
        for part in parts_of(message.get("content")):
            if part.get("type") == "tool_result":
                yield Said("round", str(part.get("tool_use_id")).rpartition("_")[0])
            else:
                yield from spoken(str(message.get("role")), str(part.get("text", "")))


def responses_conversation(body: Body) -> Iterator[Said]:
    for item in parts_of(body.get("input")):
        if str(item.get("type", "")).endswith("_output"):
            yield Said("round", str(item.get("call_id")).rpartition("_")[0])
        for part in parts_of(item.get("content")):
            # What starts an agent comes to it as a message of another one.
            role = "user" if item.get("type") == "agent_message" else str(item.get("role"))
            yield from spoken(role, str(part.get("text") or part.get("encrypted_content", "")))


def chat_conversation(body: Body) -> Iterator[Said]:
    for message in body.get("messages", ()):
        if message.get("role") == "tool":
            yield Said("round", str(message.get("tool_call_id")).rpartition("_")[0])
        for part in parts_of(message.get("content")):
            yield from spoken(str(message.get("role")), str(part.get("text", "")))


def gemini_conversation(body: Body) -> Iterator[Said]:
    for number, content in enumerate(body.get("contents", ())):
        parts = parts_of(content.get("parts"))
        if any("functionResponse" in part for part in parts):
            yield Said("round", str(number))
        for part in parts:
            yield from spoken(str(content.get("role")), str(part.get("text", "")))


def next_turn(script: dict[str, list[Body]], conversation: Iterable[Said]) -> Turn:
    """The turn that the last prompt with a scene is at."""
    scene, rounds, ends = "", set[str](), 0
    for said in conversation:
        if said.what == "user":
            scene, rounds, ends = SCENE.findall(said.text)[-1], set(), 0
        elif said.what == "round":
            rounds.add(said.text)
        else:
            ends += 1
    number = len(rounds) + ends
    turns = script.get(scene, [])
    found: Body = turns[number] if number < len(turns) else {"text": "Done."}
    wait_for(found.get("after", ""))
    return Turn(scene or "none", number, found.get("text", ""), tuple(found.get("tools", ())))


def wait_for(path: str) -> None:
    ends = time.monotonic() + WAIT_S_MAX
    while path and not Path(path).exists() and time.monotonic() < ends:
        time.sleep(0.01)


# --- Answering ---

Event = tuple[str, Body]  # its name, if the dialect has names, and its data


def anthropic_answer(turn: Turn, body: Body) -> tuple[Body, list[Event]]:
    blocks: list[Body] = [{"type": "text", "text": turn.words}] if turn.words else []
    for place, tool in enumerate(turn.tools):
        blocks.append(
            {"type": "tool_use", "id": turn.id(place), "name": tool["name"], "input": tool["input"]}
        )
    stop: Body = {"stop_reason": "tool_use" if turn.tools else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": TOKENS, "output_tokens": TOKENS}
    whole: Body = {"id": f"msg_{turn.scene}_{turn.number}", "type": "message", "role": "assistant"}
    whole |= {"model": body.get("model"), "content": blocks, "usage": usage, **stop}
    begun = whole | {"content": [], "stop_reason": None}
    events: list[Event] = [("message_start", {"message": begun})]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            written = json.dumps(block["input"])
            empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": written}
        events.append(("content_block_start", {"index": index, "content_block": empty}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    events += [("message_delta", {"delta": stop, "usage": usage}), ("message_stop", {})]
    return whole, [(name, {"type": name} | data) for name, data in events]


def responses_answer(turn: Turn, body: Body) -> tuple[Body, list[Event]]:
    items: list[Body] = []
    if turn.words:
        content = [{"type": "output_text", "text": turn.words, "annotations": []}]
        items.append({"type": "message", "id": f"msg_{turn.number}", "role": "assistant", "content": content})
    for place, tool in enumerate(turn.tools):
        call = {"call_id": turn.id(place), "id": f"item_{turn.number}_{place}", "name": tool["name"]}
        if tool.get("custom"):
            items.append(call | {"type": "custom_tool_call", "input": tool["input"]})
        else:
            items.append(call | {"type": "function_call", "arguments": json.dumps(tool["input"])})
        if tool.get("namespace"):
            items[-1]["namespace"] = tool["namespace"]
    begun: Body = {
        "id": f"resp_{turn.scene}_{turn.number}",
        "object": "response",
        "created_at": int(time.time()),
    }
    begun |= {"model": body.get("model"), "status": "in_progress", "output": []}
    usage = {"input_tokens": TOKENS, "output_tokens": TOKENS, "total_tokens": 2 * TOKENS}
    done = [item | {"status": "completed"} for item in items]
    whole = begun | {"status": "completed", "output": done, "usage": usage}
    events: list[Event] = [("response.created", {"response": begun})]
    for index, item in enumerate(items):
        added = {"output_index": index, "item": item | {"status": "in_progress"}}
        events.append(("response.output_item.added", added))
        events.append(("response.output_item.done", {"output_index": index, "item": done[index]}))
    events.append(("response.completed", {"response": whole}))
    return whole, [(name, {"type": name} | data) for name, data in events]


def chat_answer(turn: Turn, body: Body) -> tuple[Body, list[Event]]:
    calls = [
        {
            "index": place,
            "id": turn.id(place),
            "type": "function",
            "function": {"name": tool["name"], "arguments": json.dumps(tool["input"])},
        }
        for place, tool in enumerate(turn.tools)
    ]
    said: Body = {"role": "assistant", "content": turn.words} | ({"tool_calls": calls} if calls else {})
    finish = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": TOKENS, "completion_tokens": TOKENS, "total_tokens": 2 * TOKENS}
    base = {"id": f"chat-{turn.scene}-{turn.number}", "created": int(time.time()), "model": body.get("model")}
    chunk = base | {"object": "chat.completion.chunk"}
    events: list[Event] = [
        ("", chunk | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}),
        ("", chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage}),
    ]
    choice = {"index": 0, "message": said, "finish_reason": finish}
    return base | {"object": "chat.completion", "choices": [choice], "usage": usage}, events


def gemini_answer(turn: Turn, body: Body) -> tuple[Body, list[Event]]:
    parts: list[Body] = [{"text": turn.words}] if turn.words else []
    for place, tool in enumerate(turn.tools):
        call = {"id": turn.id(place), "name": tool["name"], "args": tool["input"]}
        parts.append({"functionCall": call, "thoughtSignature": "AAAA"})
    if (body.get("generationConfig") or {}).get("responseMimeType") == "application/json":
        parts = [{"text": json.dumps({"reasoning": "-", "next_speaker": "user", "model_choice": "pro"})}]
    usage = {
        "promptTokenCount": TOKENS,
        "candidatesTokenCount": TOKENS,
        "totalTokenCount": 2 * TOKENS,
    }
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
    return whole, [("", whole)]


# --- The server ---

DIALECTS = (
    (re.compile(r"/v1/messages$"), anthropic_conversation, anthropic_answer),
    (re.compile(r"/responses$"), responses_conversation, responses_answer),
    (re.compile(r"/chat/completions$"), chat_conversation, chat_answer),
    (re.compile(r":(?:streamG|g)enerateContent$"), gemini_conversation, gemini_answer),
)
COUNTS = {"input_tokens": TOKENS, "totalTokens": TOKENS}  # for whoever asks how long a text is
NO_MODELS: Body = {"object": "list", "data": [], "models": []}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script_file: Path
    log_file: Path
    watched: str

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name is the base class's
        """Standard error stays quiet; requests are in the log."""

    def do_HEAD(self) -> None:
        self._answer({})

    def do_GET(self) -> None:
        self._answer(NO_MODELS)

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"path": path, "body": body}) + "\n")
        for pattern, conversation, answer in DIALECTS:
            if pattern.search(path):
                script = json.loads(self._script(body))
                # A request without tools is a side question, such as one for a title.
                said = conversation(body) if body.get("tools") else ()
                turn = next_turn(script, said)
                self._look(turn)
                whole, events = answer(turn, body)
                if body.get("stream") or "streamGenerate" in path:
                    return self._stream(events, ends="[DONE]" if answer is chat_answer else "")
                return self._answer(whole)
        return self._answer(COUNTS)

    def _script(self, body: Body) -> str:
        text = self.script_file.read_text(encoding="utf-8")
        sessions = SESSION.findall(json.dumps(body.get("input", ""))) if "@session@" in text else ()
        return text.replace('"@session@"', sessions[-1]) if sessions else text

    def _look(self, turn: Turn) -> None:
        """Keep how the world is before this turn. Where it is asked for again, the first look counts."""
        kept = picture_file(self.log_file, turn.scene, turn.number)
        if self.watched and not kept.exists():
            fresh = kept.with_suffix(f".{time.monotonic_ns()}")
            fresh.write_bytes(pickle.dumps(picture(os.fsencode(self.watched))))
            fresh.rename(kept)

    def _body(self) -> Body:
        if self.headers.get("transfer-encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        return body if isinstance(body, dict) else {}

    def _answer(self, whole: Body) -> None:
        data = json.dumps(whole).encode() if self.command != "HEAD" else b""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterable[Event], ends: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())
        if ends:
            self.wfile.write(f"data: {ends}\n\n".encode())


def raise_loopback() -> None:
    """A fresh network namespace has a loopback that is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        ask, set_, up = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
        flags = struct.unpack("16sH14s", fcntl.ioctl(any_socket, ask, struct.pack("16sH14s", b"lo", 0, b"")))[
            1
        ]
        fcntl.ioctl(any_socket, set_, struct.pack("16sH14s", b"lo", flags | up, b""))


def picture_file(log: Path, scene: str, turn: int) -> Path:
    return log.with_name(f"{scene}-{turn}.picture")


def seen(log: Path, scene: str, turn: int) -> Picture:
    """How the world was when the model had to say this turn of a scene: a picture that our own process took."""
    found: Picture = pickle.loads(picture_file(log, scene, turn).read_bytes())
    return found


def main(script: str, log: str, watched: str, *alone: str) -> None:
    if alone:
        raise_loopback()
    Handler.script_file, Handler.log_file, Handler.watched = Path(script), Path(log), watched
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
