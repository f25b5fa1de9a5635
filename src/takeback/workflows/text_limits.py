"""The rules for texts in a checkpoint: short, and without secrets.

The schema is an allow-list, so a secret can only hide inside a text. A write is refused only for shapes that are
hardly ever anything but a secret (core/redact); the error names the field, never the value.
"""

from __future__ import annotations

from typing import Any

from takeback.core.redact import secret_in
from takeback.errors import RefusedError, UsageError

TEXT_CHARS_MAX = 200
NOTES_CHARS_MAX = 4_000
STEPS_MAX = 1_000


def check(record: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return this record. Raise if a new text is not allowed; one that was there `before` may stay."""
    known = {(field == "notes", text) for field, text in _texts(before or {})}
    fresh = [(field, text) for field, text in _texts(record) if (field == "notes", text) not in known]
    for field, text in fresh:
        _check_text(field, text)
    for field in {field for field, _ in fresh}:
        if isinstance(record[field], list) and len(record[field]) > STEPS_MAX:
            raise UsageError(f"{field} has more than {STEPS_MAX} steps; nothing was written")
    return record


def _texts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return every text of the record, with its field."""
    lists = ((field, value if isinstance(value, list) else [value]) for field, value in record.items())
    return [(field, text) for field, texts in lists for text in texts if text is not None]


def _check_text(field: str, text: str) -> None:
    notes = field == "notes"
    most = NOTES_CHARS_MAX if notes else TEXT_CHARS_MAX
    plain = " ".join(text.split()) if notes else text
    if len(text) > most:
        raise UsageError(
            f"{field} is longer than {most} characters; nothing was written",
            hint="a checkpoint records progress; keep the work itself in separate files",
        )
    if plain and not plain.isprintable():
        raise UsageError(f"{field} has characters that cannot be printed; nothing was written")
    if kind := secret_in(text):
        raise RefusedError(
            f"{field} seems to contain {kind}; nothing was written",
            hint="say where the secret is kept, not the secret itself",
        )
