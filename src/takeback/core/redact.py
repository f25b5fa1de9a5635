"""Secrets do not belong in a log or a workflow file. One table says what looks like a secret.

The journal replaces what looks like a secret before it is written down; a workflow file refuses it. High-confidence
shapes only: a word that is cut out wrongly makes the log harder to read, and a secret of no known shape cannot be
told from any other word. Full arguments are kept, where they are needed, as private content.
"""

from __future__ import annotations

import re
from functools import cache

HIDDEN = "[hidden]"

# Tokens that say by their shape what they are: what each is called, the hints of which one must occur (in lower
# case), and its shape. A shape is compiled only once its hint was met; most texts meet none.
TOKENS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "a private key",
        ("private key",),
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY-----|.*$)",
    ),
    ("a GitHub token", ("gh",), r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    ("a GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
    ("a GitLab token", ("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),
    ("a Slack token", ("xox", "xapp-"), r"\b(?:xox[abeposr]-[\w-]{10,}|xapp-[\w-]{20,})"),
    ("a Slack webhook", ("hooks.slack.com",), r"hooks\.slack\.com/services/T\w+/B\w+/\w+"),
    ("an AWS key", ("akia", "asia"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a Google key", ("aiza", "ya29."), r"\b(?:AIza[\w-]{30,}|ya29\.[\w-]{20,})"),
    ("an API key", ("k-", "k_"), r"\b[srp]k[-_](?:live|test|proj|ant|or|svcacct)[-_][\w-]{10,}"),
    ("an API key", ("sk-",), r"\bsk-[A-Za-z0-9]{32,}"),
    ("a token", ("eyj",), r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    (
        "a token",
        ("npm_", "pypi-", "hf_", "dop_v1_", "shpat_"),
        r"\b(?:npm_|pypi-|hf_|dop_v1_|shpat_)[\w-]{20,}",
    ),
    ("a mail service key", ("sg.",), r"\bSG\.[\w-]{16,}\.[\w-]{16,}"),
    ("a bot token", (":aa",), r"\b\d{8,10}:AA[\w-]{33}(?![\w-])"),
)

# Runs are bounded, so that a long line costs its length and not the square of it.
_NAME = (
    r"[\w.-]{0,60}(?:pass(?:word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|auth(?!or)|credentials?"
    r"|private[-_]?key)[\w-]{0,60}"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s|;&\"']+)"
# The words of one simple command up to the option in question.
_WORDS = r"[^|;&\n]{0,200}?\s"

# A secret that stands behind what announces it: the hints, and a shape whose first group stays.
ANNOUNCED: tuple[tuple[tuple[str, ...], str], ...] = (
    # NAME=…, name: …, --name …
    (
        ("pass", "secret", "token", "key", "auth", "cred"),
        rf"(?i)((?:^|[\s\"'&?;,:/]){_NAME}\s*=\s*)(?:\"[^\"]*\"|'[^']*'|[^\s&;\"']+)",
    ),
    (
        ("pass", "secret", "token", "key", "cred"),
        (
            r"(?i)((?<![a-z])(?:pass(?:word|wd|phrase)|secret|(?:access|auth|bearer|refresh)?[-_]?token"
            r"|api[-_]?key|secret[-_]?key|private[-_]?key|credentials?)[\"']?:\s+[\"']?)[^\s\"',;]{6,}"
        ),
    ),
    (
        ("pass", "secret", "token", "key"),
        r"(?i)(\"[\w-]{0,60}(?:password|passwd|passphrase|secret|token|api[-_]?key|access[-_]?key)\"\s*:\s*\")[^\"]+",
    ),
    (
        ("pass", "secret", "token", "key", "auth", "cred"),
        rf"(?i)((?<![\w-])-{_NAME}\s+)(?!-)(?:\"[^\"]*\"|'[^']*'|\S+)",
    ),
    (
        ("config", "configure"),
        rf"(?i)(\bconfig(?:ure)?\s+(?:set\s+)?(?:--?[\w-]+\s+){{0,9}}(?:[^\s:]*:)?{_NAME}\s+){_VALUE}",
    ),
    (("k-", "k_"), r"((?<![\w-])[srp]k[-_])[A-Za-z0-9_-]{16,}"),
    # Headers, cookies, addresses
    (
        ("authorization", "x-api-key", "cookie"),
        r"(?i)(\b(?:authorization|x-api-key|cookie)\s*:\s*(?:bearer\s+|basic\s+|token\s+)?)[^\s\"']+",
    ),
    (("bearer",), r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*"),
    (("--cookie", "-b"), rf"(\bcurl\b{_WORDS}(?:--cookie[\s=]\s*|-b\s*))(?=[\"']?[^\s\"'=]+=){_VALUE}"),
    (("key=",), r"(?i)((?:Account|SharedAccess|Access)Key=)[A-Za-z0-9+/=]{20,}"),
    (("://",), r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"),
    (("-u", "user"), r"((?:^|\s)(?:-u\s*|--(?:proxy-)?user[\s=]\s*)[^\s:]+:)\S+"),
    # A short option means a password only with these programs.
    (("mysql", "mariadb"), rf"(\b(?:mysql|mysqldump|mysqladmin|mariadb)\b{_WORDS}-p)[^\s|;&]+"),
    (("sshpass",), rf"(\bsshpass\s+-p\s*){_VALUE}"),
    (
        ("login", "twine"),
        rf"(\b(?:(?:docker|podman|helm)\s+(?:registry\s+)?login|az\s+(?:[\w-]+\s+){{0,5}}login|twine)\b{_WORDS}-p\s*){_VALUE}",
    ),
    (
        ("mongo", "sqlcmd", "bcp"),
        rf"(\b(?:mongo\w*\b{_WORDS}-p\s*|(?:sqlcmd|bcp)\b{_WORDS}-P\s*))(?!-){_VALUE}",
    ),
    (("redis-cli",), r"(\bredis-cli\b(?:\s+-\S+(?:\s+[^\s-]\S*)?){0,20}?\s+-a\s*)[^\s|;&]+"),
    (("zip",), rf"(\b(?:un)?zip\b{_WORDS}-P\s*){_VALUE}"),
    (("7z", "rar"), rf"(\b(?:7z[ar]?|(?:un)?rar)\b{_WORDS}-(?:h?p)){_VALUE}"),
    (("ldap",), rf"(\bldap\w+\b{_WORDS}-w\s*){_VALUE}"),
    (
        ("smbclient", "rpcclient", "net"),
        rf"(\b(?:smbclient|rpcclient|net)\b{_WORDS}-U\s*[\"']?[^\s%\"']+%)[^\s|;&\"']+",
    ),
    (("lftp",), rf"(\blftp\b{_WORDS}-u\s*[^\s,]+,)[^\s|;&]+"),
    # The last word is the password: htpasswd -b FILE USER PASSWORD, htpasswd -nb USER PASSWORD
    (
        ("htpasswd",),
        rf"(\bhtpasswd\s+(?:-\S+\s+){{0,5}}-\w{{0,9}}b\w{{0,9}}\s+(?:-\S+\s+){{0,5}}(?:[^\s-]\S*\s+){{1,2}}){_VALUE}(?=\s*(?:$|[|;&\n]))",
    ),
    (("--from-literal",), r"(--from-literal[\s=]\s*[\"']?[^\s=]+=)[^\s\"']+"),
    (("pass:",), r"((?:^|\s)-pass(?:in|out)?\s+[\"']?pass:)[^\s\"']+"),
    (("vault",), rf"(\bvault\s+login\s+(?:-\S+\s+){{0,9}}(?:token=)?){_VALUE}"),
    # What is fed to a program that asks for a password
    (
        ("sudo", "passwd", "kinit", "cryptsetup", "--password-stdin", "--with-token"),
        (
            rf"(\b(?:echo|printf)\s+(?:-\w+\s+){{0,5}}(?:'%s(?:\\n)?'\s+|\"%s(?:\\n)?\"\s+)?){_VALUE}"
            r"(?=\s*\|\s*(?:sudo\b[^|;&\n]{0,200}\s-\w{0,9}S\b|(?:sudo\s+)?(?:ch)?passwd\b|(?:sudo\s+)?kinit\b"
            r"|(?:sudo\s+)?cryptsetup\b|[^|;&\n]{0,200}--password-stdin|[^|;&\n]{0,200}--with-token))"
        ),
    ),
    (
        ("<<<",),
        (
            r"(\b(?:(?:ch)?passwd|kinit|cryptsetup|sudo\s[^|;&\n]{0,200}-\w{0,9}S|su)\b[^|;&\n<]{0,200}<<<\s*)"
            rf"{_VALUE}"
        ),
    ),
)

# What a workflow file refuses besides, and the journal has rules of its own for.
_NAMED = (
    r"pass(?:word|wd|phrase)|secret|(?:access|auth|bearer|refresh)?[-_ ]?token|api[-_ ]?key|private[-_ ]?key"
)
_PLACEHOLDER = r"(?:[*x.…•-]+|\$|<|\{|\[|%|none\b|null\b|true\b|false\b|hidden\b|redacted\b)"
NAMED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("a password in a URL", ("://",), r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@"),
    ("an account key", ("accountkey=", "accesskey="), r"(?i)(?:Account|SharedAccess)Key=[A-Za-z0-9+/=]{20,}"),
    ("an authorization header", ("authorization",), r"(?i)\bauthorization\s*:\s*\S"),
    ("a bearer token", ("bearer",), r"(?i)\bbearer\s+[\w.~+/-]{16,}"),
    (
        "a password or token",
        ("pass", "secret", "token", "key"),
        rf"(?i)(?<![a-z])(?:{_NAMED})[\"']?\s*[=:]\s*[\"']?(?!{_PLACEHOLDER})[^\s\"',;]{{6,}}",
    ),
)


@cache
def compiled(shape: str) -> re.Pattern[str]:
    return re.compile(shape)


def redact(text: str) -> str:
    """Return this text without what looks like a secret."""
    lower = text.lower()
    for hints, shape in ANNOUNCED:
        if any(hint in lower for hint in hints):
            text = compiled(shape).sub(rf"\g<1>{HIDDEN}", text)
    for _, hints, shape in TOKENS:
        if any(hint in lower for hint in hints):
            text = compiled(shape).sub(HIDDEN, text)
    return text


def secret_in(text: str) -> str:
    """Return what kind of secret this text seems to hold; empty if none."""
    lower = text.lower()
    for kind, hints, shape in (*TOKENS, *NAMED):
        if any(hint in lower for hint in hints) and compiled(shape).search(text):
            return kind
    return ""
