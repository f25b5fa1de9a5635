"""The list of faults that change nothing stays a list of faults that the code can have."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import SOURCE, listed
from tests.mutants.mutations import mutants


@pytest.mark.parametrize("file", listed())
def test_what_is_listed_as_equivalent_is_a_fault_of_its_file_and_has_a_reason(file: str) -> None:
    known = listed()[file]
    assert known.keys() <= {mutant.key for mutant in mutants(SOURCE / file)}
    assert all(known.values())
