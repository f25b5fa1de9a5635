"""The sharing methods of a content store that is not shared: they do nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from takeback.ports.content import Shelf, Swept
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.storage.content.names import lost


class UnsharedStore(ABC):
    """A store on one machine, which shares with no other. A store that shares overrides all of this."""

    @abstractmethod
    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        """Return the names that are not stored on this machine."""

    @cached_property
    def shelf(self) -> Shelf | None:
        """Storage that other machines can read, for data that is not content; None if there is none."""
        return None

    def share(self, progress: Progress = silent) -> Collection[int]:
        """Send everything that is durable here to where other machines find it.

        Return the fences under which records may name it: a clean-up elsewhere ends them before it removes
        anything.
        """
        return ()

    def fetch(self, digests: Iterable[bytes], progress: Progress = silent) -> None:
        """Make sure that all of these are on this machine, verified.

        Raise ContentGone if one is lost. Under the lock.
        """
        if missing := self.missing(digests):
            raise lost(next(iter(missing)))

    def shared_bytes(self) -> int:
        """Return the size of the shared content, as far as this machine knows, without asking the bucket."""
        return 0

    def unshared(self, digests: Iterable[bytes]) -> set[bytes]:
        """Return the digests that other machines could not find."""
        return set(digests)

    def renew(self) -> None:  # noqa: B027  a store that is not shared has nothing to renew
        """Look at everything again under a new lease, after one that `share` returned was lost."""

    def check_shared(
        self,
        live: Collection[bytes],
        *,
        deep: bool = False,
        progress: Progress = silent,
    ) -> Iterator[Finding]:
        """Yield the live content that other machines would not find; `deep` reads and verifies it."""
        return iter(())

    def sweep_shared(
        self,
        live: set[bytes],
        again: Callable[[], set[bytes]],
        *,
        thorough: bool = False,
        progress: Progress = silent,
    ) -> Swept:
        """Remove shared content that is not live. `again` returns what is live at the moment it is called.

        Unless `thorough`, dead content that is stored among much live content stays.
        """
        return Swept()
