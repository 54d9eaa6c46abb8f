"""Replies of runs as items to be rated: blinded, in an order that tells nothing, with checks of attention."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError
from snellen.images import to_plain_file
from snellen.ratings.key import KeyItem
from snellen.ratings.study import RatingStudy
from snellen.records import Request
from snellen.runs.journal import read_exchanges, read_manifest
from snellen.runs.own_questions import RunPictures
from snellen.scoring.rated import rated_question

CHECK = (
    "This text is here to see whether the form is read. Please do not rate it: choose {value} in every row, "
    "whatever the row asks."
)
NOTHING = "(The reply is empty.)"


class RatedReply(Struct, frozen=True):
    """A reply of a run, with what it answers."""

    model: str
    scene: str
    """Benchmark and sample, which replies of several models to one question share."""
    task: str
    reply: str
    pictures: tuple[str, ...]
    """Digests."""


class Replies(Struct, frozen=True):
    """All replies to be rated; `notes` say what is not among them."""

    replies: tuple[RatedReply, ...]
    pictures: dict[str, tuple[str, bytes]]
    """Media type and bytes by digest, as a browser shows them."""
    notes: tuple[str, ...] = ()


class FormItem(Struct, frozen=True):
    """What a rater sees of an item."""

    number: int
    task: str
    reply: str
    pictures: tuple[str, ...]


def replies_of(runs: Sequence[Path]) -> Replies:
    """The first reply to each question in each run. Raises StoreError for a folder that is no run, DataError for two
    runs of one model, a missing picture, and where nothing is to be rated."""
    replies: list[RatedReply] = []
    pictures: dict[str, tuple[str, bytes]] = {}
    notes: list[str] = []
    models: dict[str, Path] = {}
    for run in runs:
        manifest = read_manifest(run)
        if (other := models.setdefault(manifest.model, run)) != run:
            raise DataError(f"{other} and {run} are both of {manifest.model}; a model is rated once: name one of them")
        stores = {use.name: RunPictures(use, run) for use in manifest.benchmarks}
        found, dropped = _first_replies(run)
        notes += [f"{manifest.model}: {count:,} {why}" for why, count in dropped.items()]
        for request, text in found:
            for image in request.images:
                if image.digest not in pictures:
                    pictures[image.digest] = to_plain_file(image, stores[request.benchmark].read(image))
            replies.append(_rated(manifest.model, request, text))
    if not replies:
        raise DataError("no reply of these runs can be rated; likelihood runs have none, and failed requests neither")
    return Replies(tuple(sorted(replies, key=lambda r: (r.scene, r.model))), pictures, (*notes, *_named(replies)))


def _first_replies(run: Path) -> tuple[list[tuple[Request, str]], Counter[str]]:
    """The first presentation of each question that has a reply, and how many exchanges are left out, by reason."""
    first: dict[tuple[str, str, int], tuple[Request, str]] = {}
    dropped: Counter[str] = Counter()
    failed: set[tuple[str, str, int]] = set()
    for exchange in read_exchanges(run):
        request = exchange.request
        place = (request.benchmark, request.sample_id, request.variant.turn)
        if request.kind != "generate":
            continue
        if exchange.response.error is not None or exchange.response.text is None:
            failed.add(place)
        elif place in first:
            dropped["further presentations of a question, left out"] += 1
        else:
            first[place] = request, exchange.response.text
    if without := failed - set(first):
        dropped["questions without a reply, left out"] = len(without)
    return list(first.values()), dropped


def _rated(model: str, request: Request, text: str) -> RatedReply:
    """What a rater reads as the task is what the model was told, but for pictures and a reply that was begun."""
    told = [message.text.strip() for message in request.messages if message.role != "assistant"]
    return RatedReply(
        model,
        rated_question(request.benchmark, request.sample_id, request.variant.turn),
        "\n\n".join(filter(None, told)),
        text.strip() or NOTHING,
        tuple(dict.fromkeys(image.digest for image in request.images)),
    )


def _named(replies: Sequence[RatedReply]) -> Iterator[str]:
    """A note where a reply says the name of a model, which no form can blind."""
    names = {model.rpartition("/")[2].partition("?")[0].casefold() for model in {reply.model for reply in replies}}
    names = {name for name in names if len(name) > 3}
    telling = sum(any(name in reply.reply.casefold() for name in names) for reply in replies)
    if telling:
        yield f"replies that say a model's name themselves, shown as they are: {telling:,}"


def blinded_items(
    study: RatingStudy, replies: Sequence[RatedReply], checks: int, rng: random.Random
) -> tuple[tuple[FormItem, ...], tuple[KeyItem, ...]]:
    """Items numbered from 1 in a random order, and what stands behind each number.

    A check shows the picture and task of a reply drawn at random, and in place of the reply asks for one value.
    """
    shown = [(reply, KeyItem(0, reply.model, reply.scene)) for reply in replies]
    for _ in range(checks):
        reply, value = rng.choice(replies), rng.choice(study.values)
        expected = {dimension.name: value for dimension in study.dimensions}
        shown.append((replace(reply, reply=CHECK.format(value=value)), KeyItem(0, "", reply.scene, expected)))
    rng.shuffle(shown)
    return (
        tuple(FormItem(n, reply.task, reply.reply, reply.pictures) for n, (reply, _) in enumerate(shown, 1)),
        tuple(replace(item, number=n) for n, (_, item) in enumerate(shown, 1)),
    )
