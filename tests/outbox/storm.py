"""What can go wrong while workers deliver: they are killed, the receiver dies, and whatever is given besides."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.outbox import workers
from tests.outbox.sink import Sink

WORKERS = 4

Trouble = Callable[[random.Random], str]
"""Makes trouble, once; gives its name."""


class Storm:
    """Four workers, and what is done to them and around them."""

    def __init__(self, root: Path, sink: Sink, troubles: Sequence[Trouble]) -> None:
        self.seen: Counter[str] = Counter()
        """How often each thing happened."""
        self._root = root
        self._sink = sink
        self._troubles = [*troubles, self._kill_a_worker, self._kill_the_sink, self._kill_a_worker]
        self.next: list[Trouble] = []
        """What happens before anything else does."""
        self._chance = random.Random(5)
        self.crew = [self._worker() for _ in range(WORKERS)]

    def _worker(self) -> workers.Worker:
        return workers.start(self._root, "--concurrency", "4")

    def _kill_a_worker(self, chance: random.Random) -> str:
        one = chance.randrange(WORKERS)
        workers.kill(self.crew[one])
        self.crew[one] = self._worker()
        return "worker killed"

    def _kill_the_sink(self, chance: random.Random) -> str:
        self._sink.kill()
        time.sleep(chance.uniform(0, 0.3))
        self._sink.start()
        return "receiver killed"

    def blow(self, over: threading.Event, every_s: tuple[float, float]) -> None:
        """Each trouble in turn, so that none is left out, and at random moments."""
        while not over.wait(self._chance.uniform(*every_s)):
            trouble = (
                self.next.pop() if self.next else self._troubles[self.seen.total() % len(self._troubles)]
            )
            self.seen[trouble(self._chance)] += 1


@contextmanager
def blowing(
    root: Path, sink: Sink, every_s: tuple[float, float], troubles: Sequence[Trouble] = ()
) -> Iterator[Storm]:
    """It goes on until the block ends. No worker ends by itself."""
    storm, over = Storm(root, sink, troubles), threading.Event()
    thread = threading.Thread(target=storm.blow, args=(over, every_s))
    thread.start()
    try:
        yield storm
    finally:
        over.set()
        thread.join()
        ended = [worker.poll() for worker in storm.crew]
        said = [workers.kill(worker) for worker in storm.crew]
    assert ended == [None] * WORKERS, f"a worker ended by itself: {said}"
