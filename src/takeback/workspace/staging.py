"""The views of a workspace: made, worked in, looked at, accepted and dropped."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from takeback._version import __version__
from takeback.core import events as e
from takeback.core import ids
from takeback.core.change import Change, Target
from takeback.core.codec import path_of, text_of
from takeback.core.policy import Decision
from takeback.core.rollback import OnConflict
from takeback.engine.describe.diff import Diff
from takeback.engine.rollback.paths import at_paths
from takeback.engine.runs.checks import choice_of
from takeback.engine.stage import copying, entering, repository
from takeback.engine.stage.card import COPY, FORMAT, OVERLAY, StageCard
from takeback.engine.stage.deleting import delete
from takeback.engine.stage.entering import KernelRefused
from takeback.engine.stage.folder import LEADING, StageFolder, StageFolders
from takeback.errors import ConflictError, CorruptionError, TakebackError, UsageError
from takeback.settings import environment
from takeback.storage.content.packs import PackStore
from takeback.storage.state import acceptance
from takeback.storage.state.registry import Registry, state_name
from takeback.system import crash_points, namespaces, overlay
from takeback.system.clock import SystemClock
from takeback.system.private_files import private_folder
from takeback.workspace.store.content import PACKS
from takeback.workspace.store.journal import journal_of

if TYPE_CHECKING:
    from takeback.core.events import Process
    from takeback.core.listing import ListPlace
    from takeback.engine.rollback.report import RollbackReport
    from takeback.engine.tracking.command import CommandPlan
    from takeback.workspace.workspace import Workspace

R = TypeVar("R")

PREPARED = crash_points.crash_point("stage-prepared")
BROUGHT = crash_points.crash_point("stage-brought")

_CACHES = ("files.index", "git.index", "sqlite.index")
_NOTES = ("generation", "databases")
"""What the view knows from the beginning, because it begins as a picture of the present."""

DAY_US = 86_400_000_000
NOTICE_US = DAY_US
"""How long after a notice an unused view is dropped."""


class StageLook(msgspec.Struct, frozen=True):
    """What is different in a view."""

    changes: tuple[Change, ...]
    said: tuple[str, ...]
    """Each change as a person would describe it, where the name of its target does not say enough."""
    minor: tuple[bool, ...]
    """Whether each change hardly matters to people: it follows from another one, or is only a time."""


class StageRun(msgspec.Struct, frozen=True):
    """How a command in a view ended."""

    id: str
    code: int
    why: str = ""
    started: bool = True
    unrecorded: str = ""
    living: tuple[int, ...] = ()
    called: str = ""
    """The command as the log shows it, without secrets."""
    look: StageLook | None = None
    """What is different in the view when the command has ended; None if that could not be found out."""


class StageText(msgspec.Struct, frozen=True):
    """What is different in a view, line by line."""

    text: str
    data: list[dict[str, Any]]


class StageKind(msgspec.Struct, frozen=True):
    """Which kind of views a machine can have."""

    kind: str
    way: str
    why: str
    overlaid: tuple[str, ...]
    folder: Path


class StageComparison(msgspec.Struct, frozen=True):
    """Two views of one workspace, by the targets that they changed."""

    same: tuple[Target, ...]
    differ: tuple[Target, ...]
    only_first: tuple[Target, ...]
    only_second: tuple[Target, ...]


class Stages:
    """The views of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._folders = StageFolders(workspace.state)

    def __iter__(self) -> Iterator[Stage]:
        return (Stage(self._workspace, folder) for folder in self._folders)

    def __getitem__(self, name: str) -> Stage:
        return Stage(self._workspace, self._folders.find(name))

    def names(self) -> list[str]:
        return self._folders.names()

    def new(
        self,
        name: str = "",
        *,
        at: str = "",
        way: Sequence[Change] = (),
        network: str = "full",
        reachable: bool = False,
    ) -> Stage:
        """Make a view of the workspace as it is now. Without a name, one is made up.

        `way` leads from the present to the moment `at` that the view is to show: for each target, from its present
        version to the one at that moment. With `reachable` it is a copy, which this process can work in, too.
        """
        if network not in namespaces.NETWORKS:
            raise UsageError(
                f"{network!r} is not a choice for the network of a view; nothing was made",
                hint=f"choose {', '.join(namespaces.NETWORKS[:-1])} or {namespaces.NETWORKS[-1]}",
            )
        workspace, parts = self._workspace, self._workspace.parts
        if not isinstance(parts.store, PackStore):
            raise UsageError(
                "a workspace in memory has no views; nothing was made", hint='open it without store="memory"'
            )
        with workspace.lock.held():
            workspace.recover()
            workspace.notices += self._folders.tidy()
            chosen = self._folders.chosen(name)
            marks = tuple(m for m in parts.tracker.observe() if m.resource != parts.outside.name)
            prepared = self._folders.begin(chosen)
            try:
                making = Making(workspace, prepared, chosen, marks, network)
                making.run(at, way, reachable=reachable)
                crash_points.reach(PREPARED)
                made = Stage(workspace, self._folders.publish(prepared, chosen))
                making.finish(made, way)
                return made
            except BaseException:
                if prepared.path.exists():
                    delete(prepared.path)
                raise

    def way_to(self, at: str) -> tuple[Change, ...]:
        """Return what leads from the present to a moment."""
        past = self._workspace.past
        return past.changes_to(past.moment(at))

    def examine(self) -> StageKind:
        """Return which kind of views this machine can have, by making one and dropping it."""
        stage = self.new(f"examined-{os.getpid()}")
        card = stage.card
        stage.drop()
        overlaid = tuple(os.fsdecode(path_of(place)) for place in card.layers)
        if card.kind == COPY:
            shares = copying.can_share(private_folder(self._folders.path))
            way = "a copy that shares its blocks with the original" if shares else "a copy of every file"
            return StageKind(COPY, way, card.why_copy, (), self._folders.path)
        way = (
            "as root: renamed folders and hard links stay what they are"
            if card.as_root
            else "as an ordinary user: renaming a folder copies it, and hard links are separated by a write"
        )
        return StageKind(OVERLAY, way, "", overlaid, self._folders.path)

    def bytes_used(self) -> int:
        """Return how much space all views took when they were last used."""
        total = 0
        for folder in self._folders:
            with suppress(CorruptionError):
                total += folder.card.bytes
        return total

    def keep_house(self) -> int:
        """Drop the views that have expired, and return how much space the others take."""
        workspace = self._workspace
        workspace.notices += self.expire(workspace.settings.stage.keep_days, SystemClock().now_us())
        return self.bytes_used()

    def expire(self, keep_days: int, now_us: int) -> list[str]:
        """Drop the views that nobody has used for so many days, a day after a notice. Return what to say."""
        said: list[str] = []
        for stage in self if keep_days else ():
            try:
                said += self._expired(stage, keep_days, now_us)
            except TakebackError as error:  # the others expire all the same
                said.append("; ".join(filter(None, (error.message, error.hint))))
        return said

    def _expired(self, stage: Stage, keep_days: int, now_us: int) -> Iterator[str]:
        card = stage.card
        if now_us - card.last_us < keep_days * DAY_US or stage.living():
            return
        if not card.noticed_us:
            stage.folder.write(msgspec.structs.replace(card, noticed_us=now_us))
            yield (
                f"nobody has used the view {stage.name} for {keep_days} days, so it will be dropped tomorrow; "
                f"to keep what is in it: takeback stage accept {stage.name}"
            )
        elif now_us - card.noticed_us >= NOTICE_US:
            stage.drop()
            yield f"dropped the view {stage.name}, which nobody had used for {keep_days} days"

    def compare(self, first: str, second: str) -> StageComparison:
        """Return in which targets two views differ from each other, of those that one of them changed."""
        ones, others = (
            {change.target: change for change in self[name].look().changes} for name in (first, second)
        )
        both = sorted(ones.keys() & others.keys())
        same = tuple(target for target in both if ones[target].after == others[target].after)
        return StageComparison(
            same,
            tuple(target for target in both if target not in same),
            tuple(sorted(ones.keys() - others.keys())),
            tuple(sorted(others.keys() - ones.keys())),
        )


