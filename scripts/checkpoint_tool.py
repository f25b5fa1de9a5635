#!/usr/bin/env python3
"""Checkpoints that survive a restart: start, update, resume, complete, list, prune, check.

A single file that needs only Python 3.11: copy it wherever you need it. `./dev docs` generates it from Takeback's
modules; make changes there.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import re
import stat
import sys
import time
from bisect import bisect_right
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache

# --- errors ---


class TakebackError(Exception):
    """The root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 4
    code: ClassVar[str] = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  Hint: {self.hint}" if self.hint else self.message


class UsageError(TakebackError):
    """The caller asked for something that makes no sense; nothing happened."""

    exit_code = 2
    code = "usage"


class InvalidOutput(UsageError):
    """A model's output is not what was asked for; nothing of it was applied."""

    code = "invalid-output"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        path: str = "",
        line: int = 0,
        column: int = 0,
        truncated: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.path = path
        """Where in the value, like `$.items[2].name`; empty if the output is not JSON at all."""
        self.line = line
        self.column = column
        self.truncated = truncated
        """Whether the output just ends too early, so that asking for the rest, or for more room, may help."""


class ConflictError(TakebackError):
    """Another process or person wrote, or holds what is needed; nothing was changed."""

    exit_code = 3
    code = "conflict"

    def __init__(self, message: str, hint: str = "", *, report: Any = None) -> None:
        super().__init__(message, hint)
        self.report = report


class DriftError(ConflictError):
    """The world differs from what was last recorded."""

    code = "drift"


class RunBusy(ConflictError):
    """An action is open, or another process holds the workspace."""

    code = "busy"


class LeaseHeld(RunBusy):
    """Another run holds the lock; nothing was locked."""

    code = "locked"

    def __init__(self, message: str, hint: str = "", *, holders: Any = ()) -> None:
        super().__init__(message, hint)
        self.holders = holders


class Deadlock(LeaseHeld):
    """The holders of the locks wait for each other, and this run gave up; nothing was locked."""

    code = "deadlock"


class LeaseLost(ConflictError):
    """The lease is no longer held: it expired and another took it, or a human released it."""

    code = "lease-lost"


class SeatLost(ConflictError):
    """The workspace has moved to another folder; nothing was recorded."""

    code = "moved"


class SeatHeld(RunBusy):
    """The folder that the workspace is in is still active; nothing was moved."""

    code = "seated"

    def __init__(self, message: str, hint: str = "", *, left_s: float = 0.0) -> None:
        super().__init__(message, hint)
        self.left_s = left_s
        """Seconds until the workspace can be taken, if that folder stays silent."""


class RefusedError(ConflictError):
    """A policy or safety rule forbids it; nothing was started."""

    code = "refused"

    def __init__(self, message: str, hint: str = "", *, how: str = "", report: Any = None) -> None:
        super().__init__(message, hint, report=report)
        self.how = how
        """How the owner of the rules could allow it. `str()` leaves it out: a model that reads it might do it."""


class RefusedByRule(RefusedError):
    """A rule that a human wrote forbids a command; nothing was started."""


class InvariantBroken(ConflictError):
    """Something that must hold does not; the run stops at once, without retries."""

    code = "invariant"


class ShadowEnded(ConflictError):
    """A shadow cannot go on: what comes next depends on what another system would have answered."""

    code = "shadow-ended"


class HandedOver(ConflictError):
    """The run waits for a human; what it did so far stays."""

    code = "handed-over"


class JournalMoved(ConflictError):
    """Another process appended first, so the caller decided on outdated data."""

    code = "journal-moved"


class StoreMoved(ConflictError):
    """The history is kept elsewhere now, or is being moved; nothing was recorded here."""

    code = "moved"


class BackendError(TakebackError):
    """Something outside Takeback failed: the disk, the database, a service."""

    exit_code = 4
    code = "backend"

    def __init__(self, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message, hint)
        self.retryable = retryable


class NoRoom(BackendError):
    """The disk is full."""


class DeliveryFailed(BackendError):
    """A deferred intent was not delivered. A handler may raise it to say more than that it failed."""

    code = "not-delivered"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        permanent: bool = False,
        again_s: float | None = None,
        unsure: bool = True,
    ) -> None:
        super().__init__(message, hint, retryable=not permanent)
        self.permanent = permanent
        """No further attempt can help."""
        self.again_s = again_s
        """Seconds until the next attempt; by default the pauses grow."""
        self.unsure = unsure
        """Whether it may have been delivered anyway."""


class CorruptionError(TakebackError):
    """Stored data differs from what was written."""

    exit_code = 5
    code = "corrupt"


class ContentGone(CorruptionError):
    """Content that is no longer kept, or was lost: none of it is left, not even damaged."""


class FormatTooNew(TakebackError):
    """Data written by a newer Takeback; this version would misread it, so it leaves it alone."""

    exit_code = 4
    code = "format-too-new"


class RollbackIncomplete(TakebackError):
    """A rollback ended with items that are not done or not verified; the report names them."""

    exit_code = 6
    code = "incomplete"

    def __init__(self, message: str, hint: str = "", *, report: Any = None) -> None:
        super().__init__(message, hint)
        self.report = report


# --- core/redact ---


HIDDEN = "[hidden]"

# Tokens recognisable by their shape: the name, the hints of which one must occur (in lower case), and the
# shape. A shape is compiled only once one of its hints occurs; most texts contain none.
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
    r"[\w.-]{0,60}(?:(?<!by)(?<!com)pass(?!es|ed|ing|iv|age|enger|port|[-_]?through)(?:word|wd|phrase|code)?"
    r"|(?<![a-z])pwd?(?![a-z])|secret|(?<!max[-_])(?<!num[-_])token(?!iz)|(?:api|access|auth|account)[-_]?key"
    r"|auth(?!or|entic)|credentials?|private[-_]?key)"
    r"(?![\w.-]{0,60}[-_](?:file|fd|path|dir|stdin|type|mode|ttl|length|policy|url|uri|count|sock)(?!\w))[\w.-]{0,60}"
)
_QUOTED = r"'\"'\"'[^'\"]*'\"'\"'|\\\"[^\"\\]*\\\"|\"[^\"]*\"|'[^']*'"
_PLAIN = r"(?:[^\s|;&\"'\\]|\\.|\"[^\"\s|;&]*\"|'[^'\s|;&]*')+"
_VALUE = rf"(?:{_QUOTED}|{_PLAIN})"
# A word that is not an option, not a redirection and not empty.
_GIVEN = rf"(?![-<>]|''|\"\"){_VALUE}"
# All that is left of one simple command.
_REST = rf"(?:{_QUOTED}|[^|;&\n\"'])+"
# The words of one simple command up to the option in question, and options before a word.
_WORDS = r"[^|;&\n]{0,200}?\s"
_OPTIONS = r"(?:-\S+[ \t]+){0,9}"

# Options that are a password, a token or a key only with these programs.
_OF_PROGRAMS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("mysql", "mariadb"), r"mysql|mysqldump|mysqladmin|mariadb", "-p(?![ \t])"),
    (("sshpass",), "sshpass", "-p"),
    (
        ("login", "twine"),
        r"(?:docker|podman|helm)\s+(?:registry\s+)?login|az(?:\s+(?!login)[\w-]+){0,5}\s+login|oc\s+login|twine",
        "-p",
    ),
    (("mongo", "mycli", "cqlsh", "cypher", "snowsql"), r"mongo\w*|mycli|cqlsh|cypher-shell|snowsql", "-p"),
    (("beeline", "ncftp", "rdesktop", "rabbitmqadmin"), r"beeline|ncftp\w*|rdesktop|rabbitmqadmin", "-p"),
    (("az ",), r"az\s+(?:sql|mysql|postgres|synapse)", "-p"),
    (("login",), r"(?:cf|oras|crane\s+auth)\s+login", "-p"),
    (("racadm", "altool", "yt-dlp", "youtube-dl"), r"racadm|altool|yt-dlp|youtube-dl", "-p"),
    (("p4 ",), "p4", "-P"),
    (("kadmin",), r"kadmin(?:\.local)?", "-w"),
    (("codecov", "influx"), "codecov|influx", "-t"),
    (("gem ",), r"gem\s+push", "(?:--key|-k)"),
    (("nuget", "openai"), r"dotnet\s+nuget\s+push|openai", "-k"),
    (("llm ",), r"llm\s+keys\s+set", "--value"),
    (("kaggle",), r"kaggle\s+config\s+set\b(?=[^|;&\n]{0,200}\bkey\b)", "-v"),
    (("databricks",), r"databricks\s+secrets", "--string-value"),
    (("kubectl",), r"kubectl\b[^|;&\n]{0,100}?\spatch\s+secrets?", "(?:--patch|-p)"),
    (("poetry", "keychain", "useradd", "usermod"), r"poetry\s+publish|unlock-keychain|user(?:add|mod)", "-p"),
    (
        ("sqlcmd", "bcp", "isql", "ipmitool", "mosquitto"),
        r"sqlcmd|bcp|isql|ipmitool|mosquitto_(?:pub|sub)",
        "-P",
    ),
    (("zip",), r"(?:un)?zip", "-P"),
    (("7z", "rar"), r"7z[ar]?|(?:un)?rar", "-h?p(?![ \t])"),
    (("ssh-keygen",), "ssh-keygen", "-N"),
    (("ssh-keygen",), "ssh-keygen", "-P"),
    (("ldap",), r"ldap\w+", "-w"),
    (("ldappasswd",), "ldappasswd", "-[as]"),
    (("security",), "security", "-w"),
    (("snmp",), r"snmp\w+", "-c"),
    (("snmp",), r"snmp\w+", "-A"),
    (("snmp",), r"snmp\w+", "-X"),
    (("openssl",), "openssl", "(?:-k|-K|-hmac)(?![a-z])"),
    (("openssl",), "openssl", "-macopt[ \t]+(?:hex)?key:"),
    (("uv", "vercel", "doctl"), r"uv\s+publish|vercel|doctl\s+auth\s+init", "-t"),
    (("netlify",), "netlify", "-a"),
    (("gitlab-runner",), "gitlab-runner", "-r"),
    (("gh",), r"gh\s+secret\s+set", "(?:-b|--body)"),
    (("keyvault",), r"az\s+keyvault\s+secret\s+set", "--value"),
    (("securestring",), r"aws\s+ssm\s+put-parameter\b(?=[^|;&\n]{0,300}SecureString)", "--value"),
    (("xfreerdp", "signtool"), "xfreerdp3?|signtool", "/p:?"),
    (("caddy",), r"caddy\s+hash-password", "--plaintext"),
)

