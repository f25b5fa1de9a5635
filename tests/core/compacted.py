"""Compacting the records of a story, as a journal would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from takeback.core import compaction
from takeback.core.change import Target
from takeback.core.compaction import CompactionSurvey
from takeback.core.history import History
from takeback.core.record import Record

PLANNED_US = 99


def is_setting(target: Target) -> bool:
    return target.name == "takeback.toml"


def nothing(_target: Target) -> bool:
    return False


def surveyed(
    records: Sequence[Record],
    through: int,
    history: History | None = None,
    guarded: Callable[[Target], bool] = is_setting,
) -> CompactionSurvey:
    """What can go of the records up to `through`."""
    known = history or History.of(records)
    survey = CompactionSurvey(known, through, records[through:], guarded)
    for record in records[:through]:
        survey.look_at(record)
    survey.settle()
    return survey


def compacted(
    records: Sequence[Record],
    through: int,
    history: History | None = None,
    guarded: Callable[[Target], bool] = is_setting,
) -> list[Record]:
    """The records, those up to `through` compacted where that is possible."""
    survey = surveyed(records, through, history, guarded)
    return [
        reduced(record) if record.seq <= through and survey.compacts(record) else record for record in records
    ]


def reduced(record: Record) -> Record:
    envelope = msgspec.structs.replace(record.envelope, event=compaction.reduced(record.event))
    return Record(envelope, record.digest, PLANNED_US)
