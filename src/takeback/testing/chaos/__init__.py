"""The chaos kit: an agent is run again and again, with one fault at each place in turn, and judged after each round.

Public: `Chaos`, `ChaosResult`, `Fault`, `FAULTS`, `World` and the three assertions. See docs/TESTING.md.
"""

from takeback.testing.chaos.faults import FAULTS, IN_PROCESS, Fault, KeyRefused, RateLimited
from takeback.testing.chaos.kit import Chaos
from takeback.testing.chaos.rounds import ChaosFailure, ChaosResult
from takeback.testing.chaos.witness import World, assert_clean, assert_exactly_once, assert_taken_back

__all__ = [
    "FAULTS",
    "IN_PROCESS",
    "Chaos",
    "ChaosFailure",
    "ChaosResult",
    "Fault",
    "KeyRefused",
    "RateLimited",
    "World",
    "assert_clean",
    "assert_exactly_once",
    "assert_taken_back",
]
