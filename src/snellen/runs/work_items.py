"""Combine the samples of a run with its protocols, in the order in which requests are sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from msgspec.structs import replace

from snellen.common.images import Images, JoinedImages
from snellen.errors import DataError
from snellen.protocols.base import declaration_of
from snellen.records import Formulation, Sample
from snellen.runs.drivers import SampleItem
from snellen.runs.finding import SelectedBenchmark
from snellen.runs.plan import (
    RunPlan,
    example_source,
    few_shot_of,
    prompt_of,
    samples_of,
)
from snellen.runs.shuffled_images import OtherImages, assign_other_images, with_other_images


def work_items(plan: RunPlan) -> Iterator[SampleItem]:
    """Yield each sample of a plan under each protocol that applies to it.

    All presentations of an image come together, which lets a local model encode it once.
    """
    for selected in plan.benchmarks:
        yield from _items_of_benchmark(plan, selected)


def _items_of_benchmark(plan: RunPlan, selected: SelectedBenchmark) -> Iterator[SampleItem]:
    """Yield each selected sample under each protocol that applies to it, with its prompt and few-shot examples.

    Args:
        plan: The plan of the run. Only samples of its worker are yielded.
        selected: A benchmark of the run, and which of its samples to evaluate.
    """
    benchmark = selected.benchmark
    protocols = plan.protocols_of(benchmark.spec)
    prompts = {}
    for protocol in protocols:
        for formulation in get_args(Formulation):
            prompt = prompt_of(benchmark.spec, formulation, protocol, plan)
            prompts[protocol.label, formulation] = prompt
    images: Images = benchmark.images
    few_shot = None
    if plan.question.few_shot:
        few_shot = few_shot_of(benchmark, plan)
        if plan.question.few_shot_from:
            images = JoinedImages((images, example_source(benchmark, plan).images))
    other_images: OtherImages = {}
    if any(declaration_of(protocol).other_images for protocol in protocols):
        other_images = assign_other_images(benchmark)
    histories: Mapping[str, tuple[str, ...]] = {}

    for sample in samples_of(selected):
        if not plan.is_for_worker(sample):
            continue
        for protocol in protocols:
            if not protocol.applies(sample):
                continue
            history: tuple[str, ...] = ()
            if protocol.gold_history:
                if not histories:
                    histories = benchmark.histories()
                history = _published_history(sample, histories)
            prompt = prompts[protocol.label, _prompt_form(sample)]
            if few_shot:
                prompt = replace(prompt, examples=few_shot.examples_for(sample))
            shown_sample = sample
            if declaration_of(protocol).other_images:
                shown_sample = with_other_images(sample, other_images)
            yield SampleItem(shown_sample, protocol, prompt, images, history)


def _prompt_form(sample: Sample) -> Formulation:
    """Return which kind of prompt a sample has: its own formulation if it has options, otherwise "text".

    A dialogue without options therefore has the prompt of open questions.
    """
    if any(turn.options for turn in sample.rounds):
        return sample.formulation
    return "text"


def _published_history(sample: Sample, histories: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the published replies to the earlier questions of a dialogue, which are shown before its last question.

    Args:
        sample: The dialogue.
        histories: The published replies, by the id of the dialogue.

    Raises:
        DataError: There are none for this dialogue.
    """
    if sample.id not in histories:
        raise DataError(
            f"{sample.benchmark}: the dialogue {sample.id} has no published history; use history=online"
        )
    return histories[sample.id]


def count_planned_questions(plan: RunPlan, *, of_worker: bool = False) -> tuple[int, int]:
    """Count the questions of a plan; each turn of a dialogue is a question.

    Args:
        plan: The run.
        of_worker: Whether to count only the questions of the plan's worker, not those of all workers.

    Returns:
        The number of questions, counted once per protocol, and the number of different questions.
    """
    n_per_protocol = 0
    n_different = 0
    for selected in plan.benchmarks:
        protocols = plan.protocols_of(selected.benchmark.spec)
        for sample in samples_of(selected):
            if of_worker and not plan.is_for_worker(sample):
                continue
            n_questions = len(sample.rounds)
            n_protocols = sum(protocol.applies(sample) for protocol in protocols)
            n_per_protocol += n_protocols * n_questions
            if n_protocols:
                n_different += n_questions
    return n_per_protocol, n_different