class Making:
    """The making of one view."""

    def __init__(
        self,
        workspace: Workspace,
        folder: StageFolder,
        name: str,
        marks: tuple[e.Mark, ...],
        network: str,
    ) -> None:
        self._workspace = workspace
        self._folder = folder
        self._name = name
        self._marks = marks
        self._network = network
        self._home = workspace.state.parent.parent

    def run(self, at: str, way: Sequence[Change], *, reachable: bool = False) -> None:
        why = "TAKEBACK_NAMESPACES is off" if environment.namespaces() == "off" else ""
        why = why or ("a process outside of it works in it" if reachable else "")
        if not why:
            try:
                self._overlay(at)
            except KernelRefused as error:
                why = error.message.partition(": ")[2]
        if why:
            self._copy(at, why)
            (self._folder.path / LEADING).touch(mode=0o600)
        elif way:
            self._lead(way)

    def finish(self, made: Stage, way: Sequence[Change]) -> None:
        """Look at a copy for the first time, in its own place, and bring it to another moment."""
        if made.card.kind != COPY:
            return
        try:
            base = made.inside(_begun, tuple[e.Mark, ...])
            if way:
                base = made.inside(partial(_led, tuple(way)), tuple[e.Mark, ...])
            made.folder.write(msgspec.structs.replace(made.card, base=base))
            (made.folder.path / LEADING).unlink()
        except BaseException:
            made.folder.remove()
            raise

    def _overlay(self, at: str) -> None:
        """Prepare an overlay, and try it. Raise KernelRefused if the kernel does not allow it."""
        workspace, state = self._workspace, self._workspace.state
        inner = self._state(state.name)
        for resource in workspace.parts.observed:
            resource.remember()
        for name in _CACHES:
            if (state / name).exists():
                os.link(state / name, inner / name)  # a cache is only ever replaced as a whole
        for name in _NOTES:
            if (state / name).exists():
                shutil.copyfile(state / name, inner / name)
        kept = state / "git"
        if kept.exists():
            (inner / "git").mkdir(mode=0o700)
        card = self._card(
            OVERLAY,
            at,
            seen_at=workspace.root,
            home=self._home,
            layers=tuple(_text(place) for place in self._places()),
            kept=_text(kept) if kept.exists() else "",
            as_root=os.geteuid() == 0 and environment.namespaces() != "user",
        )
        for number in range(len(card.layers) + bool(card.kept)):
            for path in self._folder.layer(number):
                path.mkdir(mode=0o700, parents=True)
        upper = self._folder.layer(0)[0]
        shutil.copystat(workspace.root, upper)
        self._folder.write(card)
        entering.inside(self._folder, partial(self._begin, card), bool)

    def _begin(self, card: StageCard) -> bool:
        """Begin the journal of the view, inside it."""
        seen, state = _inner(card)
        Registry(state.parent.parent).create(seen)
        journal = journal_of(state)
        began = e.WorkspaceBegan(text_of(os.fsencode(seen)), __version__)
        base = e.CheckpointTaken(f"the beginning of the view {self._name}", environment.actor(), card.base)
        journal.append([began, base], stream=ids.WORKSPACE, key="workspace-began")
        journal.close()
        return True

    def _places(self) -> list[Path]:
        """Return the folders to overlay, each once: the workspace, its repository, the home, the temporary ones."""
        root = self._workspace.root
        found = [root]
        others = {environment.home_folder(), *environment.temporary_folders()}
        if shared := repository.elsewhere(root):
            others.add(shared)
        for path in sorted(others):
            if path == Path("/") or not path.is_dir() or not os.access(path, os.R_OK | os.X_OK):
                continue
            if not any(path.is_relative_to(other) for other in found):
                found.append(path)
        return found

    def _copy(self, at: str, why: str) -> None:
        """Make the view as a copy."""
        delete(self._folder.home)
        private_folder(self._folder.home)
        root, final = self._workspace.root, self._folder.path.parent / self._name
        private_folder(self._folder.path / "tree")
        private_folder(self._folder.path / "tmp")
        repository.refuse_copy(root, root)
        copied, seen = (path / "tree" / root.name for path in (self._folder.path, final))
        links = copying.copy_tree(
            root, copied, lambda path: path == self._home, self._workspace.parts.progress
        )
        repository.lead_into_copy(root, copied, seen, links)
        inner = self._state(state_name(seen))
        kept = self._workspace.state / "git"
        if kept.exists():
            shutil.copytree(
                kept, inner / "git", copy_function=_linked, ignore=shutil.ignore_patterns("folders")
            )
        card = self._card(COPY, at, seen_at=seen, home=final / "home", why_copy=why)
        self._folder.write(card)

    def _state(self, name: str) -> Path:
        """Return the state folder of the workspace inside the view, with all content of the one outside."""
        inner = self._folder.home / "workspaces" / name
        private_folder(inner.parent)
        private_folder(inner)
        store = self._workspace.parts.store
        assert isinstance(store, PackStore)
        store.lend(inner / PACKS)
        accepted = self._workspace.state / acceptance.FILE
        if accepted.exists():
            shutil.copyfile(accepted, inner / accepted.name)
        return inner

    def _card(self, kind: str, at: str, *, seen_at: Path, home: Path, **more: Any) -> StageCard:
        return StageCard(
            FORMAT,
            self._name,
            kind,
            _text(self._workspace.root),
            _text(seen_at),
            _text(home),
            time.time_ns() // 1000,
            self._marks,
            at=at,
            network=self._network,
            **more,
        )

    def _lead(self, way: Sequence[Change]) -> None:
        """Bring the view to another moment: what differs from the present is all that is written."""
        stage = Stage(self._workspace, self._folder)
        base = stage.inside(partial(_led, tuple(way)), tuple[e.Mark, ...])
        self._folder.write(msgspec.structs.replace(self._folder.card, base=base))


