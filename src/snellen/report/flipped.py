"""Questions that one of two runs has right and the other has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from snellen.report.samples import question_entries
from snellen.report.table import Table
from snellen.scoring.scored_run import ScoredRun, run_labels

FLIPS_NOTE = "A question counts as right if every reply to it was: under circular, in each order of the options."
VERDICTS = ("right", "wrong", "unparsed")
"""The outcomes that runs can differ by."""
QuestionKey = tuple[str, str, str, int]
"""Protocol, benchmark, sample and round."""


class Flips(Struct, frozen=True):
    """How many questions of a benchmark one of two runs has right and the other has not."""

    first: str
    second: str
    benchmark: str
    """Empty for all benchmarks together."""
    protocol: str
    only_first: int = 0
    only_second: int = 0
    common: int = 0
    """Questions that are right or not in both runs."""


def flip_tables(runs: Sequence[ScoredRun], pairs: Iterable[tuple[str, str]]) -> list[Table]:
    """A row for each pair of runs and protocol; no table where no question has a verdict in both runs of a pair."""
    verdicts = {label: _verdicts(run) for label, run in zip(run_labels(runs), runs, strict=True)}
    pairs = list(dict.fromkeys(pairs))
    flips = [flip for pair in pairs for flip in _flips(*pair, verdicts[pair[0]], verdicts[pair[1]])]
    if not flips:
        return []
    is_one_pair = len(pairs) == 1
    first, second = pairs[0] if is_one_pair else ("the first", "the second")
    header = ("protocol", f"only {first} right", f"only {second} right", "asked of both")
    rows = [(flip.protocol, flip.only_first, flip.only_second, flip.common) for flip in flips]
    if is_one_pair:
        return [Table("Questions that flipped", header, tuple(rows), notes=(FLIPS_NOTE,))]
    named = ((f"{flip.first}, {flip.second}", *row) for flip, row in zip(flips, rows, strict=True))
    return [Table("Questions that flipped", ("runs", *header), tuple(named), label_columns=2, notes=(FLIPS_NOTE,))]


def _verdicts(run: ScoredRun) -> dict[QuestionKey, bool]:
    """Whether each question was right in all of its presentations, where that can be said."""
    return {
        (entry.protocol, scored.spec.name, entry.sample.id, entry.turn): entry.outcome == "right"
        for scored in run.benchmarks
        for entry in question_entries(0, scored)
        if entry.outcome in VERDICTS
    }


def _flips(
    first: str, second: str, verdicts: dict[QuestionKey, bool], others: dict[QuestionKey, bool]
) -> Iterable[Flips]:
    counts: dict[str, Counter[tuple[bool, bool]]] = {}
    for key in sorted(verdicts.keys() & others.keys()):
        counts.setdefault(key[0], Counter())[verdicts[key], others[key]] += 1
    for protocol, of_protocol in counts.items():
        only_first, only_second = of_protocol[True, False], of_protocol[False, True]
        yield Flips(first, second, "", protocol, only_first, only_second, of_protocol.total())
