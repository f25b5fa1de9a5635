"""Programs in plain text and scripts of the workspace: judged by what they say, never `none` where more is open."""

from __future__ import annotations

from pathlib import Path

import pytest

from takeback.engine.gate.foresight import real_path, script_text
from takeback.shell.classify import classify
from takeback.shell.judgement import Judgement, Reach

from .corpus import HOME, SAFE, judge

PUSHES = [
    "python -c 'import os; os.system(\"git push\")'",
    "python3 -c 'from os import system as s; s(\"git push\")'",
    "python3.12 -c 'import subprocess; subprocess.run([\"git\", \"push\", \"--force\"])'",
    "python -c 'import subprocess as sp; sp.check_call(\"git push\", shell=True)'",
    "python -c 'import subprocess; c = [\"git\", \"push\"]; subprocess.Popen(c)'",
    "python -c 'import subprocess,shlex; subprocess.run(shlex.split(\"git push\"))'",
    "python -c 'import subprocess; subprocess.run(\"git push\".split())'",
    "python -c '__import__(\"os\").system(\"git\" + \" push\")'",
    "python -c 'import importlib; importlib.import_module(\"os\").popen(\"git push\")'",
    "python -c 'import os; getattr(os, \"system\")(\"git push\")'",
    "python -c 'import os; f = os.system; f(\"git push\")'",
    "python -c 'exec(\"import os; os.system(\\\"git push\\\")\")'",
    "python -c 'import os; os.execvp(\"git\", [\"git\", \"push\"])'",
    "python -c 'import os; b = \"main\"; os.system(f\"git push origin {b}\")'",
    "python - <<'E'\nimport os\nos.system('git push')\nE",
    "python <<E\nimport os\nos.system('git push')\nE",
    "echo 'import os; os.system(\"git push\")' | python",
    "python -c 'import requests; requests.post(\"https://example.org\", json={})'",
    "python -c 'import urllib.request as u; u.urlopen(\"https://example.org\", b\"x\")'",
    "python -c 'import os; os.kill(1, 9)'",
    "sh -c 'python -c \"import os; os.system(\\\"git push\\\")\"'",
    "node -e 'require(\"child_process\").execSync(\"git push\")'",
    "node -e \"const {spawnSync} = require('child_process'); spawnSync('git', ['push', '--force'])\"",
    "node -p 'require(\"child_process\").exec(`git push`)'",
    "node -e \"fetch('https://example.org', {method: 'POST', body: 'x'})\"",
    "node <<'E'\nrequire('child_process').execSync('git push')\nE",
    "ruby -e 'system(\"git push\")'",
    "ruby -e '`git push`'",
    "ruby -e 'system \"git\", \"push\"'",
    "ruby -e '%x(git push)'",
    "perl -e 'system(\"git push\")'",
    "perl -e 'qx{git push}'",
    "perl -e 'exec \"git\", \"push\"'",
    "php -r 'shell_exec(\"git push\");'",
    "awk 'BEGIN{system(\"git push\")}'",
    "awk 'BEGIN{\"git push\" | getline}'",
    "awk 'BEGIN{print \"x\" | \"git push\"}'",
    "sed '1e git push' a",
    "sed 's/.*/git push/e' a",
    "git -c alias.x='!git push' x",
    "git -c core.sshCommand='git push #' fetch",
    "ssh -o ProxyCommand='git push' host ls",
    "tar xf a.tar --to-command='git push'",
    "tar cf a.tar x --checkpoint=1 --checkpoint-action=exec='git push'",
    "sort --compress-program='git push' a",
    "echo push | xargs git",
    "echo git push | xargs -I{} sh -c {}",
    "cat > p.sh <<'E'\ngit push\nE\nsh p.sh",
    "echo 'git push' > p.sh; bash ./p.sh",
    "printf 'git push\\n' > p.sh && . ./p.sh",
    "echo 'git push' > .git/hooks/pre-commit; git commit -m x",
    "source /dev/stdin <<< 'git push'",
    "bash /dev/stdin <<< 'git push'",
    "psql -o '|git push' -c 'select 1'",
    "echo 'git push' | parallel",
    "X='git push --force'; $X",
    "time { git push; }",
    ": <<E\n`git push`\nE",
    "ls <<E; git push\nx\nE",
]  # fmt: skip


@pytest.mark.parametrize("line", PUSHES)
def test_a_deed_in_plain_text_is_found(line: str) -> None:
    assert judge(line).reach is Reach.IRREVERSIBLE


@pytest.mark.parametrize(
    "line",
    [
        "python -c 'print(1)'",
        "python -c 'import os; os.system(x)'",
        "python -c 'this is not python'",
        'python -c "$code"',
        "python -c 'exec(open(\"a\").read())'",
        "node -e '1'",
        'node -e "$code"',
        "perl -e 1",
        "ruby -e 'puts 1'",
        "python x.py",
        "node x.js",
        "bash x.sh",
        "./x.sh",
        ". ./x.sh",
    ],
)
def test_what_is_not_found_is_unknown_and_never_none(line: str) -> None:
    assert judge(line).reach is Reach.UNKNOWN