# Commands whose next word is a password, a token or a key.
_NEXT_WORD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("login",), r"(?:cargo|wandb)\s+login"),
    (("vault",), r"vault\s+login"),
    (("bw ",), r"bw\s+(?:unlock|login[ \t]+[^\s-]\S*)"),
    (("snyk", "ngrok"), r"snyk\s+auth|ngrok\s+(?:config\s+add-)?authtoken"),
    (("rclone",), r"rclone\s+obscure"),
    (("rclone",), rf"rclone\s+config\s+(?:create|update)\b{_WORDS}(?:\w*secret\w*|pass|\w*token)"),
    (("ansible-vault",), r"ansible-vault\s+encrypt_string"),
    (("rabbitmqctl",), r"rabbitmqctl\s+(?:add_user|change_password)[ \t]+\S+"),
    (("drush",), r"drush\s+(?:upwd|user:password)[ \t]+\S+"),
    (("mosquitto_passwd",), r"mosquitto_passwd[ \t]+-b[ \t]+\S+[ \t]+\S+"),
    (("wpa_passphrase",), r"wpa_passphrase[ \t]+\S+"),
    (("mysqladmin",), rf"mysqladmin\b{_WORDS}password"),
    (("nmcli",), rf"nmcli\b{_WORDS}(?:password|\S{{0,60}}\.psk)"),
    (("wpa_cli",), rf"wpa_cli\b{_WORDS}psk"),
    (("mc ",), r"mc\s+(?:alias\s+set|config\s+host\s+add)[ \t]+\S+[ \t]+\S+[ \t]+\S+"),
    (("env:set", "set-env"), r"(?:netlify\s+env:set|cf\s+set-env[ \t]+\S+)[ \t]+\S+"),
    (("cf auth",), r"cf\s+auth[ \t]+\S+"),
    (("user-secrets",), r"user-secrets\s+set[ \t]+\S+"),
    (("vault",), r"vault\s+token\s+(?:revoke|lookup|renew)"),
    (("consul",), r"consul\s+acl\s+set-agent-token[ \t]+\S+"),
    (("neo4j",), r"neo4j-admin\b[^|;&\n]{0,60}?\sset-initial-password"),
    (("securestring",), r"(?i:ConvertTo-SecureString)"),
    (("cloudflared",), r"cloudflared\s+service\s+install"),
    (("steamcmd",), rf"steamcmd\b{_WORDS}\+login[ \t]+[^\s+]\S*(?=[ \t]+[^+])"),
    (("http-basic",), r"config[ \t]+http-basic\.\S+[ \t]+\S+"),
    (("passwd",), r"(?:openssl\s+passwd|mkpasswd)(?:[ \t]+-(?:m|s|S|R|salt|method)[ \t]+\S+){0,3}"),
    (("smbclient",), r"smbclient[ \t]+//\S+"),
    (("redis-cli",), r"(?i:redis-cli\b[^|;&\n]{0,200}?\sauth(?:[ \t]+[^\s-]\S*(?=[ \t]+[^\s|;&]))?)"),
    (("setenv", "set -"), rf"(?:setenv|set[ \t]+-\w+)[ \t]+(?i:{_NAME})"),
    (("login",), r"login[ \t]+\S+\s+password"),
)

# Programs that read a password, or something to be kept secret, from their input.
_ASKING = (
    r"(?:sudo\b[^|;&\n]{0,200}?\s-\w{0,9}S\b|(?:sudo\s+)?(?:(?:ch|smb|vnc)?passwd|su|kinit|cryptsetup)\b(?!-)"
    r"|[^|;&\n<]{0,200}?(?:--password-stdin|--with-token|--passphrase-fd[ =]0)"
    r"|(?:docker|podman)\s+secret\s+create\b|gcloud\s+secrets\b|gh\s+secret\s+set\b|wrangler\s+secret\s+put\b"
    r"|vercel\s+env\s+add\b|pass\s+insert\b|keepassxc-cli\b|lpass\s+add\b|secret-tool\s+store\b"
    r"|fly(?:ctl)?\s+secrets\s+import\b)"
)
_ASKING_HINTS = (
    *("sudo", "passwd", "kinit", "cryptsetup", "--p", "--with-token", "su"),
    *("secret", "vercel", "pass", "keepass"),
)

