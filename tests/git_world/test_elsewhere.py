"""An agent points the repository elsewhere: what lies there is another's, and is never written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from .picture import unsound
from .repo import dirty, project
from .scene import Scene, sample
from .test_untouched import whole

POINTING = {
    "a file names another repository": "rm -rf .git; echo 'gitdir: ../other/.git' > .git",
    "a link leads to another repository": "rm -rf .git; ln -s ../other/.git .git",
    "moved away, and a link": "mv .git ../moved; ln -s ../other/.git .git",
    "it shares what another has": "echo ../../other/.git > .git/commondir",
    "refs lie outside": "rm -rf .git/refs; ln -s ../../outside .git/refs",
    "branches lie outside": "rm -rf .git/refs/heads; ln -s ../../../outside .git/refs/heads",
    "logs lie outside": "rm -rf .git/logs; ln -s ../../outside .git/logs",
    "hooks lie outside": "rm -rf .git/hooks; ln -s ../../outside .git/hooks",
    "the index lies outside": "rm .git/index; ln -s ../../outside/index .git/index",
    "a branch lies outside": "rm -f .git/refs/heads/main; ln -s ../../../../outside/x .git/refs/heads/main",
    "objects are another's": "rm -rf .git/objects; ln -s ../../other/.git/objects .git/objects",
    "packs are another's": "rm -rf .git/objects/*; ln -s ../../../other/.git/objects/pack .git/objects/pack",
}


USUAL = (
    "a link leads to another repository",
    "a file names another repository",
    "branches lie outside",
    "objects are another's",
    "packs are another's",
)


@pytest.mark.parametrize("how", sample(list(POINTING), *USUAL))
def test_another_repository_is_never_written_to(how: str, tmp_path: Path) -> None:
    repo = project(tmp_path / "work")
    dirty(repo)
    other = project(tmp_path / "other")
    other.git("branch", "-D", "topic")
    other.commit("Of somebody else", theirs="x\n")
    (tmp_path / "outside").mkdir()
    scene = Scene.of(repo, tmp_path / "state")
    before = scene.look()
    scene.agent(POINTING[how])
    theirs = whole(other.root), whole(tmp_path / "outside")
    done = scene.world.run("undo")
    assert (whole(other.root), whole(tmp_path / "outside")) == theirs
    # Either all is as it was, or it is said that it is not.
    assert done.code in (0, 3, 6), done
    if done.code == 0:
        scene.is_at(before)
    assert unsound(other.look()) == []