@pytest.mark.parametrize(
    "line, path",
    [
        ("python -c 'import shutil; shutil.rmtree(\"/srv/x\")'", "/srv/x"),
        ("python -c 'import os; os.remove(os.path.expanduser(\"~/x\"))'", "/home/me/x"),
        ("python -c 'from pathlib import Path; (Path.home() / \"x\").unlink()'", "/home/me/x"),
        ('python -c \'open("/srv/a", "w").write("x")\'', "/srv/a"),
        ('node -e \'require("fs").rmSync("/srv/x", {recursive: true})\'', "/srv/x"),
        ("ruby -e 'FileUtils.rm_rf(\"/srv/x\")'", "/srv/x"),
        ("awk '{print > \"/srv/x\"}' a", "/srv/x"),
        ("sed -n 'w /srv/x' a", "/srv/x"),
    ],
)
def test_paths_outside_that_a_program_names_are_found(line: str, path: str) -> None:
    assert (path, Reach.OUTSIDE) in [(touched.path, touched.reach) for touched in judge(line).touched]


# Files of the workspace


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "push.sh").write_text("#!/bin/sh\n# sends it\ngit push --force\n")
    (root / "look.sh").write_text("#!/bin/bash\nset -eu\nls -la\ngit status\n")
    (root / "clean.sh").write_text("rm -rf build\n")
    (root / "calls.sh").write_text("#!/usr/bin/env bash\ncd .\n./push.sh\n")
    (root / "itself.sh").write_text("ls\nsh itself.sh\n")
    (root / "tool.py").write_text("#!/usr/bin/env python3\nimport os\n\nos.system('git push')\n")
    (root / "tool.js").write_text("const c = require('child_process')\n\nc.execSync('git push')\n")
    (root / "package.json").write_text(
        '{"scripts": {"ship": "ls && git push", "prebuild": "git push", "build": "ls"}}'
    )
    (root / "Makefile").write_text(
        "REMOTE = origin\n.PHONY: all\nall: build\n\tls\nbuild:\n\t@echo hi\n"
        "ship: build\n\tgit push \\\n\t  $(REMOTE) main\n"
    )
    (root / "binary").write_bytes(b"\x7fELF\0\0")
    (root / "long.sh").write_text("ls\n" * 60_000)
    (root / "long.py").write_text("print(1)\n" * 20_000)
    outside = tmp_path / "other.sh"
    outside.write_text("ls\n")
    (root / "link.sh").symlink_to(outside)
    (root / "sub").mkdir()
    (root / "sub" / "ship.sh").write_text("git push\n")
    return root


def judged(root: Path, line: str) -> Judgement:
    return classify(line, root=str(root), cwd=str(root), home=HOME, real=real_path, read=script_text)


@pytest.mark.parametrize(
    "line, where",
    [
        ("sh push.sh", "push.sh:3"),
        ("bash -eu push.sh now", "push.sh:3"),
        ("./push.sh", "push.sh:3"),
        ("env A=1 ./push.sh", "push.sh:3"),
        (". ./push.sh", "push.sh:3"),
        ("bash < push.sh", "push.sh:3"),
        ("./calls.sh", "push.sh:3"),
        ("cd sub && sh ship.sh", "sub/ship.sh:1"),
        ("cd sub; sh ship.sh", "sub/ship.sh:1"),
        ("bash -c 'sh sub/ship.sh'", "sub/ship.sh:1"),
        ("python tool.py", "tool.py:4"),
        ("./tool.py --now", "tool.py:4"),
        ("python -m tool", "tool.py:4"),
        ("node tool.js", "tool.js:3"),
        ("npm run ship", "package.json, script ship"),
        ("npm run build", "package.json, script prebuild"),
        ("yarn ship", "package.json, script ship"),
        ("make ship", "Makefile:8"),
        ("make -C sub/.. ship", "Makefile:8"),
        ("cp push.sh x.sh && sh x.sh", "x.sh:3"),
        ("cat push.sh | bash", "push.sh:3"),
        ("git add -A; git commit -m x; ./push.sh", "push.sh:3"),
    ],
)
def test_a_script_of_the_workspace_is_read_and_named(work: Path, line: str, where: str) -> None:
    found = judged(work, line)
    assert found.reach is Reach.IRREVERSIBLE
    assert found.main is not None
    assert found.main.command.startswith("git push")
    assert found.main.where == where


@pytest.mark.parametrize(
    "line, reach",
    [
        ("sh look.sh", Reach.NONE),
        ("./look.sh", Reach.NONE),
        ("sh clean.sh", Reach.RESTORABLE),
        ("sh itself.sh", Reach.NONE),
        ("make", Reach.UNKNOWN),
        ("npm test", Reach.UNKNOWN),
        ("./binary", Reach.UNKNOWN),
        ("sh link.sh", Reach.UNKNOWN),
        ("sh ../other.sh", Reach.UNKNOWN),
        ("sh not-there.sh", Reach.UNKNOWN),
        ("sh $x.sh", Reach.UNKNOWN),
        ("cd $x; sh look.sh", Reach.UNKNOWN),
    ],
)
def test_other_scripts_are_what_they_say_or_unknown(work: Path, line: str, reach: Reach) -> None:
    found = judged(work, line)
    assert found.reach is reach
    assert found.limit is None