# A secret that follows what announces it: the hints, and a shape whose first group stays.
ANNOUNCED: tuple[tuple[tuple[str, ...], str], ...] = (
    # Passed to a store of secrets, or to a program that asks for one; before any part of it is hidden
    (("vault",), rf"(\bvault\s+(?:kv\s+(?:put|patch)|write)[ \t]+{_OPTIONS}\S+[ \t]+){_REST}"),
    (("fly", "travis"), rf"(\b(?:fly(?:ctl)?\s+secrets\s+set|travis\s+encrypt)[ \t]+){_REST}"),
    (
        ("heroku", "dokku", "setenv", "convox", "supabase", "railway", "firebase"),
        (
            r"(\b(?:(?:heroku|dokku)\s+(?:-\S+\s+\S+\s+){0,3}config:(?:set|add)|eb\s+setenv|convox\s+env\s+set|supabase\s+secrets\s+set"
            rf"|railway\s+variables\s+(?:--)?set|firebase\s+functions:config:set)[ \t]+){_REST}"
        ),
    ),
    (("az ",), rf"(\baz\s[^|;&\n]{{0,200}}?\sappsettings\s+set\b{_WORDS}--settings[ \t]+){_REST}"),
    # The format announces what comes behind it.
    (
        ("printf",),
        (
            rf"(?i)(\bprintf[ \t]+(?:-v[ \t]+\w+[ \t]+)?{_OPTIONS}(?:\$?'[^'\n]{{0,120}}?{_NAME}[^'\w]{{1,4}}%[^']*'"
            rf"|\"[^\"\n]{{0,120}}?{_NAME}[^\"\w]{{1,4}}%[^\"]*\"|{_NAME}=%\S*)[ \t]+)"
            rf"{_GIVEN}(?:[ \t]+{_GIVEN})*"
        ),
    ),
    (
        ("printf",),
        rf"(?i)(\bprintf[ \t]+{_OPTIONS}[\"']%s[^\"'\w]{{1,4}}%s[^\"']{{0,9}}[\"'][ \t]+{_NAME}[ \t]+){_GIVEN}",
    ),
    (
        ("net ", "net.exe"),
        (
            r"(?i)(\bnet(?:\.exe)?\s+use[ \t]+(?:(?:\*|\w:)[ \t]+)?"
            r"(?:\"(?:\\\\|//)[^\"]+\"|[\"']?(?:\\\\|//)\S+)[ \t]+(?:/\S+[ \t]+){0,5})"
            rf"(?![/*]){_GIVEN}"
        ),
    ),
    (
        ("net ", "net.exe"),
        rf"(?i)((?:^|[|;&(\n])\s*net(?:\.exe)?\s+user[ \t]+[^\s/]\S*[ \t]+)(?![/*]){_GIVEN}",
    ),
    (
        ("pulumi",),
        rf"(\bpulumi\s+config\s+set\b(?=[^|;&\n]{{0,200}}--secret)[ \t]+{_OPTIONS}[^\s-]\S*[ \t]+{_OPTIONS}){_GIVEN}",
    ),
    (
        _ASKING_HINTS,
        rf"(\b(?:echo|printf|yes)[ \t]+)(?:{_QUOTED}|[^|;&\n\"']){{1,500}}?(?=\s*\|\s*{_ASKING})",
    ),
    (("<<<",), rf"(\b{_ASKING}[^|;&\n<]{{0,200}}<<<\s*){_VALUE}"),
    (("<<<",), rf"(\bread\b[^|;&\n<]{{0,200}}\s(?i:{_NAME})[ \t]*<<<\s*){_VALUE}"),
    (
        ("<<",),
        rf"(?s)(\b{_ASKING}[^|;&\n<]{{0,200}}<<-?[ \t]*[\"']?(?P<end>\w+)[\"']?[ \t]*\n).*?(?=\n\s*(?P=end)\b|\Z)",
    ),
    # NAME=…, name: …, --name …
    (
        ("pass", "secret", "token", "key", "auth", "cred", "pw"),
        rf"(?i)((?:^|[\s\"'&?;,:/(\[{{#=\\]){_NAME}(?:\\?[\"']\])?[ \t]*=[ \t]*)(?:\([^)\n]{{0,300}}\)|{_VALUE})",
    ),
    (
        ("pass", "secret", "token", "key", "cred", "pwd"),
        (
            r"(?i)((?:(?<![a-z])(?:pass(?:word|wd|phrase)|secret|(?:access|auth|bearer|refresh)?[-_]?token"
            r"|(?:api|secret|private|subscription)[-_]?key|credentials?)|(?<=[-_])pass)\\?[\"']?:\s+\\?[\"']?)"
            r"(?!\.\*)[^\s\"',;\\]{6,}"
        ),
    ),
    (
        ("pass", "secret", "token", "key", "pwd"),
        (
            r"(?i)((?<![\w-])[\w-]{0,60}(?:pass(?:word|wd|phrase)?|pwd|secret|token|(?:api|access)[-_]?key)"
            r"\\?[\"']?\s*(?::|=>)\s*\\?[\"'])[^\s\"'\\][^\"'\\\n]*"
        ),
    ),
    (
        ("pass", "secret", "token", "key", "auth", "cred", "pw"),
        rf"(?i)((?<![\w-])--?(?!-|(?:no|ask|prompt|skip|disable|enable|require|show|hide|with)[-_]){_NAME}\s+){_GIVEN}",
    ),
    (
        ("config", "configure", "npm"),
        (
            r"(?i)(\b(?:config(?:ure)?|npm)\s+(?:set\s+)?(?:--?[\w-]+\s+){0,9}"
            rf"(?:[^\s:]*:|[\"']\S{{0,120}}?\])?{_NAME}[\"']?[ \t]+){_VALUE}"
        ),
    ),
    (
        ("_key=",),
        (
            r"((?<![\w$])(?![A-Z0-9_]{0,60}(?:PUBLIC|PRIMARY|FOREIGN|SORT|CACHE|PARTITION|GROUP|HOST|INDEX|ROW|HASH|ORDER)"
            r"_KEY=)[A-Z][A-Z0-9_]{0,60}_KEY=[\"']?)(?![/~.$])[^\s|;&\"']{8,}"
        ),
    ),
    (("k-", "k_"), r"((?<![\w-])[srp]k[-_])[A-Za-z0-9_-]{16,}"),
    (("sonar.login",), rf"(-Dsonar\.login=){_VALUE}"),
    # Headers, cookies, addresses
    (
        ("authorization", "x-api-key", "cookie"),
        (
            r"(?i)([\"'](?:authorization|x-api-key|(?:set-)?cookie)(?:\\?[\"'])?\s*:\s*(?:\\?[\"'])?(?:(?:bearer|basic|token|digest|apikey)\s+)?)"
            r"[^\"'\n]+"
        ),
    ),
    (
        ("authorization", "x-api-key", "cookie"),
        r"(?i)(\b(?:authorization|x-api-key|cookie)\s*:\s*[\"']?(?:bearer\s+|basic\s+|token\s+)?)(?!\[|(?:bearer|basic|token|digest|apikey)\s)[^\s\"']+",
    ),
    (
        ("-h", "--header"),
        r"(?i)((?:-H|--header)[\s=]*[\"'](?!\[)[\w-]{0,60}(?:token|key|secret|passw\w{1,4})[\w-]{0,60}:)[^\s\"'\[][^\"'\n]{5,}",
    ),
    (("bearer",), r"(?i)(\bbearer\s+)[\w.~+/-]{16,}=*"),
    (("--cookie", "-b"), rf"(\bcurl\b{_WORDS}(?:--cookie[\s=]\s*|-b\s*))(?=[\"']?[^\s\"'=]+=){_VALUE}"),
    (("key=",), r"(?i)((?:Account|SharedAccess|Access)Key=)[A-Za-z0-9+/=]{20,}"),
    (("key=", "sig"), r"(?i)([?&](?:key|sig|signature|x-amz-(?:signature|credential))=)[^\s&\"'#]{12,}"),
    (("://",), r"((?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"),
    (("://",), r"(\bhttps?://)[^\s/:@]{20,}(?=@)"),
    (("curl",), rf"(\bcurl\b{_WORDS}(?:-x|--proxy)[\s=]\s*(?:\w+://)?[^\s:@]+:)[^\s@]+(?=@)"),
    (("curl",), rf"(\bcurl\b{_WORDS}-\w{{0,9}}[uU][ \t]*[\"']?[^\s:\"']+:)[^\s\"']+"),
    (("-u", "user"), r"((?:^|\s)(?:-u\s*|--(?:proxy-)?user[\s=]\s*)[^\s:]+:)(?!\d+\b)\S+"),
    (("curl",), rf"(\bcurl\b{_WORDS}(?:-E|--(?:proxy-)?cert)[\s=]*[^\s:]+:)[^\s|;&]+"),
    (("creds",), r"((?:^|\s)--(?:src-|dest-)?creds[\s=]\s*[\"']?[^\s:]+:)[^\s\"']+"),
    (("transmission-remote",), rf"(\btransmission-remote\b{_WORDS}-n[ \t]*[\"']?[^\s:]+:)[^\s\"']+"),
    (
        ("bundle",),
        r"(\bbundle\s+config\s+(?:set\s+)?(?:--\S+\s+){0,3}[^\s:]+\.[^\s:]+\s+[\"']?[^\s:]+:)(?!//)[^\s\"']+",
    ),
    (("pserver",), r"(:pserver:[^\s:@]+:)[^\s@]+(?=@)"),
    (("ftp",), r"(?s)(\bftp\b.{0,300}?\buser[ \t]+[^\s\"']+[ \t]+)[^\s\"']+"),
    (
        ("expect",),
        r"(?i)((?:assword|passphrase)[^\n]{0,80}?\bsend[ \t]+(?:--[ \t]+)?\\?[\"']?)[^\s\"'\\]+(?=\\+[rn])",
    ),
    (("http", "xh"), rf"(\b(?:https?|xh)\b{_WORDS}-a[ \t]*[^\s:]+:)\S+"),
    (("redis-cli",), r"(\bredis-cli\b(?:\s+-\S+(?:\s+[^\s-]\S*)?){0,20}?\s+-a\s*)[^\s|;&]+"),
    (
        ("smbclient", "rpcclient", "net"),
        rf"(\b(?:smbclient|rpcclient|net)\b{_WORDS}-U\s*[\"']?[^\s%\"']+%)[^\s|;&\"']+",
    ),
    (("lftp",), rf"(\blftp\b{_WORDS}-u\s*[^\s,]+,)[^\s|;&]+"),
    (("sqlplus", "mpdp", "xpdp"), rf"(\b(?:sqlplus|impdp|expdp)\b{_WORDS}[^\s/]+/)[^\s@|;&]+"),
    (
        (".pgpass",),
        r"((?:^|[\s\"'])[^\s:\"']{1,200}:(?:\d{1,5}|\*):[^\s:\"']{1,200}:[^\s:\"']{1,200}:)[^\s\"']+",
    ),
    # SQL and Python
    (("identified",), rf"(?i)(\bidentified\s+(?:with\s+\S+\s+)?by\s+(?:password\s+)?)(?:{_QUOTED})"),
    (("password",), rf"(?i)(\bpassword\()(?:{_QUOTED})"),
    (("secret",), rf"(?i)(\bcreate\s[^;\n]{{0,60}}?\bsecret\b[^;\n]{{0,300}}?\bsecret\s+)(?:{_QUOTED})"),
    (("password",), rf"(?i)(\b(?:user|role)\b[^;\n]{{0,200}}?\bpassword\s+)(?:{_QUOTED})"),
    (
        ("set_password(", "create_superuser(", "db.auth("),
        r"(\b(?:set_password|create_superuser|db\.auth)\()[^)\n]{1,300}",
    ),
    # The last word is the password: htpasswd -b FILE USER PASSWORD, htpasswd -nb USER PASSWORD
    (
        ("htpasswd",),
        rf"(\bhtpasswd\s+(?:-\S+\s+){{0,5}}-\w{{0,9}}b\w{{0,9}}\s+(?:-\S+\s+){{0,5}}(?:[^\s-]\S*\s+){{1,2}}){_VALUE}(?=\s*(?:$|[|;&\n]))",
    ),
    (("--from-literal",), r"(--from-literal[\s=]\s*[\"']?[^\s=]+=)[^\s\"']+"),
    (("pass:",), r"((?:^|\s)-pass(?:in|out|word)?\s+[\"']?pass:)[^\s\"']+"),
    *(
        (hints, rf"(\b(?:{programs})(?:\b|(?=\s)){_WORDS}(?:{option})(?:[ \t]*=[ \t]*|[ \t]*)){_GIVEN}")
        for hints, programs, option in _OF_PROGRAMS
    ),
    *((hints, rf"(\b(?:{words})[ \t]+{_OPTIONS}){_GIVEN}") for hints, words in _NEXT_WORD),
)

# What a workflow file refuses in addition; the journal has rules of its own for these.
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


_REPLACED = (
    *((hints, shape, rf"\g<1>{HIDDEN}") for hints, shape in ANNOUNCED),
    *((hints, shape, HIDDEN) for _, hints, shape in TOKENS),
)
"""The shapes of secrets, in the order in which they are replaced, with what is put in their place."""


