"""Samples that make the very same request although their answers differ: one reply would serve all of them.

The build has said which questions nothing tells apart (`Benchmark.indistinguishable`), without their answers; here the
requests of those samples are made, and compared by what the model would see.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from msgspec.structs import replace

from snellen.errors import DataError
from snellen.models.base import AsyncModel, Model, answers_by_sample
from snellen.paths import as_word
from snellen.records import IndistinguishableQuestion
from snellen.runs.plan import RunPlan, SelectedBenchmark, work_items

SHOWN = 3
"""Samples that are named as examples."""
Asking = dict[tuple[str, int, str], dict[str, int]]
"""(protocol, group, key of a request) -> the samples that make it, each with the kind of its answer in the group."""


def check_same_requests(model: Model | AsyncModel, plan: RunPlan) -> tuple[str, ...]:
    """What a reader of the run's numbers has to know of requests that samples with different answers share.

    Raises DataError where there are any, unless the plan allows them, the benchmark's entry declares them, or the model
    answers by sample.
    """
    if answers_by_sample(model):
        return ()
    sharing = {use.benchmark.name: samples for use in plan.benchmarks if (samples := _sharing(use, plan))}
    refused = {
        use.benchmark.name: sharing[use.benchmark.name]
        for use in plan.benchmarks
        if use.benchmark.name in sharing and not (plan.spec.allow_same_requests or use.benchmark.spec.same_requests)
    }
    if refused:
        found = "; ".join(
            f"{name}: {len(samples):,} samples, e.g. {', '.join(samples[:SHOWN])}" for name, samples in refused.items()
        )
        first = as_word(next(iter(refused)))
        raise DataError(
            f"samples with different answers make the same request, so one reply would serve all ({found}); build from "
            f"files that tell them apart (`snellen lint {first}`), or ask with --allow-same-requests "
            "(allow_same_requests=True)"
        )
    return tuple(
        f"{name}: {len(samples):,} samples share replies with others that have another answer"
        for name, samples in sharing.items()
    )


def _sharing(selected: SelectedBenchmark, plan: RunPlan) -> list[str]:
    """The samples of a benchmark that make a request which one with another answer makes too, under any protocol."""
    if not selected.benchmark.manifest.indistinguishable:
        return []
    questions: dict[str, list[IndistinguishableQuestion]] = defaultdict(list)
    for question in selected.benchmark.indistinguishable():
        questions[question.sample_id].append(question)
    asking: Asking = defaultdict(dict)
    # All workers' samples, and all rounds': those without a picture may be asked by different ones.
    everything = SelectedBenchmark(selected.benchmark, replace(selected.selection, part=None))
    everybody = replace(plan, benchmarks=(everything,), spec=replace(plan.spec, workers=1))
    for item in work_items(everybody):
        if alike := questions.get(item.sample.id):
            for key in {request.key for request in next(item.start())}:
                for question in alike:
                    asking[item.label, question.group, key][item.sample.id] = question.kind
    shared = (samples for samples in asking.values() if len(set(samples.values())) > 1)
    return list(dict.fromkeys(chain.from_iterable(shared)))
