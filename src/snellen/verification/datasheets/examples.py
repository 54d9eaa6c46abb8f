"""A few questions of a benchmark with their pictures and answers, as a page shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest

from snellen.building.benchmark import Benchmark, first_samples
from snellen.common.images import data_uri, to_plain_file
from snellen.errors import DataError
from snellen.records import Answer, ImageRef, Sample
from snellen.report.content import ShownItem, ShownPicture, ShownRound
from snellen.report.samples import OptionRow, shown_gold
from snellen.scoring.answers import Key

LEAST, MOST = 3, 12
TYPE_TAGS = ("type", "question_type", "task", "category")
"""Tags by which examples are spread, the first that there is."""
BUDGET = 6 * 2**20
"""Bytes of pictures on a page."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def example_items(benchmark: Benchmark, answers: Mapping[Key, Answer]) -> tuple[ShownItem, ...]:
    """Examples, chosen by the hash of their ids; one of each type where questions have several, at most MOST."""
    chosen = _chosen(benchmark)
    by_id = {sample.id: sample for sample in benchmark.samples() if sample.id in chosen}
    uris = _pictures(benchmark, [by_id[name] for name in chosen])
    return tuple(_item(by_id[name], answers, uris) for name in chosen)


def _chosen(benchmark: Benchmark) -> list[str]:
    tag = next((name for name in TYPE_TAGS if len(benchmark.manifest.tags.get(name, {})) > 1), "")
    ids: dict[str, list[str]] = defaultdict(list)
    for sample in benchmark.samples():
        ids[sample.tags.get(tag, "")].append(sample.id)
    count = min(MOST, max(len(ids), 2 * LEAST))
    by_type = [first_samples(names, count) for _, names in sorted(ids.items())]
    in_turn = chain.from_iterable(zip_longest(*by_type))
    return list(islice((name for name in in_turn if name is not None), count))


def _pictures(benchmark: Benchmark, samples: Sequence[Sample]) -> dict[str, str]:
    """Data URIs by digest, until the page is full."""
    uris: dict[str, str] = {}
    budget = BUDGET
    for image in dict.fromkeys(image for sample in samples for image in sample.images):
        try:
            media_type, content = to_plain_file(image, benchmark.images.read(image))
        except DataError:
            continue  # the page says of each picture without content that it is missing
        if len(content) <= budget:
            budget -= len(content)
            uris[image.digest] = data_uri(media_type, content)
    return uris


def _item(sample: Sample, answers: Mapping[Key, Answer], uris: Mapping[str, str]) -> ShownItem:
    return ShownItem(
        sample.id,
        tuple(sample.tags.items()),
        tuple(_picture(image, sample, uris) for image in sample.images),
        sample.context or "",
        tuple(_rounds(sample, answers)),
    )


def _picture(image: ImageRef, sample: Sample, uris: Mapping[str, str]) -> ShownPicture:
    words = f"Picture of {sample.id}, {image.width} by {image.height} pixels"
    return ShownPicture(uris.get(image.digest, ""), words, image.width, image.height)


def _rounds(sample: Sample, answers: Mapping[Key, Answer]) -> Iterator[ShownRound]:
    for number, turn in enumerate(sample.rounds):
        answer = answers.get((sample.id, number))
        right = answer.options if answer else ()
        options = tuple(
            OptionRow(LETTERS[place] if place < len(LETTERS) else str(place + 1), text, ("correct",) * (place in right))
            for place, text in enumerate(turn.options)
        )
        yield ShownRound(turn.question, options, None if turn.options and answer else shown_gold(answer, turn.options))
