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
from snellen.installation import LAB
from snellen.models.base import AsyncModel, Model, answers_by_sample
from snellen.records import IndistinguishableQuestion
from snellen.runs.finding import SelectedBenchmark
from snellen.runs.plan import RunPlan
from snellen.runs.work_items import work_items

MAX_SAMPLES_NAMED = 3
"""The number of samples of each benchmark that the error names."""


def check_same_requests(model: Model | AsyncModel, plan: RunPlan) -> tuple[str, ...]:
    """Return a note for each benchmark in which samples with different answers send the same request.

    Raises:
        DataError: There are such samples, and neither the plan nor the benchmark's entry allows them. A model that
            looks up the sample of a request is not affected.
    """
    if answers_by_sample(model):
        return ()
    notes = []
    sample_ids_by_benchmark: dict[str, list[str]] = {}
    for use in plan.benchmarks:
        sample_ids = _samples_with_shared_reply(use, plan)
        if not sample_ids:
            continue
        name = use.benchmark.name
        notes.append(
            f"{name}: {len(sample_ids):,} samples share a reply with a sample that has a different answer"
        )
        is_allowed = plan.execution.allow_same_requests or use.benchmark.spec.same_requests
        if not is_allowed:
            sample_ids_by_benchmark[name] = sample_ids
    if sample_ids_by_benchmark:
        raise DataError(_describe_same_requests(sample_ids_by_benchmark))
    return tuple(notes)


def _describe_same_requests(sample_ids_by_benchmark: dict[str, list[str]]) -> str:
    """Return the error message about samples that send the same request although their answers differ.

    Args:
        sample_ids_by_benchmark: The ids of these samples, by the name of the benchmark.
    """
    examples = []
    for name, sample_ids in sample_ids_by_benchmark.items():
        first_ids = ", ".join(sample_ids[:MAX_SAMPLES_NAMED])
        examples.append(f"{name}: {len(sample_ids):,} samples, e.g. {first_ids}")
    first_benchmark = shell_word(next(iter(sample_ids_by_benchmark)))
    lint = for_caller(
        f"`snellen lint {first_benchmark}`", f"on the command line: snellen lint {first_benchmark}"
    )
    allowing = for_caller(
        "--allow-same-requests (allow_same_requests=True)", "allow_same_requests=True"
    )
    return (
        "samples with different answers send the same request, so they would share one reply "
        f"({'; '.join(examples)}); build from files that distinguish them ({lint}, of the package {LAB}), or run with {allowing}"
    )


def _samples_with_shared_reply(selected: SelectedBenchmark, plan: RunPlan) -> list[str]:
    """Find samples that send exactly the same request as a sample with another correct answer.

    No reply could be right for both. The build has put the questions that look the same to a model into groups. Within
    a group, questions with the same answer have the same `kind`.

    Args:
        selected: The benchmark, and which of its samples the run has.
        plan: The plan of the run, with the protocols and prompts.

    Returns:
        The ids of these samples.
    """
    benchmark = selected.benchmark
    if not benchmark.manifest.indistinguishable:
        return []
    questions_by_sample: dict[str, list[IndistinguishableQuestion]] = defaultdict(list)
    for question in benchmark.indistinguishable():
        questions_by_sample[question.sample_id].append(question)

    # All rounds and all workers are considered: samples without an image may be sent in different ones.
    all_samples = SelectedBenchmark(benchmark, replace(selected.selection, part=None))
    one_worker = plan.spec.with_execution(workers=1)
    complete_plan = replace(plan, benchmarks=(all_samples,), spec=one_worker)
    # By protocol, group and request: the kind of answer of each sample that sends the request.
    kinds_by_request: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    for item in work_items(complete_plan):
        sample_id = item.sample.id
        questions = questions_by_sample.get(sample_id)
        if not questions:
            continue
        first_wave = next(item.start())
        request_keys = {request.key for request in first_wave}
        for request_key in request_keys:
            for question in questions:
                kinds = kinds_by_request[item.label, question.group, request_key]
                kinds[sample_id] = question.kind

    sample_ids: dict[str, None] = {}
    for kind_by_sample in kinds_by_request.values():
        distinct_kinds = set(kind_by_sample.values())
        if len(distinct_kinds) > 1:
            sample_ids.update(dict.fromkeys(kind_by_sample))
    return list(sample_ids)
