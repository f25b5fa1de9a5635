"""Secrets of known shapes never reach the journal; ordinary commands stay readable."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.core.redact import _AFTER, _PATTERNS, _SUSPICIOUS, HIDDEN, redact

# Joined here so that no scanner takes a test for a leak.
SECRETS = [
    "sk-" + "proj-abcdefghijklmnop1234",
    "gh" + "p_abcdefghijklmnopqrst1234",
    "xox" + "b-1234567890-abcdef",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "eyJ" + "hbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "glpat" + "-abcdefghijklmnopqrst",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", ["curl -H x {}", "{}", "KEY={}", "tool --flag '{}'"])
def test_tokens_of_known_shape(secret: str, form: str) -> None:
    assert secret not in redact(form.format(secret))


@pytest.mark.parametrize(
    "text, shown",
    [
        ("PGPASSWORD=hunter2 psql", f"PGPASSWORD={HIDDEN} psql"),
        ("mysql --password hunter2 -u me", f"mysql --password {HIDDEN} -u me"),
        ("mysql --password=hunter2", f"mysql --password={HIDDEN}"),
        ("deploy --api-key 'a b' now", f"deploy --api-key {HIDDEN} now"),
        ("curl -H 'Authorization: Bearer abc.def'", f"curl -H 'Authorization: Bearer {HIDDEN}'"),
        ("curl -u bob:hunter2 http://x", f"curl -u bob:{HIDDEN} http://x"),
        ("curl --user bob:hunter2 http://x", f"curl --user bob:{HIDDEN} http://x"),
        ("curl --proxy-user=bob:hunter2 http://x", f"curl --proxy-user=bob:{HIDDEN} http://x"),
        ("curl -ubob:hunter2 http://x", f"curl -ubob:{HIDDEN} http://x"),
        ("mysql -phunter2 shop", f"mysql -p{HIDDEN} shop"),
        ("mysqldump -h db -phunter2 shop > x", f"mysqldump -h db -p{HIDDEN} shop > x"),
        ("sshpass -p hunter2 ssh me@example.org", f"sshpass -p {HIDDEN} ssh me@example.org"),
        ("docker login -u me -p hunter2 example.org", f"docker login -u me -p {HIDDEN} example.org"),
        ("twine upload -u me -p hunter2 dist/x", f"twine upload -u me -p {HIDDEN} dist/x"),
        ("redis-cli -h db -a hunter2 get x", f"redis-cli -h db -a {HIDDEN} get x"),
        ("git clone https://me:hunter2@example.org/x", f"git clone https://me:{HIDDEN}@example.org/x"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", HIDDEN),
    ],
)
def test_what_a_name_announces(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "pytest -k test_password -x",
        "git commit -m 'rotate tokens'",
        "python tokenizer.py --in a.txt",
        "ls -la src",
        "mkdir -p a/b && docker run -p 80:80 x",
        "mysql -p shop",
        "redis-cli get -a",
    ],
)
def test_ordinary_commands_stay_readable(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("pattern", [*_PATTERNS, *_AFTER], ids=lambda pattern: pattern.pattern[:30])
@settings(max_examples=1000 if os.environ.get("TAKEBACK_TEST_ALL") else 30)
@given(data=st.data())
def test_what_a_pattern_finds_is_never_passed_over(pattern: re.Pattern[str], data: st.DataObject) -> None:
    text = data.draw(st.from_regex(pattern))
    assert _SUSPICIOUS.search(text)
