"""Examples of a built benchmark for a page, with images and ground truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, islice, zip_longest

from snellen.building.benchmark import Benchmark, first_samples
from snellen.common.decoding import data_uri, to_plain_file
from snellen.errors import DataError
from snellen.records import Answer, Sample
from snellen.report.content import ShownItem, question_item

MIN_EXAMPLES = 6
MAX_EXAMPLES = 12
TYPE_TAGS = ("type", "question_type", "task", "category")
"""Tags by which examples are spread; the first that a benchmark has several values of is used."""
IMAGE_BUDGET = 6 * 2**20
"""Bytes of all images on a page."""


def example_questions(
    benchmark: Benchmark, answers: Mapping[tuple[str, int], Answer]
) -> tuple[ShownItem, ...]:
    """Return at most 12 questions of a benchmark with their ground truth: one per type if it has several types.

    Questions are chosen by the hash of their ids, so that the same benchmark always has the same examples. Images
    beyond 6 MiB are left out.

    Args:
        benchmark: The benchmark.
        answers: Answers by sample and round, as of `open_answers`.

    Examples:
        >>> from snellen.plugin_api import open_answers, open_benchmark
        >>> benchmark = open_benchmark("eyechart/colour")
        >>> len(example_questions(benchmark, open_answers(benchmark.folder)))
        6
    """
    ids = _chosen_ids(benchmark)
    samples = {sample.id: sample for sample in benchmark.samples() if sample.id in ids}
    chosen = [samples[sample_id] for sample_id in ids]
    image_uris = _image_uris(benchmark, chosen)
    return tuple(question_item(sample, answers, image_uris) for sample in chosen)


def _chosen_ids(benchmark: Benchmark) -> list[str]:
    """Choose a few samples of a benchmark as examples, from each type of question if it has several types.

    The first tag in `TYPE_TAGS` with more than one value is the type. Types take turns until there are enough examples.
    """
    type_tag = ""
    for tag in TYPE_TAGS:
        if len(benchmark.manifest.tags.get(tag, {})) > 1:
            type_tag = tag
            break
    ids_by_type: dict[str, list[str]] = defaultdict(list)
    for sample in benchmark.samples():
        ids_by_type[sample.tags.get(type_tag, "")].append(sample.id)

    count = min(MAX_EXAMPLES, max(len(ids_by_type), MIN_EXAMPLES))
    chosen_by_type = [first_samples(ids, count) for _, ids in sorted(ids_by_type.items())]
    # One of each type, then a second one of each type, and so on.
    in_turn = chain.from_iterable(zip_longest(*chosen_by_type))
    present = (sample_id for sample_id in in_turn if sample_id is not None)
    return list(islice(present, count))


def _image_uris(benchmark: Benchmark, samples: Sequence[Sample]) -> dict[str, str]:
    """Return data URIs of images by digest, until their budget is spent."""
    images = dict.fromkeys(image for sample in samples for image in sample.images)
    uris: dict[str, str] = {}
    budget = IMAGE_BUDGET
    for image in images:
        try:
            media_type, content = to_plain_file(image, benchmark.images.read(image))
        except DataError:
            continue  # The page says of each image without content that it is missing.
        if len(content) <= budget:
            budget -= len(content)
            uris[image.digest] = data_uri(media_type, content)
    return uris
