"""What may stand in a checkpoint: short texts, and no secrets.

The schema is an allow-list, so a secret can only hide inside a text. A write is refused only for shapes that are
hardly ever anything else; the error names the field, never the value. A rule is compiled only where its hint
occurs: most texts meet none.
"""

from __future__ import annotations

import re
from typing import Any

from takeback.errors import RefusedError, UsageError

TEXT_CHARS_MAX = 200
NOTES_CHARS_MAX = 4_000
STEPS_MAX = 1_000

_NAMED = (
    r"pass(?:word|wd|phrase)|secret|(?:access|auth|bearer|refresh)?[-_ ]?token|api[-_ ]?key|private[-_ ]?key"
)
_PLACEHOLDER = r"(?:[*x.…•-]+|\$|<|\{|\[|%|none\b|null\b|true\b|false\b|hidden\b|redacted\b)"

# What it is called, the hints of which one must occur (in lower case), and its shape.
RULES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("a private key", ("private key",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY"),
    ("a password in a URL", ("://",), r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@"),
    ("a GitHub token", ("gh",), r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("a GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("a GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("a Slack token", ("xox", "xapp-"), r"\b(?:xox[abeposr]-[\w-]{10,}|xapp-[\w-]{20,})"),
    ("a Slack webhook", ("hooks.slack.com",), r"hooks\.slack\.com/services/T\w+/B\w+/\w+"),
    ("an AWS key", ("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a Google key", ("aiza", "ya29."), r"\b(?:AIza[\w-]{30,}|ya29\.[\w-]{20,})"),
    ("an API key", ("k-", "k_"), r"\b[srp]k[-_](?:live|test|proj|ant|or|svcacct)[-_][\w-]{10,}"),
    ("an API key", ("sk-",), r"\bsk-[A-Za-z0-9]{32,}"),
    ("a token", ("eyj",), r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    (
        "a token",
        ("npm_", "pypi-", "hf_", "dop_v1_", "shpat_"),
        r"\b(?:npm_|pypi-|hf_|dop_v1_|shpat_)[\w-]{20,}",
    ),
    ("a mail service key", ("sg.",), r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    ("a bot token", (":aa",), r"\b\d{8,10}:AA[\w-]{33}\b"),
    ("an account key", ("accountkey=", "accesskey="), r"(?i)(?:Account|SharedAccess)Key=[A-Za-z0-9+/=]{20,}"),
    ("an authorization header", ("authorization",), r"(?i)\bauthorization\s*:\s*\S"),
    ("a bearer token", ("bearer ",), r"(?i)\bbearer\s+[\w.~+/-]{16,}"),
    (
        "a password or token",
        ("pass", "secret", "token", "key"),
        rf"(?i)(?<![a-z])(?:{_NAMED})[\"']?\s*[=:]\s*[\"']?(?!{_PLACEHOLDER})[^\s\"',;]{{6,}}",
    ),
)


def secret_in(text: str) -> str:
    """What kind of secret this text seems to hold; empty if none."""
    lower = text.lower()
    for kind, hints, shape in RULES:
        if any(hint in lower for hint in hints) and re.search(shape, text):
            return kind
    return ""


def check(record: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """This record, if it may be written. What stood there before may stay: a file of the skill can be completed."""
    known = {(field == "notes", text) for field, text in _texts(before or {})}
    fresh = [(field, text) for field, text in _texts(record) if (field == "notes", text) not in known]
    for field, text in fresh:
        _check_text(field, text)
    for field in {field for field, _ in fresh}:
        if isinstance(record[field], list) and len(record[field]) > STEPS_MAX:
            raise UsageError(f"{field} has more than {STEPS_MAX} steps; nothing was written")
    return record


def _texts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Every text in it, with its field."""
    lists = ((field, value if isinstance(value, list) else [value]) for field, value in record.items())
    return [(field, text) for field, texts in lists for text in texts if text is not None]


def _check_text(field: str, text: str) -> None:
    notes = field == "notes"
    most = NOTES_CHARS_MAX if notes else TEXT_CHARS_MAX
    plain = " ".join(text.split()) if notes else text
    if len(text) > most:
        raise UsageError(
            f"{field} is longer than {most} characters; nothing was written",
            hint="a checkpoint says how far the work is; keep the work itself in files of its own",
        )
    if plain and not plain.isprintable():
        raise UsageError(f"{field} has characters that cannot be printed; nothing was written")
    if kind := secret_in(text):
        raise RefusedError(
            f"{field} seems to hold {kind}; nothing was written",
            hint="name where the secret is kept, not the secret itself",
        )