def _places() -> dict[str, list[int]]:
    """Return the places of its shapes in that order for each hint, the short hints first."""
    hints = {hint for *_, hints, _shape in (*ANNOUNCED, *TOKENS, *NAMED) for hint in hints}
    places: dict[str, list[int]] = {hint: [] for hint in sorted(hints, key=len)}
    for place, (given, _, _) in enumerate(_REPLACED):
        for hint in given:
            places[hint].append(place)
    return places


_PLACES = _places()
_HINTS, _LENGTHS = list(_PLACES), [len(hint) for hint in _PLACES]


def _hints_in(text: str) -> set[str]:
    """Return the hints that occur in a text: a shape without any of its hints cannot be in it."""
    lower = text.lower()
    short_enough = bisect_right(_LENGTHS, len(lower))
    return {hint for hint in _HINTS[:short_enough] if hint in lower}


def redact(text: str) -> str:
    """Return this text without what looks like a secret."""
    for place in sorted({place for hint in _hints_in(text) for place in _PLACES[hint]}):
        _, shape, instead = _REPLACED[place]
        text = compiled(shape).sub(instead, text)
    return text


def secret_in(text: str) -> str:
    """Return what kind of secret this text seems to hold; empty if none."""
    found = _hints_in(text)
    for kind, hints, shape in (*TOKENS, *NAMED):
        if not found.isdisjoint(hints) and compiled(shape).search(text):
            return kind
    return ""


# --- workflows/record ---


SCHEMA = "1.0"
DAY_S = 86_400.0
TTL_DAYS_MAX = 3_650
ID_BYTES_MAX = 200
NAMES_SHOWN = 10
STATUSES = ("in_progress", "blocked", "done", "failed")
UNFINISHED = ("in_progress", "blocked")
HASH = "checkpointHash"
LISTS = ("completedSteps", "remainingSteps")
TEXTS = (
    "schemaVersion",
    "workflowId",
    "agentId",
    "status",
    "currentStep",
    "notes",
    "idempotencyKey",
    "updatedAt",
    "expiresAt",
)
FIELDS = {*TEXTS, *LISTS, "handoffTo", HASH}

SAFE_NAME = re.compile(r"\w[\w .:@+=,-]*")
"""What may be part of a file name: no slash, no leading dot, no control characters."""


RESERVED = "CHECKPOINT_SCHEMA"
"""The skill keeps its schema in a file of this name, which is not a checkpoint."""


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def seconds(text: str) -> float:
    """Return a time as seconds since 1970. Raise ValueError if it has no time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return moment.timestamp()


def safe_name(name: str, what: str) -> str:
    """Return this name. Raise UsageError if it is not safe as part of a path."""
    if name.upper() == RESERVED:
        raise UsageError(
            f"{name} cannot be {what}: that name is reserved for the schema; nothing was done",
            hint="choose another name",
        )
    if not SAFE_NAME.fullmatch(name) or len(name.encode("utf-8", "replace")) > ID_BYTES_MAX:
        raise UsageError(
            f"{name[:ID_BYTES_MAX]!r} cannot be {what}; nothing was done",
            hint="use letters, digits and . _ - : @ + = , without a slash, and begin with a letter or digit",
        )
    return name


def digest(record: dict[str, Any]) -> str:
    """Return the SHA-256 of the sorted compact JSON, without the hash itself."""
    rest = {name: value for name, value in record.items() if name != HASH}
    return _sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def _sha256(data: bytes) -> str:
    # hashlib loads all of OpenSSL, a tenth of a command's time; Python has its own SHA-256, under two names.
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            return str(__import__(name).sha256(data).hexdigest())
        except ImportError:
            continue
    raise AssertionError("hashlib always exists")


def sealed(record: dict[str, Any], now_s: float) -> dict[str, Any]:
    """Return this record with the present time and its hash."""
    fresh = record | {"updatedAt": iso(now_s)}
    return fresh | {HASH: digest(fresh)}


def encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, indent=2).encode() + b"\n"


def decoded(data: bytes, name: str) -> dict[str, Any]:
    """Return the record in a file. Raise CorruptionError if its schema, hash or id is wrong. `name` has no suffix."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptionError("it is not complete JSON") from None
    if not isinstance(record, dict):
        raise CorruptionError("it is not a JSON object")
    if wrong := _misfit(record):
        raise CorruptionError(wrong)
    if record[HASH] != digest(record):
        raise CorruptionError("its hash does not match: something else changed it")
    if record["workflowId"] != name:
        raise CorruptionError("it belongs to another workflow than its file name says")
    return record


def _misfit(record: dict[str, Any]) -> str:
    """Return what is wrong with the fields, or "" if nothing is."""
    if record.get("schemaVersion") != SCHEMA:
        return f"its schema is not {SCHEMA}"
    if missing := FIELDS - record.keys():
        return f"it has no {min(missing)}"
    if record.keys() - FIELDS:
        return "it has a field that the schema does not know"
    for field in TEXTS:
        if not isinstance(record[field], str):
            return f"{field} is not a text"
    for field in LISTS:
        if not isinstance(record[field], list) or not all(isinstance(step, str) for step in record[field]):
            return f"{field} is not a list of texts"
    if record["handoffTo"] is not None and not isinstance(record["handoffTo"], str):
        return "handoffTo is not a text"
    if record["status"] not in STATUSES:
        return "its status is unknown"
    try:
        seconds(record["updatedAt"]), seconds(record["expiresAt"])
    except (ValueError, OverflowError):
        return "one of its times is not valid"
    return ""


def check_steps(step: str, remaining: list[str]) -> None:
    """Raise UsageError if two steps share a name. `step` may also be the first of `remaining`, as in the skill."""
    if len(set(remaining)) < len(remaining) or step in remaining[1:]:
        raise UsageError(
            "two steps have the same name; nothing was done",
            hint="steps are identified by name: give each its own, such as send-1 and send-2",
        )


def new_record(
    workflow: str,
    *,
    agent: str,
    step: str,
    key: str,
    remaining: list[str],
    handoff: str | None,
    notes: str,
    ttl_days: float,
    now_s: float,
) -> dict[str, Any]:
    if not 0 <= ttl_days <= TTL_DAYS_MAX:
        raise UsageError(f"--ttl-days must be a number from 0 to {TTL_DAYS_MAX}; nothing was done")
    check_steps(step, remaining)
    record = {
        "schemaVersion": SCHEMA,
        "workflowId": workflow,
        "agentId": agent,
        "status": "in_progress",
        "currentStep": step,
        "completedSteps": [],
        "remainingSteps": remaining,
        "handoffTo": handoff,
        "notes": notes,
        "idempotencyKey": key,
        "expiresAt": iso(now_s + ttl_days * DAY_S),
    }
    return sealed(record, now_s)


def advanced(
    record: dict[str, Any],
    *,
    complete: str | None,
    step: str | None,
    status: str | None,
    notes: str | None,
    now_s: float,
    force: bool = False,
) -> dict[str, Any]:
    """Return the record after an update. A step that was completed before is not completed again.

    With steps that were never done, only `force` ends the workflow; they stay among the remaining ones.
    """
    after, done = dict(record), list(record["completedSteps"])
    repeated = complete in done
    if complete is not None:
        if not repeated:
            done.append(complete)
        after["completedSteps"] = done
        after["remainingSteps"] = [left for left in record["remainingSteps"] if left != complete]
        if after["currentStep"] == complete and after["remainingSteps"]:
            after["currentStep"] = after["remainingSteps"][0]
    # A repeated update must not lead back to a step that was done since.
    if step is not None and not (repeated and step in done):
        left = after["currentStep"]
        if left not in (step, *done, *after["remainingSteps"]):
            after["remainingSteps"] = [left, *after["remainingSteps"]]  # it was abandoned, not done
        after["currentStep"] = step
    if status is not None:
        after["status"] = status
    if notes is not None:
        after["notes"] = notes
    if status == "done" and record["status"] != "done":
        _end_steps(after, force=force)
    if repeated and after == record:
        return record
    if record["status"] == "done":
        raise ConflictError(
            f"{record['workflowId']} is done; nothing was changed",
            hint="start a new workflow, with an id and an idempotency key of its own",
        )
    # The allowed idle time stays the same, counted from this update.
    idle_s = max(0.0, seconds(record["expiresAt"]) - seconds(record["updatedAt"]))
    after["expiresAt"] = iso(now_s + idle_s)
    return sealed(after, now_s)


def some(names: list[str]) -> str:
    """Return these names for a sentence, the first ten at most."""
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def undone(record: dict[str, Any]) -> list[str]:
    """Return the steps that were never completed, in their order."""
    steps = dict.fromkeys([record["currentStep"], *record["remainingSteps"]])
    return [step for step in steps if step not in record["completedSteps"]]


def _end_steps(record: dict[str, Any], *, force: bool) -> None:
    """Complete the current step if it is the last. Raise ConflictError if others are not done, unless forced."""
    left = undone(record)
    if left and not force and left != [record["currentStep"]]:
        raise ConflictError(
            f"{some(left)} of {record['workflowId']} {'was' if len(left) == 1 else 'were'} never done; "
            "nothing was changed",
            hint="run `update --complete STEP` for each, or `complete --force`, which keeps them in the file",
        )
    if left == [record["currentStep"]]:
        record["completedSteps"] = [*record["completedSteps"], *left]
        left = []
    record["remainingSteps"] = left


def is_unfinished(record: dict[str, Any]) -> bool:
    return record["status"] in UNFINISHED