def _begun(inner: Workspace) -> tuple[e.Mark, ...]:
    marks = inner.parts.tracker.marks()
    return tuple(mark for mark in marks if mark.resource != inner.parts.outside.name)


def _led(way: Sequence[Change], inner: Workspace) -> tuple[e.Mark, ...]:
    inner.parts.rollbacks.accept(way, "the past", on_conflict=OnConflict.OVERWRITE).require_complete()
    with inner.lock.held():
        marks = inner.parts.tracker.observe()
        inner.parts.tracker.save("the moment that the view shows", environment.actor())
    return tuple(mark for mark in marks if mark.resource != inner.parts.outside.name)


class Stage:
    """One view of a workspace."""

    def __init__(self, workspace: Workspace, folder: StageFolder) -> None:
        self._workspace = workspace
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def card(self) -> StageCard:
        return self.folder.card

    @property
    def root(self) -> Path:
        """Where the files of the view are: for a copy seen from anywhere, otherwise only inside."""
        return _inner(self.card)[0]

    def __repr__(self) -> str:
        return f"<Stage {self.name} of {self._workspace.root}>"

    def inside(
        self, do: Callable[[Workspace], R], kind: type[R], *, network: str = "", waits: bool = False
    ) -> R:
        """Return what `do` returns for the workspace as this view has it, in a process inside the view."""
        with self.folder.used():
            return self._inside(do, kind, network=network, waits=waits)

    def _inside(
        self, do: Callable[[Workspace], R], kind: type[R], *, network: str = "", waits: bool = False
    ) -> R:
        return entering.inside(
            self.folder, partial(_with_opened, self.card, do), kind, network=network, waits=waits
        )

    def run(
        self,
        command: str | Sequence[str],
        *,
        name: str = "",
        autopilot: bool = False,
        network: str = "",
        ask: Callable[[CommandPlan, Decision], bool | None] = lambda _plan, _ruling: None,
        before: Callable[[CommandPlan, str], None] = lambda _plan, _locked: None,
        after: Callable[[], None] = lambda: None,
        spares: Callable[[Process], bool] = lambda _: False,
        to_stderr: bool = False,
    ) -> StageRun:
        """Run a command in the view as one action of the view's own history, as `takeback run` does outside.

        With `to_stderr` it writes to standard error what it would write to standard output.
        `ask` asks a human about a command that a rule holds back; `before` and `after` are called around it. All
        three are called inside the view.
        """

        base = self.card.base

        def do(inner: Workspace) -> StageRun:
            if to_stderr:
                os.dup2(2, 1)
            inner.recover()
            plan = inner.commands.plan(command, name=name, autopilot=autopilot)
            before(plan, inner.commands.allow(plan, partial(ask, plan)))
            result = inner.commands.run(plan, spares=spares)
            after()
            unrecorded = str(result.unrecorded) if result.unrecorded else ""
            child = result.child
            look = None if unrecorded else _looked(base, inner)
            ended = child.code, child.why, child.started, unrecorded, result.living
            return StageRun(result.id, *ended, plan.name, look)

        with self.folder.used():
            done = self._inside(do, StageRun, network=network or self.card.network, waits=True)
            self._note(done)
        return done

    def _note(self, done: StageRun) -> None:
        """Keep in the card of the view how its last command ended."""
        card = msgspec.structs.replace(
            self.card,
            command=done.called,
            exit_code=done.code,
            used_us=time.time_ns() // 1000,
            bytes=self.folder.bytes_used(),
            noticed_us=0,
        )
        self.folder.write(card)

    @contextmanager
    def opened(self) -> Iterator[Workspace]:
        """Open the workspace of a copy in this process."""
        with self.folder.used(), _opened(self.card) as inner:
            yield inner

    def look_with(self, inner: Workspace) -> StageLook:
        """Return what is different in the view, as its opened workspace sees it."""
        return _looked(self.card.base, inner)

    def look(self) -> StageLook:
        """Return what is different in the view from where it began."""
        return self.inside(partial(_looked, self.card.base), StageLook)

    def places(self, changes: Iterable[Change]) -> Mapping[Target, ListPlace]:
        """Return how much each change matters, for lists."""
        return self._workspace.places(changes)

    def changes(self) -> tuple[Change, ...]:
        """Return the same as changes."""
        return self.look().changes

    def diff(self) -> StageText:
        """Return the same line by line."""
        return self.inside(partial(_told, self.card.base), StageText)

    def outside(self) -> list[str]:
        """Return what was written or deleted in the view beyond the workspace: in the home, in temporary folders."""
        found: list[str] = []
        shared = repository.elsewhere(self._workspace.root)
        for number, place in enumerate(self.card.layers):
            above = path_of(place)
            for touched in overlay.walk(os.fsencode(self.folder.layer(number)[0])) if number else ():
                here = os.path.join(above, touched.path) if touched.path else above
                below = os.path.join(os.fsencode(self.folder.layer(number)[0]), touched.path)
                found += [
                    os.fsdecode(os.path.join(here, one))
                    for one in touched.there
                    if not os.path.isdir(os.path.join(below, one))
                ]
                found += [f"{os.fsdecode(os.path.join(here, one))} (deleted)" for one in touched.gone]
        # What is in a repository elsewhere is a change of git, which an acceptance makes.
        return sorted(one for one in found if not (shared and Path(one).is_relative_to(shared)))

    def moved(self) -> list[Change]:
        """Return what was changed in the workspace itself since the view was made."""
        parts = self._workspace.parts
        with parts.lock.held():
            now = {mark.resource: mark for mark in parts.tracker.observe()}
            return [
                change
                for mark in self.card.base
                if mark.resource in now and parts.tracker.observed[mark.resource].keeps(mark)
                for change in parts.tracker.observed[mark.resource].changes(mark, now[mark.resource])
                if change.before != change.after
            ]

    def living(self) -> list[int]:
        """Return the processes that are at work in the view."""
        return entering.living(self.folder)

    def accept(
        self,
        *,
        paths: Sequence[str] = (),
        on_conflict: str = "stop",
        preview: bool = False,
        keep: bool = False,
    ) -> RollbackReport:
        """Make the changes of the view in the workspace, as one action, and drop the view if nothing of it is left.

        What was changed in the workspace since the view was made is a conflict. With `keep` the view stays.
        """
        with self._alone("accepted"):
            report = self._accept(paths, on_conflict, preview=preview)
            stays = [i for i in report.items if i.did in ("kept", "conflict", "failed", "unverifiable")]
            if not preview and not keep and not paths and not stays and not report.finished_earlier:
                self.folder.remove()
        return report

    def _accept(self, paths: Sequence[str], on_conflict: str, *, preview: bool) -> RollbackReport:
        workspace, parts = self._workspace, self._workspace.parts
        look = self._inside(partial(_looked, self.card.base), StageLook)
        changes = self._acceptable(look.changes)
        wanted = at_paths(workspace.root, paths) if paths else None
        with workspace.lock.held():
            workspace.recover()
            store = parts.store
            assert isinstance(store, PackStore)
            store.borrow(self._inner_state() / PACKS)
            if not preview:
                repository.bring_objects(self.folder, self.card)
            crash_points.reach(BROUGHT)
        more = {"wanted": wanted} if wanted else {}
        return parts.rollbacks.accept(
            changes, self.name, preview=preview, on_conflict=choice_of(on_conflict), **more
        )

    def _acceptable(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes that can be made outside. Objects are only ever added to a repository."""
        return [c for c in changes if not (c.target.resource == "git" and c.target.name.endswith("objects"))]

    def _inner_state(self) -> Path:
        seen, _ = _inner(self.card)
        return self.folder.home / "workspaces" / state_name(seen)

    def drop(self) -> None:
        """Remove the view with all that was changed in it. The workspace stays as it is."""
        with self._alone("dropped"):
            self.folder.remove()

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Use the view alone. Raise RunBusy if processes are at work in it, or others use it."""
        entering.refuse_living(self.folder, what)
        with self.folder.used(alone=True):
            entering.refuse_living(self.folder, what)
            yield


def _with_opened(card: StageCard, do: Callable[[Workspace], R]) -> R:
    """Return what `do` returns for the workspace of the view that this process is in."""
    with _opened(card) as inner:
        return do(inner)


@contextmanager
def _opened(card: StageCard) -> Iterator[Workspace]:
    """Open the workspace of a view, from inside of it or, if it is a copy, from anywhere."""
    from takeback.workspace.opening import open_workspace
    from takeback.workspace.workspace import Workspace

    seen, state = _inner(card)
    if card.kind == COPY and not (state / "workspace.json").exists():
        # The first look at a copy: nothing is known of it yet.
        with open_workspace(seen, watching=False, home=state.parent.parent) as begun:
            begun.save("the beginning of the view")
    with Workspace(seen, state, journal_of(state)) as inner:
        yield inner


def _inner(card: StageCard) -> tuple[Path, Path]:
    """Return the workspace and its state folder, as a process inside the view has them."""
    seen, home = (Path(os.fsdecode(path_of(path))) for path in (card.seen_at, card.home))
    return seen, home / "workspaces" / state_name(seen)


def _changed(base: Sequence[e.Mark], inner: Workspace) -> list[Change]:
    """Return what differs now from the beginning of the view."""
    tracker = inner.parts.tracker
    with inner.lock.held():
        inner.recover()
        now = {mark.resource: mark for mark in tracker.observe()}
        for mark in base:
            if not tracker.observed[mark.resource].keeps(mark):
                raise ConflictError(
                    f"the {mark.resource} with which the view began were pruned in it, so it cannot be compared",
                    hint="copy what you need with `takeback stage shell`, then drop the view",
                )
        return [
            change
            for mark in base
            if mark.resource in now
            for change in tracker.observed[mark.resource].changes(mark, now[mark.resource])
        ]


def _looked(base: Sequence[e.Mark], inner: Workspace) -> StageLook:
    found = _changed(base, inner)
    minor = (c.before == c.after or inner.parts.tracker.follows(c.target) for c in found)
    return StageLook(tuple(found), tuple(map(inner.tell, found)), tuple(minor))


def _told(base: Sequence[e.Mark], inner: Workspace) -> StageText:
    from takeback.workspace.comparison import Comparison

    diff = Diff(tuple(_changed(base, inner)), Comparison(inner.parts).text, inner.tell)
    return StageText(str(diff), diff.data())


def _text(path: Path) -> str:
    return text_of(os.fsencode(path))


def _linked(source: str, target: str) -> None:
    """Link a saved object into a view; one that the repository has under another name is copied.

    Another link would change the time of that file in the workspace itself.
    """
    if os.lstat(source).st_nlink == 1:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
