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
    """Yield the pools of which the run has every benchmark, each as a benchmark called SUITE/POOL."""
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
    """Return all questions of the members as one benchmark, with the metrics that every member has.

    Ids begin with the name of their benchmark, because two benchmarks can have the same ids.
    """
    kinds_by_member: list[set[tuple[str, str]]] = []
    for member in members:
        records = (*member.scores, *member.tallies)
        kinds_by_member.append({_kind(record) for record in records})
    common_kinds = set.intersection(*kinds_by_member)
    # A published mean weighs the parts of one benchmark, so there is none of a pool.
    pooled_kinds = {
        (protocol, metric) for protocol, metric in common_kinds if metric != PUBLISHED_MEAN
    }

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
        scores += [
            replace(score, sample_id=prefix + score.sample_id)
            for score in member.scores
            if _kind(score) in pooled_kinds
        ]
        tallies += [
            replace(tally, sample_id=prefix + tally.sample_id)
            for tally in member.tallies
            if _kind(tally) in pooled_kinds
        ]
    return ScoredBenchmark(
        spec=replace(members[0].spec, name=name),
        samples=samples,
        predictions=(),
        score_rows=by_row(scores),
        answers=answers,
        tallies=tuple(tallies),
        published=members[0].published,
    )


def _kind(record: Score | QuestionCounts) -> tuple[str, str]:
    return record.protocol, record.metric