def is_expired(record: dict[str, Any], now_s: float) -> bool:
    return seconds(record["expiresAt"]) <= now_s


def is_over(record: dict[str, Any], now_s: float, keep_days: float | None) -> bool:
    """Return True if it may be cleaned up: expired, or with `keep_days` finished or expired that many days ago."""
    if keep_days is None:
        return is_expired(record, now_s)
    since = "expiresAt" if is_unfinished(record) else "updatedAt"
    return seconds(record[since]) + keep_days * DAY_S <= now_s


# --- workflows/text_limits ---


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


# --- workflows/disk ---


FILE_BYTES_MAX = 1 << 20
LOCK_WAIT_S = 10.0
_POLL_S = 0.002
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def sync(fd: int) -> None:
    """Flush to the disk, to survive a power cut. On macOS fsync alone leaves data in the disk's own cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


class CheckpointFolder:
    """One open folder. Its files are opened relative to it, so that no other folder can be swapped in meanwhile."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def find(cls, root: str, *parts: str, create: bool = False) -> CheckpointFolder | None:
        """Return the folder at these parts below the root, or None if it is missing and `create` is false."""
        path, fd = root, -1
        try:
            fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for part in parts:
                path = os.path.join(path, part)
                below = _enter(fd, part, create=create, private=part == parts[-1])
                os.close(fd)
                fd = below
                if fd < 0:
                    return None
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise RefusedError(
                    f"{path} is a link or not a folder; nothing was done",
                    hint="checkpoints are kept only in real folders of the workspace",
                ) from error
            raise failed(path, error) from error
        return cls(path, fd)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.fd))

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raise FileNotFoundError if it is missing, CorruptionError if it is unusable."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            link = error.errno == errno.ELOOP
            raise CorruptionError(
                "it is a link" if link else f"it cannot be read: {error.strerror}"
            ) from error
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise CorruptionError("it is not a regular file")
            if found.st_size > FILE_BYTES_MAX:
                raise CorruptionError("it is too large")
            return os.read(fd, FILE_BYTES_MAX + 1)
        except OSError as error:
            raise CorruptionError(f"it cannot be read: {error.strerror}") from error
        finally:
            os.close(fd)

    def modified_s(self, name: str) -> float:
        return os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mtime

    def write(self, name: str, data: bytes) -> None:
        """Replace a whole file. When this returns, it survives a power cut. Call it only under the lock."""
        fresh = f".{name}.tmp"
        try:
            self.remove(fresh)  # left by a writer that was killed
            fd = os.open(
                fresh,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=self.fd,
            )
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                sync(fd)
            finally:
                os.close(fd)
            os.rename(fresh, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            try:
                self.remove(fresh)
            except OSError:
                pass
            raise failed(os.path.join(self.path, name), error) from error
        self.sync()  # without it, the power cut could take the new name away

    def sync(self) -> None:
        try:
            sync(self.fd)
        except OSError as error:
            raise BackendError(
                f"{self.path} was changed, but the disk did not confirm it ({error.strerror}); "
                "it may not survive a power cut",
                hint="check the disk, then repeat the command",
            ) from error

    def remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self.fd)
        except FileNotFoundError:
            pass

    def move(self, name: str, there: CheckpointFolder, new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=self.fd, dst_dir_fd=there.fd)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a kernel lock for the length of one command; it ends with the process that holds it."""
        try:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        except OSError as error:
            raise failed(os.path.join(self.path, name), error) from error
        try:
            deadline = time.monotonic() + LOCK_WAIT_S
            while not _try_lock(fd):
                if time.monotonic() > deadline:
                    raise RunBusy(
                        f"another process is writing in {self.path}; nothing was changed",
                        hint="try again when it is done",
                    )
                time.sleep(_POLL_S)
            yield
        finally:
            os.close(fd)

    def close(self) -> None:
        os.close(self.fd)


def _enter(fd: int, part: str, *, create: bool, private: bool) -> int:
    """Open the folder below and return its descriptor, or -1 if it is missing and `create` is false."""
    try:
        return os.open(part, _OPEN_FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            return -1
    try:
        os.mkdir(part, 0o700 if private else 0o777, dir_fd=fd)
        sync(fd)  # the new folder's name has to survive a power cut, like its content
    except FileExistsError:
        pass
    return os.open(part, _OPEN_FOLDER, dir_fd=fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def failed(path: str, error: OSError) -> BackendError:
    return BackendError(
        f"{path} cannot be written: {error.strerror or error}; nothing was changed",
        hint="check its permissions and the space on its disk, then repeat the command",
    )


# --- workflows/owners ---


LEASE_S = 900.0
TOKEN_VARIABLE = "TAKEBACK_WORKFLOW_TOKEN"
"""Set in the environment of a command that was started for a workflow; the workflow is already held for it."""


def here() -> dict[str, str]:
    """Return the machine, boot and process namespace in which our process numbers are valid."""
    return {"host": os.uname().nodename, "boot": _boot(), "space": _namespace()}


def describe(pid: int, now_s: float) -> dict[str, Any]:
    """Return a new holder: this process, from now on."""
    began = started(pid)
    if not began:
        raise UsageError(
            f"process {pid} is not running, so it cannot hold a workflow; nothing was done",
            hint="name a running process with --owner-pid: the agent itself, not a shell that ends at once",
        )
    return {"pid": pid, "started": began, **here(), "token": os.urandom(8).hex(), "acquiredAt": iso(now_s)}


def agent_here() -> str:
    """Return the name of the agent or user that the environment names."""
    names = (os.environ.get(name, "") for name in ("TAKEBACK_ACTOR", "LOGNAME", "USER"))
    return next((name for name in names if SAFE_NAME.fullmatch(name)), "agent")


def renewed(holder: dict[str, Any], now_s: float) -> dict[str, Any]:
    return holder | {"leaseUntil": iso(now_s + LEASE_S)}


def encode_holder(holder: dict[str, Any]) -> bytes:
    return json.dumps(holder, indent=2).encode() + b"\n"


def decode_holder(data: bytes) -> dict[str, Any] | None:
    """Return the holder that a lock file names, or None if it cannot be read as one: then no holder is known."""
    try:
        text = data.decode()
        if text[:1].isdigit():
            # The restart-recovery skill writes only the time. Its holder is not known, so the lease decides.
            return {"pid": 0, "started": "", "host": "", "leaseUntil": iso(seconds(text.strip()) + LEASE_S)}
        holder = json.loads(text)
        texts = [holder[name] for name in ("started", "host", "boot", "space", "token", "leaseUntil")]
        whole = type(holder["pid"]) is int and all(isinstance(text, str) for text in texts)
        return holder if whole and seconds(holder["leaseUntil"]) else None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def lives(holder: dict[str, Any], now_s: float) -> bool:
    """Return True if the holder may still be at work. The clock decides only if the kernel cannot."""
    this = here()
    there = {name: holder.get(name, "") for name in this}
    if there == this:
        return bool(started(holder["pid"]) == holder["started"])
    if there["host"] == this["host"] and there["boot"] and this["boot"] and there["boot"] != this["boot"]:
        return False  # this machine was restarted, and no process survives that
    return now_s < seconds(holder["leaseUntil"])


def is_of(holder: dict[str, Any], owner_pid: int) -> bool:
    """Return True if the holder is this process or one of its ancestors."""
    if any(holder.get(name) != value for name, value in here().items()):
        return False
    return any(holder["pid"] == pid and holder["started"] == started(pid) for pid in _lineage(owner_pid))


def is_same(holder: dict[str, Any], owner_pid: int) -> bool:
    """Return True if the holder is exactly this process, and not just an ancestor: only one child may do the work."""
    return holder["pid"] == owner_pid and is_of(holder, owner_pid)


def in_words(holder: dict[str, Any]) -> str:
    if not holder["pid"]:
        return f"an unknown process until {holder['leaseUntil']}"
    return f"process {holder['pid']} on {holder['host'] or 'this machine'}"


def started(pid: int) -> str:
    """Return the start time of a process, or "" if it is not running. A zombie has ended and is not running."""
    if sys.platform != "linux":
        return _asked_ps(pid, "lstart")
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def _lineage(pid: int) -> list[int]:
    """Return a process and its ancestors."""
    found: list[int] = []
    while pid > 1 and pid not in found:
        found.append(pid)
        if sys.platform == "linux":
            fields = _stat(pid)
            pid = int(fields[1]) if fields else 0
        else:
            pid = int(_asked_ps(pid, "ppid") or 0)
    return found


def _stat(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _asked_ps(pid: int, field: str) -> str:
    import subprocess

    done = subprocess.run(["ps", "-o", f"{field}=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


# --- workflows/places ---


PLACE = ("memory", "checkpoints")
AGENTS = "agents"
SUFFIX = ".json"
NOT_OURS = {RESERVED + SUFFIX}


class CheckpointFile:
    """One file in a folder of checkpoints: its record, or the reason why it cannot be read."""

    def __init__(
        self, folder: CheckpointFolder, id: str, record: dict[str, Any] | None, reason: str = ""
    ) -> None:
        self.folder = folder
        self.id = id
        self.record = record
        self.reason = reason

    @property
    def name(self) -> str:
        return self.id + SUFFIX

    @property
    def path(self) -> str:
        return os.path.join(self.folder.path, self.name)


class CheckpointFolders:
    """Every folder of checkpoints below one root, each opened once."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._open: dict[tuple[str, ...], CheckpointFolder] = {}

    def close(self) -> None:
        for folder in self._open.values():
            folder.close()
        self._open.clear()

    def entries(self) -> list[CheckpointFile]:
        """Return every checkpoint. A bad file is an entry like the others, and blocks none of them."""
        return [
            self._entry(folder, name.removesuffix(SUFFIX))
            for folder in self.folders()
            for name in folder.names()
            if name.endswith(SUFFIX) and not name.startswith(".") and name not in NOT_OURS
        ]

    def find(self, workflow: str) -> CheckpointFile | None:
        """Return the file of this workflow, in whichever folder it is."""
        safe_name(workflow, "the id of a workflow")
        found = [folder for folder in self.folders() if workflow + SUFFIX in folder.names()]
        if len(found) > 1:
            raise ConflictError(
                f"{workflow} exists twice, in {found[0].path} and in {found[1].path}; nothing was changed",
                hint="move one of the two files elsewhere",
            )
        return self._entry(found[0], workflow) if found else None

    def folders(self) -> list[CheckpointFolder]:
        """Return every existing folder of checkpoints."""
        agents = self.quietly((AGENTS,))
        names = agents.names() if agents else []
        places = [PLACE, *((AGENTS, name, *PLACE) for name in names)]
        return [folder for parts in places if (folder := self.quietly(parts))]

    def folder(self, *parts: str) -> CheckpointFolder | None:
        """Return the folder at these parts, if it exists."""
        if parts not in self._open:
            folder = CheckpointFolder.find(self.root, *parts)
            if folder is None:
                return None
            self._open[parts] = folder
        return self._open[parts]

    def quietly(self, parts: tuple[str, ...]) -> CheckpointFolder | None:
        """Return the folder. Return None for an agent's that is a link, not a folder, or unreadable: it blocks no
        other."""
        try:
            return self.folder(*parts)
        except (ConflictError, BackendError):
            if parts == PLACE:
                raise
            return None

    def make(self, *parts: str) -> CheckpointFolder:
        """Return the folder at these parts; create it if it is missing."""
        found = self.folder(*parts) or CheckpointFolder.find(self.root, *parts, create=True)
        assert found is not None
        self._open[parts] = found
        return found

    def parts(self, folder: CheckpointFolder) -> tuple[str, ...]:
        return next(parts for parts, known in self._open.items() if known is folder)

    def _entry(self, folder: CheckpointFolder, id: str) -> CheckpointFile:
        try:
            return CheckpointFile(folder, id, decoded(folder.read(id + SUFFIX), id))
        except FileNotFoundError:
            return CheckpointFile(folder, id, None, "it was deleted just now")
        except CorruptionError as error:
            return CheckpointFile(folder, id, None, error.message)


