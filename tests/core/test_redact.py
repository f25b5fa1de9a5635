"""Secrets of known shapes never reach the journal; ordinary commands stay readable."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.core.redact import ANNOUNCED, HIDDEN, NAMED, TOKENS, _places, redact, secret_in

from .command_lines import WITH_SECRETS, WITHOUT
from .more_command_lines import MORE_WITH_SECRETS, MORE_WITHOUT

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
        "git log --author=Ann",
        "htpasswd .htpasswd bob",
        "zip -r a.zip src",
        "7z x a.7z",
        "curl -b cookies.txt http://127.0.0.1",
        "echo done | sudo tee x",
        "git config --get user.name",
    ],
)
def test_ordinary_commands_stay_readable(text: str) -> None:
    assert redact(text) == text


HINTED = [(hints, shape) for _, hints, shape in (*TOKENS, *NAMED)]


@pytest.mark.parametrize("hints, shape", HINTED, ids=[shape[:40] for _, shape in HINTED])
@settings(max_examples=1000 if os.environ.get("TAKEBACK_TEST_ALL") else 30)
@given(data=st.data())
def test_whatever_a_shape_finds_has_one_of_its_hints(
    hints: tuple[str, ...], shape: str, data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(re.compile(shape, re.ASCII)))
    assert any(hint in text.lower() for hint in hints)


@pytest.mark.parametrize(
    "command",
    [
        "npm config set //registry.example.org/:_authToken=hunter2secret",
        "npm config set //registry.example.org/:_authToken hunter2secret",
        "echo 'api_key: hunter2secret' >> config.yml",
        "az login --service-principal -u app -p hunter2secret --tenant t",
        "htpasswd -b .htpasswd bob hunter2secret",
        "htpasswd -nbB bob hunter2secret",
        "unzip -P hunter2secret a.zip",
        "zip -r -P hunter2secret a.zip src",
        "7z x -phunter2secret a.7z",
        "kubectl create secret generic s --from-literal=pw=hunter2secret",
        "ldapsearch -x -D cn=admin -w hunter2secret -b dc=x",
        "smbclient //host/share -U bob%hunter2secret -c ls",
        "curl --cookie session=hunter2secret http://127.0.0.1",
        "curl -b 'session=hunter2secret' http://127.0.0.1",
        "echo hunter2secret | sudo -S apt-get install x",
        "printf '%s\\n' hunter2secret | sudo -kS true",
        "echo 'bob:hunter2secret' | chpasswd",
        "passwd bob <<< hunter2secret",
        "sudo -S true <<<hunter2secret",
        "echo hunter2secret | docker login -u me --password-stdin",
        "openssl enc -aes256 -pass pass:hunter2secret -in a",
        "mount -t cifs -o username=bob,password=hunter2secret //h/s /mnt",
        "lftp -u bob,hunter2secret ftp.example.org",
        "sqlcmd -S host -U sa -P hunter2secret",
        "mongosh -u bob -p hunter2secret",
        "vault login hunter2secret",
        "aws configure set aws_secret_access_key hunter2secret",
        'curl -d \'{"password": "hunter2secret"}\' http://127.0.0.1',
        "curl http://127.0.0.1/x?api_key=hunter2secret",
    ],
)
def test_passwords_in_command_lines(command: str) -> None:
    shown = redact(command)
    assert "hunter2secret" not in shown and HIDDEN in shown


@pytest.mark.parametrize("command", [*WITH_SECRETS, *MORE_WITH_SECRETS])
def test_documented_ways_to_give_a_password(command: str) -> None:
    shown = redact(command.replace("@S", "hunter2secret"))
    assert "hunter2secret" not in shown and HIDDEN in shown


@pytest.mark.parametrize("hints, shape", ANNOUNCED, ids=[shape[:40] for _, shape in ANNOUNCED])
def test_a_shape_is_looked_for_wherever_it_would_find_something(hints: tuple[str, ...], shape: str) -> None:
    lines = [line.replace("@S", "hunter2secret") for line in (*WITH_SECRETS, *MORE_WITH_SECRETS)]
    for line in (line for line in lines if re.search(shape, line)):
        assert any(hint in line.lower() for hint in hints), line


@pytest.mark.parametrize("command", [*WITHOUT, *MORE_WITHOUT])
def test_what_only_looks_like_it_stays_readable(command: str) -> None:
    assert redact(command) == command


# One of each kind, joined here so that no scanner takes a test for a leak.
EVERY_KIND = {
    "a private key": "-----BEGIN " + "PRIVATE KEY-----",
    "a password in a URL": "postgres://me:" + "hunter2@db",
    "a Slack webhook": "https://hooks.slack" + ".com/services/T0000/B0000/XXXXXXXX",
    "a mail service key": "SG" + ".abcdefghijklmnop1234.abcdefghijklmnop1234",
    "a bot token": "123456789" + ":AA" + "abcdefghijklmnopqrstuvwxyz1234567",
    "an account key": "AccountKey=" + "abcdefghijklmnopqrstuvwxyz==",
    "a bearer token": "Bearer " + "abcdefghijklmnopqrst",
    "a Google key": "ya29." + "abcdefghijklmnopqrstuvwxyz",
}


@pytest.mark.parametrize("kind, secret", EVERY_KIND.items(), ids=list(EVERY_KIND))
def test_the_journal_hides_what_a_workflow_file_refuses(kind: str, secret: str) -> None:
    text = f"deploy with {secret} now"
    assert secret_in(text) == kind
    assert HIDDEN in redact(text)
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "unit",
    [
        "-a",
        "pass",
        "-pass",
        "a.",
        "eyJ-",
        "--",
        "sudo -S ",
        "echo a",
        "x:",
        "http://",
        "config -a ",
        "htpasswd -b ",
        "redis-cli -x ",
        "az login ",
        "vault login -a ",
        "az x ",
        "ssh-keygen ",
        "openssl -k",
        "echo '",
        "passwd <<E\n",
        "A_KEY=",
        "user password ",
        "curl -u ",
        "rclone config create ",
        "redis-cli auth ",
        "'\"'\"'",
        "printf 'pass",
        "printf token=% ",
        "ftp user ",
        "net use //x ",
        "az appsettings set ",
        "create secret ",
        "expect assword send ",
        "heroku config:set ",
        "config 'pass]",
        "-H 'token",
    ],
)
def test_a_long_line_costs_its_length(unit: str) -> None:
    """A shape that is quadratic in the line takes minutes here, and the test's own limit ends it."""
    redact(unit * 20_000)
    secret_in(unit * 20_000)


def test_each_shape_is_found_by_each_of_its_hints_and_the_short_ones_come_first() -> None:
    shapes = [hints for hints, _ in ANNOUNCED] + [hints for _, hints, _ in TOKENS]
    places = _places()
    assert {(hint, place) for hint, some in places.items() for place in some} == {
        (hint, place) for place, hints in enumerate(shapes) for hint in hints
    }
    assert [len(hint) for hint in places] == sorted(len(hint) for hint in places)
    assert {hint for _, hints, _ in NAMED for hint in hints} <= places.keys()


@pytest.mark.parametrize("hints", [("auth", "printf"), ("printf", "auth")])
def test_shapes_are_replaced_in_their_order_whichever_hint_is_found_first(
    hints: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shape of printf needs the name `auth`, which the shape of `auth=` would hide with what follows it."""
    monkeypatch.setattr("takeback.core.redact._hints_in", lambda _: hints)
    assert "1234567" not in redact("printf 'auth=%s' abcdef1234567XYZ")
