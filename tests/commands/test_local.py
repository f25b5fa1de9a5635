"""What stays with this session is unknown and not irreversible: its processes, servers here, its containers."""

from __future__ import annotations

import pytest

from takeback.shell.classify import classify
from takeback.shell.judgement import Judgement, Reach
from takeback.shell.sink import RunningProcess

from .corpus import HOME, ROOT

PROCESSES = (
    RunningProcess(100, "node", "node server.js --port 3000", own=True),
    RunningProcess(101, "python3", "python3 -m http.server", own=True),
    RunningProcess(200, "node", "node /srv/somebody/elses.js", own=False),
    RunningProcess(201, "postgres", "postgres -D /var/lib/postgres", own=False),
)


def judge(line: str) -> Judgement:
    return classify(
        line,
        root=ROOT,
        cwd=ROOT,
        home=HOME,
        exists=lambda path: path == f"{ROOT}/compose.yaml",
        running=lambda: PROCESSES,
    )


@pytest.mark.parametrize(
    "line",
    [
        *("kill 100", "kill -9 100 101", "kill -TERM 100", "kill -s INT 101", "kill -- -100", "kill %1", "kill %%",),
        *("sleep 9 & kill $!", 'npm start & P=$!; sleep 1; kill "$P"', "sleep 9 & kill -9 $!", "kill -SIGTERM 100",),
        *("pkill -f server.js", "pkill -9 -f 'http.server'", "pkill python3", "pkill -f nothing-like-it",),
        *("killall python3", "curl -X POST localhost:3000/api", "curl -d a=b http://127.0.0.1:8000",),
        *("curl -XDELETE 'http://[::1]:80/x?y=1'", "curl -F f=@a http://localhost:3000/up -o /dev/null",),
        *("curl --json '{}' --url http://localhost/x", "wget -qO- --post-data=x http://localhost:8080/y",),
        *("http POST localhost:3000/api a=b", "http :3000/api a=b", "docker compose down",),
        *("docker compose -f compose.yaml ps && docker compose stop web", "docker-compose restart",),
        *("docker compose down --remove-orphans", "docker stop project-web-1",),
        *("docker rm -f project-web-1 project_db_2", "cd src && docker compose kill",),
    ],
)  # fmt: skip
def test_what_is_the_sessions_own(line: str) -> None:
    judged = judge(line)
    assert judged.reach is Reach.UNKNOWN, judged
    assert any(reason.local for reason in judged.reasons)


@pytest.mark.parametrize(
    "line",
    [
        *("kill 200", "kill 100 200", "kill 999", "kill -1", "kill -9 -1", "kill $x", "kill $(cat pid)", "kill 0",),
        *("pkill node", "pkill -f postgres", "pkill -v python3", "pkill .", "pkill -f $x", "killall node",),
        *("pkill -f '('", "curl -d x https://example.org", "curl -d x localhost example.org",),
        *("curl -d x localhost@example.org", "curl -d x http://localhost:80@example.org",),
        *("curl -d x http://localhost.example.org", "curl -d x $URL",),
        *("curl --unix-socket /var/run/docker.sock -X POST localhost/containers/x/kill",),
        *("curl -x proxy:80 -d x localhost", "curl --resolve localhost:80:1.2.3.4 -d x localhost",),
        *("curl -d x 'localhost{,.example.org}'", "curl -d x http://127.0.0.1.example.org",),
        *("http POST example.org a=b", "http --proxy=http:http://x POST :80 a=b", "docker compose down -v",),
        *("docker compose down --volumes", "docker compose down --rmi all", "docker compose push",),
        *("docker compose -p other down", "docker compose -f /other/compose.yaml down",),
        *("cd .. && docker compose down", "docker -H tcp://prod compose down",),
        *("docker --context prod stop project-web-1", "docker stop web", "docker stop other-web-1",),
        *("docker rm -v project-web-1", "docker stop $(docker ps -q)", "docker system prune -f",),
        *("docker volume rm project_data",),
    ],
)  # fmt: skip
def test_what_reaches_further_stays_irreversible(line: str) -> None:
    assert judge(line).reach is Reach.IRREVERSIBLE


def test_without_a_look_at_the_machine_nothing_is_taken_for_ones_own() -> None:
    for line in ("kill 100", "pkill -f server.js", "docker compose down", "docker stop project-web-1"):
        assert classify(line, root=ROOT, cwd=ROOT, home=HOME).reach is Reach.IRREVERSIBLE, line


@pytest.mark.parametrize(
    "line", ["kill $(cat server.pid)", "kill -9 `cat server.pid`", 'kill "$(cat pid)" 100']
)
def test_a_process_that_is_named_only_when_it_runs_is_held_and_the_reason_says_how_to_name_it(
    line: str,
) -> None:
    """Whoever can write the file can write another number into it between the judgement and the signal."""
    main = judge(line).main
    assert main is not None and main.reach is Reach.IRREVERSIBLE
    assert "which of them is known only when it runs" in main.why
    assert "a number in its place" in main.why


def test_a_process_that_is_named_is_held_for_what_it_is() -> None:
    main = judge("kill 200").main
    assert main is not None and main.why == "ends processes"
