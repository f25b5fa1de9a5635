"""What a store of content does for other machines where there are none: nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from takeback.ports.content import Shelf, Swept
from takeback.ports.journal import Finding
from takeback.ports.progress import Progress, silent
from takeback.storage.content.names import lost


class UnsharedStore(ABC):
    """A store on one machine, which has nobody to share with. One that has overrides all of this."""

    @abstractmethod
    def missing(self, names: Iterable[bytes]) -> set[bytes]:
        """Return those of these names that are not kept on this machine."""

    @cached_property
    def shelf(self) -> Shelf | None:
        """Where what is no content can be put for other machines."""
        return None

    def share(self, progress: Progress = silent) -> Collection[int]:
        """Bring all that is durable here to where other machines find it; nothing to do, if it is there.

        Gives the leases under which it may be named: a clean-up elsewhere ends them before it removes anything.
        """
        return ()

    def fetch(self, digests: Iterable[bytes], progress: Progress = silent) -> None:
        """Have all of these on this machine, proved. Raises ContentGone if one is nowhere. Under the lock."""
        if missing := self.missing(digests):
            raise lost(next(iter(missing)))

    def shared_bytes(self) -> int:
        """How much room it takes where it is shared, as far as this machine knows. Nobody is asked."""
        return 0

    def unshared(self, digests: Iterable[bytes]) -> set[bytes]:
        """Those that other machines could not find."""
        return set(digests)

    def renew(self) -> None:  # noqa: B027  one that shares with nobody has nothing to renew
        """After a lease that `share` gave was lost: look at everything again under another one."""

    def check_shared(
        self,
        live: Collection[bytes],
        *,
        deep: bool = False,
        progress: Progress = silent,
    ) -> Iterator[Finding]:
        """What of the live content other machines would not find; `deep` reads and proves it."""
        return iter(())

    def sweep_shared(
        self,
        live: set[bytes],
        again: Callable[[], set[bytes]],
        *,
        thorough: bool = False,
        progress: Progress = silent,
    ) -> Swept:
        """Remove from where it is shared what is not live. `again` tells what is, when it is called.

        Leaves what is among much that is live, unless it is `thorough`.
        """
        return Swept()