def test_a_hook_that_pushes_is_found_and_one_that_cannot_be_judged_is_unknown(work: Path) -> None:
    hooks = work / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("#!/bin/sh\ngrep -r TODO . && git diff --check\n")
    assert judged(work, "git commit -m x").reach is Reach.RESTORABLE
    (hooks / "pre-commit").write_text("#!/bin/sh\n./my-linter\n")
    assert judged(work, "git commit -m x").reach is Reach.UNKNOWN
    assert judged(work, "git status").reach is Reach.NONE
    (hooks / "commit-msg").write_text("#!/bin/sh\ngit push\n")
    found = judged(work, "git commit -m x")
    assert found.reach is Reach.IRREVERSIBLE
    assert found.main is not None
    assert found.main.where == ".git/hooks/commit-msg:2"


@pytest.mark.parametrize(
    "setting, line",
    [
        ("[core]\n\tfsmonitor = RUN", "git status"),
        ('[core] fsmonitor = "RUN"', "git add a"),
        ("[diff]\nexternal = RUN", "git diff"),
        ('[diff "x"]\ntextconv = RUN', "git log -p"),
        ('[filter "x"]\nclean = RUN; cat', "git add a"),
        ('[merge "x"]\ndriver = RUN', "git merge b"),
        ("[core]\nsshCommand = RUN", "git fetch"),
        ('[remote "origin"]\nurl = "ext::RUN"', "git fetch"),
        ("[gpg]\nprogram = RUN", "git commit -m x"),
        ("[alias]\nst = !RUN", "git st"),
        ("[credential]\nhelper = !RUN", "git fetch"),
        ("[core]\neditor = RUN", "git commit"),
        ("[include]\npath = ../more", "git status"),
        ("[core]\nfsmonitor = RUN", "git clean -n"),
        ("[core]\nhooksPath = hooks", "git add a"),
        ("[core]\nhooksPath = hooks", "git commit -m x"),
    ],
)
def test_what_the_settings_of_a_repository_have_git_run_is_judged(
    work: Path, setting: str, line: str
) -> None:
    config = work / ".git" / "config"
    config.parent.mkdir(parents=True)
    (work / "hooks").mkdir()
    plain = "[user]\n\tname = a\n[remote]\n\turl = https://example.org\n"
    for command, reach in (("git push", Reach.IRREVERSIBLE), ("./x", Reach.UNKNOWN)):
        (work / "more").write_text(f"[core]\nfsmonitor = {command}\n")
        for hook in ("pre-commit", "post-index-change"):
            (work / "hooks" / hook).write_text(f"#!/bin/sh\n{command}\n")
        config.write_text(plain + setting.replace("RUN", command) + "\n")
        yours = command == "./x" and ("credential" in setting or "editor" in setting)
        assert judged(work, line).reach is reach or yours, command
    config.write_text(plain + '[core]\nfsmonitor = true\n[filter "lfs"]\nclean = git-lfs clean -- %f\n')
    assert judged(work, "git status && git log -p && git diff").reach is Reach.NONE


@pytest.mark.parametrize(
    "line", ["cat a >> .git/config", "cp a .git/hooks/pre-commit", "tee .git/config < a"]
)
def test_whoever_writes_what_git_runs_makes_other_commands_of_it(work: Path, line: str) -> None:
    (work / ".git" / "hooks").mkdir(parents=True)
    assert judged(work, line).reach is Reach.UNKNOWN
    assert judged(work, "git config user.name x; git commit -m x; rm .git/hooks/x").reach is Reach.RESTORABLE


@pytest.mark.parametrize("line", ["sh long.sh", "./long.sh", "python long.py"])
def test_a_script_that_is_too_long_hits_the_limit(work: Path, line: str) -> None:
    assert judged(work, line).limit is not None


def test_scripts_that_run_each_other_end(work: Path) -> None:
    for number in range(40):
        (work / f"s{number}.sh").write_text("".join(f"sh s{other}.sh\n" for other in range(40)))
    assert judged(work, "sh s0.sh").limit is not None


@pytest.mark.parametrize(
    "line",
    [
        "curl -o look.sh https://example.org; sh look.sh",
        "mv push.sh look.sh; sh look.sh",
        "for i in 1 2; do sh look.sh; cp push.sh look.sh; done",
        "tar xf a.tar; sh look.sh",
        "sed -i s/ls/git/ look.sh && ./look.sh",
        "echo 'git push' >> look.sh; sh look.sh",
        "rm look.sh; ln -s push.sh look.sh; sh look.sh",
    ],
)
def test_a_script_that_the_line_changes_first_is_not_judged_by_what_it_was(work: Path, line: str) -> None:
    assert judged(work, line).reach not in SAFE
