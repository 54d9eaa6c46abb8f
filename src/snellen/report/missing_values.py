"""Why metrics that were asked for have no value: what they need, and the questions lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from snellen.metrics.declaration import declared, find_metric
from snellen.records import Result
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun


def missing_values(runs: Iterable[ScoredRun], rows: Sequence[Result]) -> list[str]:
    """Return a sentence for each metric of open questions or of groups that has no value on a benchmark."""
    sentences: dict[str, None] = {}
    for run in runs:
        for scored in run.benchmarks:
            for name in dict.fromkeys((*scored.spec.metrics, *run.scoring.metrics)):
                if sentence := _why(scored, name, rows):
                    sentences[sentence] = None
    return list(sentences)


def _why(scored: ScoredBenchmark, name: str, rows: Sequence[Result]) -> str:
    """Why a metric has no value on a benchmark; empty if it has one."""
    names = find_metric(name).names
    own = [
        row
        for row in rows
        if row.metric in names and row.benchmark == scored.spec.name and not row.slice
    ]
    if any(row.estimate.value is not None for row in own):
        return ""
    heading = declared(names[0]).title
    if not own:
        kind = "options" if scored.spec.formulation == "choice" else "no options"
        return f"{heading} has no value for {scored.spec.name}, whose questions have {kind}."
    undefined = declared(names[0]).undefined if any(row.estimate.n for row in own) else ""
    detail = undefined or _commonest_detail(scored, (name, *names))
    return f"{heading} has no value for {scored.spec.name}: {detail}." if detail else ""


def _commonest_detail(scored: ScoredBenchmark, names: Sequence[str]) -> str:
    """What most questions without a value lack."""
    details: Counter[str] = Counter()
    for tally in scored.tallies:
        if tally.metric in names and tally.detail:
            details[tally.detail] += 1
    for (_, _, metric), scores in scored.score_rows.items():
        if metric in names:
            details.update(score.detail for score in scores if score.value is None and score.detail)
    return details.most_common(1)[0][0] if details else ""
