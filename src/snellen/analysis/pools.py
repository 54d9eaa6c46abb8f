"""Benchmarks of a suite whose questions are also counted together: one number over all of them, by question.

Questions of several of them about one picture stay one group, so that the interval knows what they share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from snellen.catalogue import suite_facts
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun


def pooled_benchmarks(run: ScoredRun) -> Iterator[ScoredBenchmark]:
    """The pools of which the run has every benchmark, each as a benchmark of its own, named SUITE/POOL."""
    scored = {one.spec.name: one for one in run.benchmarks}
    for suite in suite_facts().values():
        for pool, shorts in suite.pools.items():
            members = [scored[name] for short in shorts if (name := f"{suite.name}/{short}") in scored]
            if len(members) == len(shorts):
                yield _pooled(f"{suite.name}/{pool}", members)


def _pooled(name: str, members: Sequence[ScoredBenchmark]) -> ScoredBenchmark:
    """All questions of the members under ids that name their benchmark, as far as every member was asked so."""
    common = set.intersection(*({score.protocol for score in member.scores} for member in members))
    first = members[0]

    def own(member: ScoredBenchmark, sample: str) -> str:
        return f"{member.spec.name}/{sample}"

    return ScoredBenchmark(
        spec=replace(first.spec, name=name),
        samples={own(m, key): replace(one, id=own(m, key)) for m in members for key, one in m.samples.items()},
        predictions=tuple(
            replace(one, sample_id=own(m, one.sample_id))
            for m in members
            for one in m.predictions
            if one.protocol in common
        ),
        scores=tuple(
            replace(one, sample_id=own(m, one.sample_id)) for m in members for one in m.scores if one.protocol in common
        ),
        answers={(own(m, key), turn): one for m in members for (key, turn), one in m.answers.items()},
        tallies=tuple(
            replace(one, sample_id=own(m, one.sample_id))
            for m in members
            for one in m.tallies
            if one.protocol in common
        ),
        published=first.published,
    )
