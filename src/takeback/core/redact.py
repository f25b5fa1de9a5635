"""Secrets do not belong into a log. What looks like one is replaced before it is written down.

High-confidence shapes only: a word that is cut out wrongly makes the log harder to read, and a real secret of no
known shape cannot be told from any other word. Full arguments are kept, where they are needed, as private content.
"""

from __future__ import annotations

import re

HIDDEN = "[hidden]"

SECRET_NAME = (
    r"pass(?:word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|auth|credentials?|private[-_]?key"
)

_PATTERNS = [
    # Tokens that say by their first letters what they are.
    re.compile(r"\b(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)?[-_]?[A-Za-z0-9_-]{16,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"),
    re.compile(r"\bxox[abposr]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    re.compile(r"\b(?:npm|pypi|hf|dop_v1|shpat)[-_][A-Za-z0-9_-]{20,}"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
]
_AFTER = [
    # What stands behind a name that announces it: NAME=…, --name …, Name: Bearer …
    re.compile(
        rf"(?i)((?:^|[\s\"'&?;])[\w-]*(?:{SECRET_NAME})[\w-]*\s*=\s*)(?:\"[^\"]*\"|'[^']*'|[^\s&;\"']+)"
    ),
    re.compile(rf"(?i)(--?[\w-]*(?:{SECRET_NAME})[\w-]*\s+)(?!-)(?:\"[^\"]*\"|'[^']*'|\S+)"),
    re.compile(r"(?i)(\b(?:authorization|x-api-key|cookie)\s*:\s*(?:bearer\s+|basic\s+|token\s+)?)[^\s\"']+"),
    re.compile(r"((?:^|\s)(?:-u\s*|--(?:proxy-)?user[\s=]\s*)[^\s:]+:)\S+"),
    # A short option means a password only with these programs.
    re.compile(r"(\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^|;&\n]{0,200}?\s-p)[^\s|;&]+"),
    re.compile(
        r"(\b(?:sshpass|(?:docker|podman|helm)\s+(?:registry\s+)?login\b[^|;&\n]{0,200}?|twine\b[^|;&\n]{0,200}?)\s+-p\s*)[^\s|;&]+"
    ),
    re.compile(r"(\bredis-cli\b(?:\s+-\S+(?:\s+[^\s-]\S*)?)*?\s+-a\s*)[^\s|;&]+"),
    re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"),
]


# Whatever one of the patterns finds has one of these in it; most texts have none, and are done with at one look.
_SUSPICIOUS = re.compile(r"(?i)pass|secret|token|key|auth|cred|cookie|-u|-p|-a|://|[a-z0-9_-]{11}")


def redact(text: str) -> str:
    """This text without what looks like a secret."""
    if not _SUSPICIOUS.search(text):
        return text
    for pattern in _AFTER:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    for pattern in _PATTERNS:
        text = pattern.sub(HIDDEN, text)
    return text
