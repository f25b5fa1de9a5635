"""An agent researches, writes a report and emails it. The email fails, so the report is taken back; then it works.

    python examples/research_report_email.py [FOLDER]

Everything happens in FOLDER, or in a temporary one. The mail service is a real HTTP server on loopback.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import takeback

# One file is easier to read here. Put your own handlers into a module, so that `takeback undo` finds them too.
warnings.filterwarnings("ignore", message=".*part of the script itself")

SERVICE: dict[str, Any] = {"url": "", "full": True, "sent": {}}


class Mail(BaseHTTPRequestHandler):
    """PUT /KEY sends an email, unless the mailbox is full. GET /KEY says whether it was sent."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not SERVICE["full"]:
            SERVICE["sent"][self.path] = json.loads(body)
        self._answer(507 if SERVICE["full"] else 201)

    def do_GET(self) -> None:
        self._answer(200 if self.path in SERVICE["sent"] else 404)

    def _answer(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing: the log would clutter the example's output."""


# The agent's tools, each with its effect


@takeback.action(effect="none")
def research(question: str) -> list[str]:
    return [f"{question}: they do", "source: the garden"]


@takeback.action(effect="restorable")
def write_report(path: str, lines: list[str]) -> int:
    """Write into the workspace, in plain Python: Takeback sees the change and can put it back."""
    return Path(path).write_text("\n".join(lines) + "\n")


def was_sent(call: takeback.Call) -> Any:
    try:
        urllib.request.urlopen(f"{SERVICE['url']}/{call.key}").close()
    except urllib.error.HTTPError as error:
        error.close()
        return takeback.ABSENT
    return True


def pretend(_to: str, path: str) -> bool:
    """Stand in for `send_mail` in a shadow: `TAKEBACK_SHADOW=1 python examples/research_report_email.py`."""
    return Path(path).exists()


@takeback.action(effect="irreversible", check=was_sent, simulate=pretend)
def send_mail(to: str, path: str) -> bool:
    text = json.dumps({"to": to, "text": Path(path).read_text()}).encode()
    key = takeback.current_call().key  # the same key for each attempt, so that the email cannot arrive twice
    urllib.request.urlopen(urllib.request.Request(f"{SERVICE['url']}/{key}", text, method="PUT")).close()
    return True


def ask_a_human(question: Any) -> bool:
    print(f"  a human allows {question.asked.name} ({question.id}), since it cannot be taken back")
    return True


def attempt(tb: takeback.Workspace) -> None:
    with tb.run("garden report", key="garden-report", approve=ask_a_human) as run:
        with run.step("research"):
            lines = run.call(research, "do bees like lavender?")
            run.memory["findings"] = lines
        with run.step("write"):
            run.call(write_report, "report.md", lines)
        with run.step("mail"):
            run.call(send_mail, "team@example.org", "report.md")


def main(folder: Path) -> None:
    work = folder / "work"
    if work.exists():
        sys.exit(f"{work} already exists, so nothing was done. Name another folder.")
    work.mkdir(parents=True)
    os.chdir(work)
    Path("notes.md").write_text("my own notes\n")
    server = HTTPServer(("127.0.0.1", 0), Mail)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    SERVICE["url"] = f"http://127.0.0.1:{server.server_port}"
    with takeback.open(work, home=folder / "state") as tb:
        print("The mailbox is full:")
        try:
            attempt(tb)
        except urllib.error.HTTPError as error:
            print(f"  {error}")
            print(f"  {error.__notes__[0]}")
            error.close()
        print(f"  in the folder: {sorted(os.listdir())}; sent: {len(SERVICE['sent'])}")
        SERVICE["full"] = False
        print("The mailbox has room again:")
        attempt(tb)
        print(f"  in the folder: {sorted(os.listdir())}; sent: {len(SERVICE['sent'])}")
        print("The same once more, as after a restart: every step is done, so nothing happens.")
        attempt(tb)
        print(f"  in the folder: {sorted(os.listdir())}; sent: {len(SERVICE['sent'])}")
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary).resolve())
            os.chdir("/")
