"""Questions that only one of two runs answered correctly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from snellen.report.samples import question_entries
from snellen.report.table import Column, Table, tabulate
from snellen.scoring.scored_run import ScoredRun, run_labels

FLIPS_NOTE = (
    "A question counts as correct if every reply to it is correct (under circular, in each option order). A "
    "question with missing presentations that is correct so far is undecided and does not count."
)
DECIDED_OUTCOMES = ("right", "wrong", "unparsed")
"""The outcomes that runs can differ by."""
QuestionKey = tuple[str, str, str, int]
"""Protocol, benchmark, sample and round."""


class _FlipCounts(NamedTuple):
    """Numbers of questions under one protocol whose verdict is the same or differs between two runs."""

    runs: str
    protocol: str
    only_first: int
    only_second: int
    n_decided: int
    """Questions that are decided in both runs."""


def flip_tables(runs: Sequence[ScoredRun], pairs: Iterable[tuple[str, str]]) -> list[Table]:
    """Return a table that counts the questions which only one of two runs answered correctly, by protocol.

    Args:
        runs: The runs.
        pairs: Pairs of labels of the runs to compare.

    Returns:
        One table; none if no question is decided in both runs of a pair.
    """
    verdicts_by_label: dict[str, dict[QuestionKey, bool]] = {}
    for label, run in zip(run_labels(runs), runs, strict=True):
        verdicts_by_label[label] = _verdicts(run)
    pairs = list(dict.fromkeys(pairs))
    rows: list[_FlipCounts] = []
    for first, second in pairs:
        rows += _count_flips(first, second, verdicts_by_label)
    if not rows:
        return []

    is_one_pair = len(pairs) == 1
    first, second = pairs[0] if is_one_pair else ("the first", "the second")
    columns: list[Column[_FlipCounts]] = [
        Column("protocol", lambda row: row.protocol, is_label=True),
        Column(f"only {first} correct", lambda row: row.only_first),
        Column(f"only {second} correct", lambda row: row.only_second),
        Column("decided in both", lambda row: row.n_decided),
    ]
    if not is_one_pair:
        columns.insert(0, Column("runs", lambda row: row.runs, is_label=True))
    return [tabulate("Questions that flipped", columns, rows, [FLIPS_NOTE])]


def _verdicts(run: ScoredRun) -> dict[QuestionKey, bool]:
    """Return, for each question of a run, whether all replies to it were correct. Undecided questions are left out."""
    verdicts: dict[QuestionKey, bool] = {}
    for scored in run.benchmarks:
        for entry in question_entries(0, scored):
            if entry.outcome in DECIDED_OUTCOMES:
                key = (entry.protocol, scored.spec.name, entry.sample.id, entry.turn)
                verdicts[key] = entry.outcome == "right"
    return verdicts


def _count_flips(
    first: str, second: str, verdicts_by_label: Mapping[str, dict[QuestionKey, bool]]
) -> list[_FlipCounts]:
    """Count, for each protocol, the questions that only one of two runs answered correctly.

    Args:
        first: The label of a run.
        second: The label of the other run.
        verdicts_by_label: For each run, whether each question was answered correctly.
    """
    first_verdicts = verdicts_by_label[first]
    second_verdicts = verdicts_by_label[second]
    counts: dict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for key in sorted(first_verdicts.keys() & second_verdicts.keys()):
        protocol = key[0]
        counts[protocol][first_verdicts[key], second_verdicts[key]] += 1

    rows: list[_FlipCounts] = []
    for protocol, outcomes in counts.items():
        only_first = outcomes[True, False]
        only_second = outcomes[False, True]
        labels = f"{first}, {second}"
        rows.append(
            _FlipCounts(
                runs=labels,
                protocol=protocol,
                only_first=only_first,
                only_second=only_second,
                n_decided=outcomes.total(),
            )
        )
    return rows