# --- workflows/checkpoints ---


GUARD = ".lock"
ASIDE = "set-aside"
ASIDE_DAYS = 30.0


class Checkpoints:
    """All checkpoints below one root. Close it, or use it in a `with` block."""

    def __init__(self, root: str = ".", clock: Callable[[], float] = time.time) -> None:
        self._places = CheckpointFolders(root)
        self.root = self._places.root
        self._clock = clock

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._places.close()

    # Looking

    def entries(self) -> list[CheckpointFile]:
        """Return every checkpoint, readable or not."""
        return self._places.entries()

    def get(self, workflow: str) -> CheckpointFile:
        """Return the checkpoint of this workflow. Raise if it is missing or damaged."""
        entry = self._places.find(workflow)
        if entry is None:
            raise UsageError(
                f"there is no workflow {workflow} in {self.root}; nothing was done",
                hint="`list` shows the existing ones; `start` begins one",
            )
        if entry.record is None:
            raise CorruptionError(
                f"{entry.path} cannot be trusted: {entry.reason}. It was left as it is",
                hint="restore it from a copy, or start over with `start --force`, which sets it aside",
            )
        return entry

    def holder(self, entry: CheckpointFile) -> dict[str, Any] | None:
        """Return who holds this workflow, if that process may still be at work."""
        holder = self._last_holder(entry)
        return holder if holder and lives(holder, self._clock()) else None

    def meant(self, owner_pid: int) -> str:
        """Return the workflow to use if none is named: this session's, or the only unfinished one."""
        token = os.environ.get(TOKEN_VARIABLE, "")
        found = [
            e
            for e in self.entries()
            if e.record and is_unfinished(e.record) and not self.has_expired(e.record)
        ]
        holders = [self.holder(entry) for entry in found]
        woken = [e for e, h in zip(found, holders, strict=True) if h and _is_for(h, None, token)]
        mine = [e for e, h in zip(found, holders, strict=True) if h and _is_for(h, owner_pid, token)]
        chosen = woken or mine or found
        if not chosen:
            raise UsageError(
                f"there is no unfinished workflow in {self.root}; nothing was done",
                hint="`list` shows the existing ones; `start` begins one",
            )
        if len(chosen) > 1:
            raise UsageError(
                f"several workflows are unfinished: {some(sorted(e.id for e in chosen))}; nothing was done",
                hint="name one with --workflow",
            )
        if not mine and (holder := self.holder(chosen[0])):
            raise RunBusy(
                f"{chosen[0].id} is held by {in_words(holder)}; nothing was done",
                hint=f"leave it to that process; if you act for it, add --workflow {chosen[0].id}",
            )
        return chosen[0].id

    def has_expired(self, record: dict[str, Any]) -> bool:
        return is_expired(record, self._clock())

    # Changing

    def start(
        self,
        workflow: str,
        *,
        agent: str | None = None,
        step: str | None = None,
        key: str | None = None,
        remaining: list[str] | None = None,
        handoff: str | None = None,
        notes: str = "",
        ttl_days: float = 7,
        force: bool = False,
        per_agent: bool = False,
        owner_pid: int | None = None,
    ) -> dict[str, Any]:
        """Start a workflow, or return it if it was started before: the same id and key mean the same workflow.

        Hold it for the owner, if one is given; raise RunBusy if another living process holds it. Defaults: the key
        is the id of the workflow, the agent is the one that the environment names, and the current step is the
        first remaining one.
        """
        agent = agent_here() if agent is None else agent
        key, remaining = workflow if key is None else key, list(remaining or ())
        if step is None and remaining:
            step, *remaining = remaining
        safe_name(workflow, "the id of a workflow")
        safe_name(agent, "the name of an agent")
        if not step or not key:
            raise UsageError(
                "a workflow needs a step and an idempotency key; nothing was done",
                hint="name its steps with --step or --remaining",
            )
        now_s = self._clock()
        record = new_record(
            workflow,
            agent=agent,
            step=step,
            key=key,
            remaining=remaining,
            handoff=handoff,
            notes=notes,
            ttl_days=ttl_days,
            now_s=now_s,
        )
        check(record)
        if owner_pid is not None:
            describe(owner_pid, now_s)  # a dead owner is refused before anything is written
        with self._alone():
            self._refuse_key_of_another(workflow, key)
            entry = self._places.find(workflow)
            if entry and entry.record and entry.record["idempotencyKey"] == key:
                if owner_pid is not None and self._is_wanted(entry.record, None, lambda _: None):
                    self._take(entry, owner_pid)
                return entry.record
            if entry:
                self._make_way(entry, force=force)
            parts = (AGENTS, agent, *PLACE) if per_agent else PLACE
            folder = entry.folder if entry else self._places.make(*parts)
            fresh = CheckpointFile(folder, workflow, record)
            folder.write(fresh.name, encoded(record))
            if owner_pid is not None:
                self._hold(fresh, owner_pid)
        return record

    def update(
        self,
        workflow: str,
        *,
        complete: str | None = None,
        step: str | None = None,
        status: str | None = None,
        notes: str | None = None,
        owner_pid: int | None = None,
        token: str = "",
        force: bool = False,
    ) -> dict[str, Any]:
        """Record the progress of a workflow, and renew its holder's lease.

        Raise ConflictError if it is declared done while steps are not; `force` ends it anyway.
        """
        self.get(workflow)  # raises before a folder is created
        with self._alone():
            entry = self.get(workflow)
            assert entry.record is not None
            self._keep_hold(entry, owner_pid, token)
            after = advanced(
                entry.record,
                complete=complete,
                step=step,
                status=status,
                notes=notes,
                now_s=self._clock(),
                force=force,
            )
            if after is not entry.record:
                entry.folder.write(entry.name, encoded(check(after, entry.record)))
            if not is_unfinished(after):
                entry.folder.remove(entry.id + GUARD)
        return after

    def complete(
        self, workflow: str, *, owner_pid: int | None = None, token: str = "", force: bool = False
    ) -> dict[str, Any]:
        """Mark a workflow as done and release its lock. The file stays until it expires and is pruned.

        This also completes the last step. With `force`, other steps that were never done stay in the file.
        """
        record = self.get(workflow).record
        if record and record["status"] == "done":
            return record
        return self.update(workflow, status="done", owner_pid=owner_pid, token=token, force=force)

    def resume(
        self,
        workflow: str | None = None,
        *,
        agent: str | None = None,
        owner_pid: int,
        steal: bool = False,
        again: bool = False,
        skipped: Callable[[str], None] = lambda _: None,
    ) -> tuple[dict[str, Any], str] | None:
        """Take the lock of the first unfinished workflow without a holder; return its record and a token.

        If none is free, `again` returns one that this same owner holds, and `steal` takes one that another holds.
        """
        if not (self._places.find(workflow) if workflow else self._places.folders()):
            return None
        with self._alone():
            own: list[CheckpointFile] = []
            held: list[CheckpointFile] = []
            for entry in [self.get(workflow)] if workflow else self.entries():
                if entry.record is None:
                    skipped(f"INVALID {entry.name} {entry.reason}")
                elif self._is_wanted(entry.record, agent, skipped):
                    holder = self.holder(entry)
                    if holder is None:
                        return entry.record, self._hold(entry, owner_pid)
                    if holder.get("token") == os.environ.get(TOKEN_VARIABLE, "-"):
                        return entry.record, str(
                            holder["token"]
                        )  # this process was started for this workflow
                    if again and is_same(holder, owner_pid):
                        own.append(entry)
                        continue
                    held.append(entry)
                    skipped(f"{entry.id} is held by {in_words(holder)}")
            # A held workflow is taken by force only if none was free.
            for entry in [*own, *(held if steal else ())]:
                if entry.record:
                    return entry.record, self._hold(
                        entry, owner_pid, self._last_holder(entry) if own else None
                    )
        return None

    def release(self, workflow: str, token: str) -> None:
        """Release an unfinished workflow, so that another process can resume it."""
        with self._alone():
            entry = self._places.find(workflow)
            holder = entry and self._last_holder(entry)
            if entry and holder and holder.get("token") == token:
                entry.folder.remove(entry.id + GUARD)

    def hand_to(self, workflow: str, token: str, pid: int) -> None:
        """Pass the lock from the holder of the token to another process."""
        with self._alone():
            entry = self.get(workflow)
            holder = self.holder(entry)
            if holder is None or holder.get("token") != token:
                raise LeaseLost(f"{workflow} is no longer held here; nothing was changed")
            self._hold(entry, pid, holder)

    def prune(self, *, dry_run: bool = False, keep_days: float | None = None) -> list[tuple[str, str]]:
        """Clean up expired workflows without a holder. Return each path with what was done: removed, or set aside.

        With `keep_days`, clean up those that were finished or expired more than so many days ago.

        Unfinished work is set aside for 30 more days before it is deleted: a clock that runs ahead for a day must
        not cost anyone their work. Unreadable files are never touched.
        """
        if not self._places.folders():
            return []
        if dry_run:
            return list(self._prune(keep_days, dry_run=True))
        with self._alone():
            return list(self._prune(keep_days, dry_run=False))

    # How

    def _prune(self, keep_days: float | None, *, dry_run: bool) -> Iterator[tuple[str, str]]:
        now_s = self._clock()
        for entry in self.entries():
            if entry.record is None or not is_over(entry.record, now_s, keep_days) or self.holder(entry):
                continue
            unfinished = is_unfinished(entry.record)
            if not dry_run and unfinished:
                self._set_aside(entry)
            elif not dry_run:
                entry.folder.remove(entry.name)
            if not dry_run:
                entry.folder.remove(entry.id + GUARD)
                entry.folder.sync()
            yield entry.path, "set aside" if unfinished else "removed"
        for folder in self._places.folders():
            aside = self._places.quietly((*self._places.parts(folder), ASIDE))
            for name in aside.names() if aside else ():
                # Its mtime is the time of the move: _set_aside renewed it.
                if aside and 0 <= ASIDE_DAYS * DAY_S < now_s - aside.modified_s(name):
                    if not dry_run:
                        aside.remove(name)
                    yield os.path.join(aside.path, name), "removed"

    def _refuse_key_of_another(self, workflow: str, key: str) -> None:
        for other in self.entries():
            if other.record and other.id != workflow and other.record["idempotencyKey"] == key:
                raise ConflictError(
                    f"this idempotency key belongs to workflow {other.id}; nothing was started",
                    hint="a key stands for one piece of work: continue that workflow, or use another key",
                )

    def _make_way(self, entry: CheckpointFile, *, force: bool) -> None:
        """Set the old checkpoint aside, if the caller asked for that and no process works on it."""
        if holder := self.holder(entry):
            raise ConflictError(
                f"{entry.id} is held by {in_words(holder)}; nothing was changed",
                hint="wait until that process is done, or take it over with `resume --steal-lock`",
            )
        if not force and entry.record is None:
            self.get(entry.id)
        if not force:
            raise ConflictError(
                f"{entry.id} was started with another idempotency key; nothing was changed",
                hint="`resume` continues it; `start --force` sets it aside and starts over",
            )
        self._set_aside(entry)

    def _set_aside(self, entry: CheckpointFile) -> None:
        aside = self._places.make(*self._places.parts(entry.folder), ASIDE)
        number = time.time_ns()
        try:
            os.utime(entry.name, (self._clock(),) * 2, dir_fd=entry.folder.fd, follow_symlinks=False)
            entry.folder.move(entry.name, aside, f"{entry.id}.{number}{SUFFIX}")
        except OSError as error:
            raise failed(entry.path, error) from error
        aside.sync()
        entry.folder.sync()

    def _hold(self, entry: CheckpointFile, pid: int, before: dict[str, Any] | None = None) -> str:
        """Make this process the holder. It gets the token of the holder `before`, if that one hands it on."""
        now_s = self._clock()
        holder = renewed(describe(pid, now_s), now_s)
        if before:
            holder["token"] = before["token"]
        entry.folder.write(entry.id + GUARD, encode_holder(holder))
        return str(holder["token"])

    def _take(self, entry: CheckpointFile, owner_pid: int) -> None:
        """Make this process the holder, unless it already is. Raise if another process is."""
        holder = self.holder(entry)
        if holder is None:
            self._hold(entry, owner_pid)
        elif not is_same(holder, owner_pid) and not _is_for(holder, None, os.environ.get(TOKEN_VARIABLE, "")):
            raise RunBusy(
                f"{entry.id} is held by {in_words(holder)}; nothing was changed",
                hint="leave it to that process, or take it over with `resume --steal-lock`",
            )

    def _last_holder(self, entry: CheckpointFile) -> dict[str, Any] | None:
        """Return who held it last, alive or not."""
        try:
            return decode_holder(entry.folder.read(entry.id + GUARD))
        except (FileNotFoundError, CorruptionError):
            return None

    def _keep_hold(self, entry: CheckpointFile, owner_pid: int | None, token: str) -> None:
        """Renew the lease. Check a caller who names a process or token; take any other caller for the holder."""
        holder = self.holder(entry)
        token = token or os.environ.get(TOKEN_VARIABLE, "")
        if holder is None:
            if owner_pid is not None:
                self._hold(entry, owner_pid)
            return
        named = token or owner_pid is not None
        if named and not _is_for(holder, owner_pid, token):
            raise LeaseLost(
                f"{entry.id} is held by {in_words(holder)} now; nothing was changed",
                hint="stop working on it here, or take it back with `resume --steal-lock`",
            )
        entry.folder.write(entry.id + GUARD, encode_holder(renewed(holder, self._clock())))

    def _is_wanted(self, record: dict[str, Any], agent: str | None, skipped: Callable[[str], None]) -> bool:
        if not is_unfinished(record) or (agent and agent != (record["handoffTo"] or record["agentId"])):
            return False
        if is_expired(record, self._clock()):
            skipped(f"{record['workflowId']} expired at {record['expiresAt']}")
            return False
        return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one command at a time work in the whole workspace: keys are unique in all of it."""
        with self._places.make(*PLACE).locked(GUARD):
            yield


def _is_for(holder: dict[str, Any], owner_pid: int | None, token: str) -> bool:
    """Return True if the caller with this token, or this process or one above it, is the holder."""
    return bool(token and holder.get("token") == token) or (
        owner_pid is not None and is_of(holder, owner_pid)
    )


# --- workflows/stale ---


MINUTE_S = 60.0


def stale(checkpoints: Checkpoints, stale_min: float, now_s: float | None = None) -> list[dict[str, Any]]:
    """Return the workflows that are older than the threshold, in the order of the files."""
    now_s = time.time() if now_s is None else now_s
    found = (_finding(entry, stale_min * MINUTE_S, now_s) for entry in checkpoints.entries())
    return [finding for finding in found if finding]


def _finding(entry: CheckpointFile, threshold_s: float, now_s: float) -> dict[str, Any] | None:
    if entry.record is None:
        return _unreadable(entry, threshold_s, now_s)
    record = entry.record
    if not is_unfinished(record):
        return None
    age_s = now_s - seconds(record["updatedAt"])
    # A time in the future means that the clock was set back; the true age is unknown.
    if -threshold_s - MINUTE_S < age_s < threshold_s:
        return None
    return {
        "workflowId": record["workflowId"],
        "agentId": record["agentId"],
        "status": record["status"],
        "file": entry.path,
        "ageMinutes": int(age_s / MINUTE_S),
        "reason": "stale" if age_s > 0 else "its time is in the future: the clock was set back",
        "state": record[HASH],
    }


def _unreadable(entry: CheckpointFile, threshold_s: float, now_s: float) -> dict[str, Any] | None:
    """Report a file that cannot be trusted once it is older than the threshold: it may be unfinished work."""
    try:
        modified_s = entry.folder.modified_s(entry.name)
    except OSError:
        return None
    if now_s - modified_s < threshold_s:
        return None
    return {
        "workflowId": entry.id,
        "agentId": "unknown",
        "status": "invalid",
        "file": entry.path,
        "ageMinutes": int((now_s - modified_s) / MINUTE_S),
        "reason": entry.reason,
        "state": f"{modified_s}",
    }


def report_lines(findings: list[dict[str, Any]], stale_min: float) -> list[str]:
    """Return `OK`, or the number of stale workflows and each of them."""
    if not findings:
        return ["OK"]
    late = [finding for finding in findings if finding["status"] != "invalid"]
    lines = [f"ALERT stale_checkpoints={len(late)} threshold_min={stale_min:g}"]
    for finding in findings:
        if finding["status"] == "invalid":
            lines.append(f"INVALID {finding['workflowId']}.json {finding['reason']}")
        else:
            who = f"{finding['agentId']}:{finding['workflowId']}"
            lines.append(f"- {who} age={finding['ageMinutes']}m file={finding['file']}")
    return lines


def report_data(findings: list[dict[str, Any]], stale_min: float) -> dict[str, Any]:
    return {
        "status": "alert" if findings else "ok",
        "count": len(findings),
        "thresholdMin": stale_min,
        "findings": findings,
    }


# --- workflows/lines ---


LOG_BYTES_MAX = 1_000_000
LOGS_KEPT = 5


def log_line(path: str, details: dict[str, Any], at_s: float | None = None) -> None:
    """Append a line with its time to the log. Rotate a full log, and drop the oldest one."""
    line = json.dumps({"at": iso(time.time() if at_s is None else at_s), **details}) + "\n"
    try:
        if os.path.exists(path) and os.path.getsize(path) + len(line) > LOG_BYTES_MAX:
            for number in range(LOGS_KEPT - 1, 0, -1):
                if os.path.exists(f"{path}.{number}"):
                    os.replace(f"{path}.{number}", f"{path}.{number + 1}")
            os.replace(path, f"{path}.1")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(line)
    except OSError as error:
        raise BackendError(f"{path} cannot be written: {error.strerror}; the check was not logged") from error


# --- workflows/script ---


NOTHING = "NO_CHECKPOINT"
UNKNOWN = 4


class _Parser(argparse.ArgumentParser):
    """A parser of fixed width. By default argparse measures the terminal for each option, loading many modules."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100), **settings)


