"""Pools of benchmarks that a suite scores as one.

Questions of several benchmarks about one image stay in one group, so that intervals account for what they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from snellen.catalogue import suite_facts
from snellen.metrics.question_counts import QuestionCounts
from snellen.records import Answer, Sample, Score
from snellen.scoring.published_means import PUBLISHED_MEAN
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, by_row


def pooled_benchmarks(run: ScoredRun) -> Iterator[ScoredBenchmark]:
    """Yield the pools of a run. A pool is a set of benchmarks that their suite scores together, as if they were one.

    A pool is left out unless the run has all its benchmarks. Its name is SUITE/POOL.
    """
    scored_by_name = {scored.spec.name: scored for scored in run.benchmarks}
    for suite in suite_facts().values():
        for pool, short_names in suite.pools.items():
            members: list[ScoredBenchmark] = []
            for short_name in short_names:
                scored = scored_by_name.get(f"{suite.name}/{short_name}")
                if scored is not None:
                    members.append(scored)
            if len(members) == len(short_names):
                yield _pool(f"{suite.name}/{pool}", members)


def _pool(name: str, members: Sequence[ScoredBenchmark]) -> ScoredBenchmark:
    """Combine all questions of several benchmarks into one benchmark, with the metrics that all of them have.

    The name of the original benchmark is put before each sample identifier, because two benchmarks can use the same
    identifiers.
    """
    kinds_by_member: list[set[tuple[str, str]]] = []
    for member in members:
        records = (*member.scores, *member.tallies)
        kinds_by_member.append({_kind(record) for record in records})
    # Pairs of a protocol and a metric. A published mean weighs the parts of one benchmark, so a pool has none.
    pooled_kinds: set[tuple[str, str]] = set()
    for protocol, metric in set.intersection(*kinds_by_member):
        if metric != PUBLISHED_MEAN:
            pooled_kinds.add((protocol, metric))

    samples: dict[str, Sample] = {}
    answers: dict[tuple[str, int], Answer] = {}
    scores: list[Score] = []
    tallies: list[QuestionCounts] = []
    for member in members:
        prefix = f"{member.spec.name}/"
        for sample_id, sample in member.samples.items():
            samples[prefix + sample_id] = replace(sample, id=prefix + sample_id)
        for (sample_id, turn), answer in member.answers.items():
            answers[prefix + sample_id, turn] = answer
        for score in member.scores:
            if _kind(score) in pooled_kinds:
                scores.append(replace(score, sample_id=prefix + score.sample_id))
        for tally in member.tallies:
            if _kind(tally) in pooled_kinds:
                tallies.append(replace(tally, sample_id=prefix + tally.sample_id))
    return ScoredBenchmark(
        spec=replace(members[0].spec, name=name),
        samples=samples,
        predictions=(),
        score_rows=by_row(scores),
        answers=answers,
        tallies=tuple(tallies),
        published=members[0].published,
        requested_metrics=members[0].requested_metrics,
        n_corrected=sum(member.n_corrected for member in members),
    )


def _kind(record: Score | QuestionCounts) -> tuple[str, str]:
    return record.protocol, record.metric
