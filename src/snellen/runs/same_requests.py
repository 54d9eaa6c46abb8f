"""Find samples with different answers that would send the same request.

The build has recorded which questions cannot be told apart, without their answers (`Benchmark.indistinguishable`). This
module makes the requests of those samples and compares them by what the model would see.
"""

from __future__ import annotations

from collections import defaultdict

from msgspec.structs import replace

from snellen.callers import for_caller
from snellen.common.paths import shell_word
from snellen.errors import DataError
from snellen.models.base import AsyncModel, Model, answers_by_sample
from snellen.records import IndistinguishableQuestion
from snellen.runs.finding import SelectedBenchmark
from snellen.runs.plan import RunPlan
from snellen.runs.work_items import work_items

EXAMPLES_SHOWN = 3
"""Samples of each benchmark that the error names."""


def check_same_requests(model: Model | AsyncModel, plan: RunPlan) -> tuple[str, ...]:
    """Return a note for each benchmark in which samples with different answers send the same request.

    Raises:
        DataError: There are such samples, and neither the plan nor the benchmark's entry allows them, and the model
            does not answer by sample.
    """
    if answers_by_sample(model):
        return ()
    notes = []
    refused: dict[str, list[str]] = {}
    for use in plan.benchmarks:
        samples = _sharing_samples(use, plan)
        if not samples:
            continue
        name = use.benchmark.name
        notes.append(
            f"{name}: {len(samples):,} samples share a reply with a sample that has a different answer"
        )
        if not (plan.execution.allow_same_requests or use.benchmark.spec.same_requests):
            refused[name] = samples
    if refused:
        raise DataError(_refusal(refused))
    return tuple(notes)


def _refusal(refused: dict[str, list[str]]) -> str:
    """Return the message that names samples with different answers but the same request, by benchmark."""
    examples = []
    for name, samples in refused.items():
        shown = ", ".join(samples[:EXAMPLES_SHOWN])
        examples.append(f"{name}: {len(samples):,} samples, e.g. {shown}")
    first = shell_word(next(iter(refused)))
    lint = for_caller(f"`snellen lint {first}`", f"on the command line: snellen lint {first}")
    allowing = for_caller(
        "--allow-same-requests (allow_same_requests=True)", "allow_same_requests=True"
    )
    return (
        "samples with different answers send the same request, so they would share one reply "
        f"({'; '.join(examples)}); build from files that distinguish them ({lint}), or run with {allowing}"
    )


def _sharing_samples(selected: SelectedBenchmark, plan: RunPlan) -> list[str]:
    """Find samples that send exactly the same request as a sample with another correct answer.

    No reply could be right for both. The benchmark lists which of its questions look the same to a model.

    Returns:
        Identifiers of these samples.
    """
    benchmark = selected.benchmark
    if not benchmark.manifest.indistinguishable:
        return []
    questions: dict[str, list[IndistinguishableQuestion]] = defaultdict(list)
    for question in benchmark.indistinguishable():
        questions[question.sample_id].append(question)

    # All rounds and all workers: samples without an image may be sent in different ones.
    all_samples = SelectedBenchmark(benchmark, replace(selected.selection, part=None))
    whole_plan = replace(plan, benchmarks=(all_samples,), spec=plan.spec.with_execution(workers=1))
    # (protocol, group, request) -> the samples that send it, with the kind of answer each has in the group.
    kinds_by_request: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    for item in work_items(whole_plan):
        alike = questions.get(item.sample.id)
        if not alike:
            continue
        first_requests = {request.key for request in next(item.start())}
        for key in first_requests:
            for question in alike:
                kinds_by_request[item.label, question.group, key][item.sample.id] = question.kind

    sharing: dict[str, None] = {}
    for kinds in kinds_by_request.values():
        if len(set(kinds.values())) > 1:
            sharing.update(dict.fromkeys(kinds))
    return list(sharing)