def say(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")


def warn(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")


def printable(text: str) -> str:
    """Escape control characters, so that a name in a file cannot control the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def owner(pid: int | None) -> int:
    """Return the named owner, or the parent process by default. With 0, `start` holds the workflow for no process."""
    return os.getppid() if pid is None else pid


def pretty(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2)


def list_lines(checkpoints: Checkpoints) -> list[str]:
    lines = []
    for entry in checkpoints.entries():
        if entry.record is None:
            lines.append(f"INVALID {entry.name} {entry.reason}")
            continue
        record, holder = entry.record, checkpoints.holder(entry)
        cells = [record["workflowId"], record["status"], record["currentStep"], record["updatedAt"]]
        lines.append("\t".join([*cells, f"held by {in_words(holder)}"] if holder else cells))
    return lines


def meant(checkpoints: Checkpoints, workflow: str | None, owner_pid: int | None) -> str:
    """Return the named workflow, or the only one that can be meant."""
    return checkpoints.meant(owner(owner_pid)) if workflow is None else workflow


def skipped_line(record: dict[str, Any]) -> str:
    """Return a line about the skipped steps of a workflow that is done, or "" if there are none."""
    left = record["remainingSteps"] if record["status"] == "done" else []
    return f"{record['workflowId']} is done with steps skipped: {some(left)}" if left else ""


def _start(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    record = checkpoints.start(
        args.workflow,
        agent=args.agent,
        step=args.step,
        key=args.idempotency,
        remaining=args.remaining,
        handoff=args.handoff,
        notes=args.notes,
        ttl_days=args.ttl_days,
        force=args.force,
        per_agent=args.per_agent,
        owner_pid=owner(args.owner_pid) or None,
    )
    say(pretty(record))


def _update(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    record = checkpoints.update(
        meant(checkpoints, args.workflow, args.owner_pid),
        complete=args.complete,
        step=args.step,
        status=args.status,
        notes=args.notes,
        owner_pid=args.owner_pid,
    )
    say(pretty(record))


def _resume(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    found = checkpoints.resume(
        args.workflow,
        agent=args.agent,
        owner_pid=owner(args.owner_pid),
        steal=args.steal_lock,
        again=True,
        skipped=warn,
    )
    say(pretty(found[0]) if found else NOTHING)


def _complete(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    workflow = meant(checkpoints, args.workflow, args.owner_pid)
    record = checkpoints.complete(workflow, owner_pid=args.owner_pid, force=args.force)
    if line := skipped_line(record):
        warn(line)
    say(pretty(record))


def _list(checkpoints: Checkpoints, _args: argparse.Namespace) -> None:
    for line in list_lines(checkpoints):
        say(line)


def _prune(checkpoints: Checkpoints, args: argparse.Namespace) -> None:
    for path, did in checkpoints.prune(dry_run=args.dry_run):
        say(f"{'would be ' if args.dry_run else ''}{did}: {path}")


def _check(checkpoints: Checkpoints, args: argparse.Namespace) -> int:
    findings = stale(checkpoints, args.stale_min)
    data = report_data(findings, args.stale_min)
    if args.json:
        say(json.dumps(data, indent=2))
    else:
        say("\n".join(report_lines(findings, args.stale_min)))
    if args.log:
        log_line(args.log, data)
    return 1 if findings else 0


def _parser(wanted: str = "") -> argparse.ArgumentParser:
    """Return a parser for every command, or for one only, since making them all takes longer than the work."""
    parser = _Parser(description="Checkpoints that survive a restart")
    parser.add_argument("--root", default=".", metavar="DIR", help="the workspace (default: this folder)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, options, _) in _COMMANDS.items():
        if wanted in ("", name):
            options(commands.add_parser(name, help=text, description=text))
    return parser


def _start_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser, required=True)
    parser.add_argument(
        "--agent", metavar="NAME", help="the agent that does the work (default: from the environment)"
    )
    parser.add_argument("--step", help="the first step (default: the first remaining one)")
    parser.add_argument(
        "--idempotency", metavar="KEY", help="the idempotency key (default: the id of the workflow)"
    )
    parser.add_argument("--remaining", nargs="*", default=[], metavar="STEP")
    parser.add_argument("--handoff", metavar="AGENT")
    parser.add_argument("--notes", default="")
    parser.add_argument("--ttl-days", type=float, default=7)
    parser.add_argument("--per-agent", action="store_true", help="keep it in agents/NAME/memory/checkpoints")
    parser.add_argument("--force", action="store_true", help="set aside an older workflow with this id")


def _update_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser)
    parser.add_argument("--step", metavar="NEXT")
    parser.add_argument("--complete", metavar="STEP")
    parser.add_argument("--status", choices=STATUSES)
    parser.add_argument("--notes")


def _resume_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser)
    parser.add_argument("--agent", metavar="NAME", help="only workflows of this agent, or handed to it")
    parser.add_argument("--steal-lock", action="store_true", help="take it even from a running process")


def _complete_options(parser: argparse.ArgumentParser) -> None:
    _add_workflow(parser)
    parser.add_argument("--force", action="store_true", help="complete it even if steps were never done")


def _prune_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true")


def _no_options(_parser: argparse.ArgumentParser) -> None:
    pass


def _add_workflow(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    which = "the workflow" if required else "the workflow, if several are unfinished"
    parser.add_argument("--workflow", required=required, metavar="ID", help=which)
    parser.add_argument("--owner-pid", type=int, metavar="PID", help="the process that does the work")


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stale-min", type=_minutes, default=10.0, metavar="MINUTES")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--log", metavar="FILE", help="append the findings to this file, one line per check")


def _minutes(text: str) -> float:
    minutes = float(text)
    if not 0 <= minutes < 1e9:
        raise ValueError(text)
    return minutes


_COMMANDS = {
    "start": ("start a workflow, or show it if it was started before", _start_options, _start),
    "update": ("record the progress of a workflow", _update_options, _update),
    "resume": ("take over an unfinished workflow that no process holds", _resume_options, _resume),
    "complete": ("mark a workflow as done", _complete_options, _complete),
    "list": ("show every checkpoint", _no_options, _list),
    "prune": ("clean up expired workflows", _prune_options, _prune),
    "check": ("report unfinished workflows that are stale", _add_check_options, _check),
}


def guarded(work: Any) -> int:
    """Do the work and return an exit code; print an error as one sentence."""
    try:
        code = work() or 0
        sys.stdout.flush()
    except TakebackError as error:
        warn(f"{error.message}\n  {error.hint}" if error.hint else error.message)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        warn(f"{error.filename or 'the disk'}: {error.strerror or error}; nothing more was done")
        return UNKNOWN
    except KeyboardInterrupt:
        return 130
    return int(code)


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    args = _parser(words[0] if words and words[0] in _COMMANDS else "").parse_args(words)

    def work() -> Any:
        with Checkpoints(args.root) as checkpoints:
            return _COMMANDS[args.command][2](checkpoints, args)

    return guarded(work)


def selfcheck(words: Sequence[str] | None = None) -> int:
    """Run the command line of scripts/checkpoint_selfcheck.py."""
    parser = _Parser(description="Report unfinished workflows that are stale, without a model")
    parser.add_argument("--root", default=".", metavar="DIR", help="the workspace (default: this folder)")
    _add_check_options(parser)
    args = parser.parse_args(words)

    def work() -> int:
        with Checkpoints(args.root) as checkpoints:
            return _check(checkpoints, args)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
