"""Questions that one of two runs has right and the other has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from snellen.report.samples import question_entries
from snellen.report.table import Table
from snellen.scoring.scored_run import ScoredRun, run_labels

FLIPS_NOTE = (
    "A question counts as right if every reply to it was: under circular, in each order of the options. One that is "
    "only right so far, as not all was asked, is not settled, and does not count."
)
VERDICTS = ("right", "wrong", "unparsed")
"""The outcomes that runs can differ by."""
QuestionKey = tuple[str, str, str, int]
"""Protocol, benchmark, sample and round."""


def flip_tables(runs: Sequence[ScoredRun], pairs: Iterable[tuple[str, str]]) -> list[Table]:
    """A row for each pair of runs and protocol; no table where no question has a verdict in both runs of a pair."""
    verdicts = {label: _verdicts(run) for label, run in zip(run_labels(runs), runs, strict=True)}
    pairs = list(dict.fromkeys(pairs))
    rows = [(pair, row) for pair in pairs for row in _flips(verdicts[pair[0]], verdicts[pair[1]])]
    if not rows:
        return []
    is_one_pair = len(pairs) == 1
    first, second = pairs[0] if is_one_pair else ("the first", "the second")
    header = ("protocol", f"only {first} right", f"only {second} right", "settled in both")
    if is_one_pair:
        return [
            Table(
                "Questions that flipped", header, tuple(row for _, row in rows), notes=(FLIPS_NOTE,)
            )
        ]
    named = ((", ".join(pair), *row) for pair, row in rows)
    return [
        Table(
            "Questions that flipped",
            ("runs", *header),
            tuple(named),
            label_columns=2,
            notes=(FLIPS_NOTE,),
        )
    ]


def _verdicts(run: ScoredRun) -> dict[QuestionKey, bool]:
    """Whether each question was right in all of its presentations, where that can be said."""
    return {
        (entry.protocol, scored.spec.name, entry.sample.id, entry.turn): entry.outcome == "right"
        for scored in run.benchmarks
        for entry in question_entries(0, scored)
        if entry.outcome in VERDICTS
    }


def _flips(
    verdicts: dict[QuestionKey, bool], others: dict[QuestionKey, bool]
) -> Iterator[tuple[str, int, int, int]]:
    """By protocol, how many questions only the first has right, only the second, and are right or not in both."""
    counts: dict[str, Counter[tuple[bool, bool]]] = {}
    for key in sorted(verdicts.keys() & others.keys()):
        counts.setdefault(key[0], Counter())[verdicts[key], others[key]] += 1
    for protocol, of_protocol in counts.items():
        yield protocol, of_protocol[True, False], of_protocol[False, True], of_protocol.total()
