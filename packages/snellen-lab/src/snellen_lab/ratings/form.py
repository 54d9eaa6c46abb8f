"""The form on which people rate replies: one HTML file that works offline and names no model."""

from __future__ import annotations

import hashlib
import random
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import PackageLoader
from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen import DataError, Request
from snellen.plugin_api import (
    OfflinePage,
    RatingStudy,
    RunImages,
    read_exchanges,
    read_manifest,
    rng_for,
    runs_in,
    template_environment,
    to_plain_file,
    write_atomically,
)
from snellen_lab.ratings.sheets import KeyItem, RatingKey, write_key

# --- items -----------------------------------------------------------------------------------------------------------


CHECK = (
    "This text is here to see whether the form is read. Please do not rate it: choose {value} in every row, "
    "whatever the row asks."
)
NOTHING = "(The reply is empty.)"


class RatedReply(Struct, frozen=True):
    """A reply of a run to be rated, with the question that it answers."""

    model: str
    scene: str
    """Benchmark, sample and round: the same for the replies of all models to a question."""
    task: str
    """The prompt as text."""
    reply: str
    pictures: tuple[str, ...]
    """Digests of the images in the prompt."""


class Replies(Struct, frozen=True):
    """All replies to be rated. `notes` say how many replies were left out, and why."""

    replies: tuple[RatedReply, ...]
    pictures: dict[str, tuple[str, bytes]]
    """Media type and bytes by digest, as a browser shows them."""
    notes: tuple[str, ...] = ()


class FormItem(Struct, frozen=True):
    """What raters see of one item of the form."""

    number: int
    task: str
    reply: str
    pictures: tuple[str, ...]


def replies_of(runs: Sequence[Path]) -> Replies:
    """Return the first reply to each question in each run, with the images of the questions.

    Args:
        runs: Folders of the runs, one for each model.

    Raises:
        StoreError: If a folder is not a run.
        DataError: If two runs are of one model, an image is missing, or no run has a reply to rate.
    """
    replies: list[RatedReply] = []
    pictures: dict[str, tuple[str, bytes]] = {}
    notes: list[str] = []
    runs_by_model: dict[str, Path] = {}
    for run in runs:
        manifest = read_manifest(run)
        model = manifest.model
        first_run = runs_by_model.setdefault(model, run)
        if first_run != run:
            raise DataError(
                f"{first_run} and {run} are both of {model}; each model is rated once; name only one of them"
            )
        stores = {use.name: RunImages(use, run) for use in manifest.benchmarks}
        run_replies, dropped = _first_replies(run)
        for reason, count in dropped.items():
            notes.append(f"{model}: {count:,} {reason}")
        for request, text in run_replies:
            store = stores[request.benchmark]
            for image in request.images:
                if image.digest not in pictures:
                    pictures[image.digest] = to_plain_file(image, store.read(image))
            replies.append(_rated(model, request, text))
    if not replies:
        raise DataError(
            "these runs have no replies to rate: likelihood runs and failed requests have none"
        )

    def by_scene_and_model(reply: RatedReply) -> tuple[str, str]:
        return reply.scene, reply.model

    sorted_replies = sorted(replies, key=by_scene_and_model)
    notes.extend(_named(replies))
    return Replies(tuple(sorted_replies), pictures, tuple(notes))


def _first_replies(run: Path) -> tuple[list[tuple[Request, str]], Counter[str]]:
    """Return one reply of a run to each question: the first that did not fail.

    Returns:
        The requests with their replies; and how many other replies, and questions without any
        reply, are left out, by the reason.
    """
    first_replies: dict[tuple[str, str, int], tuple[Request, str]] = {}
    n_left_out: Counter[str] = Counter()
    failed_questions: set[tuple[str, str, int]] = set()
    for exchange in read_exchanges(run):
        request = exchange.request
        question_key = (request.benchmark, request.sample_id, request.variant.turn)
        if request.kind != "generate":
            continue
        if exchange.response.error is not None or exchange.response.text is None:
            failed_questions.add(question_key)
        elif question_key in first_replies:
            n_left_out["additional presentations of a question, left out"] += 1
        else:
            first_replies[question_key] = (request, exchange.response.text)
    without_reply = failed_questions - set(first_replies)
    if without_reply:
        n_left_out["questions without a reply, left out"] = len(without_reply)
    return list(first_replies.values()), n_left_out


def _rated(model: str, request: Request, text: str) -> RatedReply:
    """Return a reply with its question, as raters see them.

    Args:
        model: Name of the model.
        request: The request. The texts of its messages are the task, without messages of the
            assistant, such as a prefilled beginning of the reply.
        text: The reply.
    """
    texts = [message.text.strip() for message in request.messages if message.role != "assistant"]
    question = f"{request.benchmark} {request.sample_id}"
    if request.variant.turn:
        question += f" round {request.variant.turn + 1}"
    digests = dict.fromkeys(image.digest for image in request.images)
    return RatedReply(
        model=model,
        scene=question,
        task="\n\n".join(text for text in texts if text),
        reply=text.strip() or NOTHING,
        pictures=tuple(digests),
    )


def _named(replies: Sequence[RatedReply]) -> Iterator[str]:
    """Yield a note if any replies contain the name of a model, since then the form is not blind."""
    names = set()
    for reply in replies:
        # `tiny-vl` of `hf:org/tiny-vl?dtype=float32`
        name = reply.model.rpartition("/")[2].partition("?")[0].casefold()
        if len(name) > 3:  # shorter names are parts of ordinary words
            names.add(name)

    n_with_name = 0
    for reply in replies:
        text = reply.reply.casefold()
        if any(name in text for name in names):
            n_with_name += 1
    if n_with_name:
        yield f"replies that contain the name of a model, shown unchanged: {n_with_name:,}"


def blinded_items(
    study: RatingStudy, replies: Sequence[RatedReply], checks: int, rng: random.Random
) -> tuple[tuple[FormItem, ...], tuple[KeyItem, ...]]:
    """Return replies in a random order without the names of their models, with attention checks.

    An attention check shows the images and the task of a random reply. In place of the reply, it
    asks the rater to choose a certain value in every dimension.

    Args:
        study: The dimensions and the scale.
        replies: The replies.
        checks: Number of attention checks.
        rng: Random generator.

    Returns:
        The items that raters see, numbered from 1; and the key, which says for each number which
        model wrote the reply, or which values the check expects.
    """
    entries = [(reply, KeyItem(0, reply.model, reply.scene)) for reply in replies]
    for _ in range(checks):
        reply = rng.choice(replies)
        value = rng.choice(study.values)
        expected = {dimension.name: value for dimension in study.dimensions}
        check = replace(reply, reply=CHECK.format(value=value))
        entries.append((check, KeyItem(0, "", reply.scene, expected)))
    rng.shuffle(entries)

    form_items = []
    key_items = []
    for number, (reply, key_item) in enumerate(entries, 1):
        form_items.append(FormItem(number, reply.task, reply.reply, reply.pictures))
        key_items.append(replace(key_item, number=number))
    return tuple(form_items), tuple(key_items)


# --- the form --------------------------------------------------------------------------------------------------------


FORM_FILE = "form.html"


class MadeForm(Struct, frozen=True):
    """The path of a written form, and its key, which says which model wrote which item."""

    path: Path
    key: RatingKey
    notes: tuple[str, ...]


class PreparedForm(Struct, frozen=True):
    """The items that raters see, and the key, which says which model wrote which item."""

    items: tuple[FormItem, ...]
    key: RatingKey
    pictures: dict[str, tuple[str, bytes]]
    """Media type and bytes by digest, as a browser shows them."""
    notes: tuple[str, ...]


def prepare_form(
    runs: Sequence[Path], study: RatingStudy, *, checks: int = 2, seed: int = 0
) -> PreparedForm:
    """Return the items of a form: the replies of runs in a random order.

    The same runs and seed give the same form.

    Args:
        runs: Folders of the runs, one for each model.
        study: The dimensions and the scale.
        checks: Number of items that ask for a given value, to see whether raters read them.
        seed: Seed of the order and the checks.

    Raises:
        DataError: If the runs have no replies, or two are of the same model.
        StoreError: If a folder is not a run.
    """
    replies = replies_of(runs)
    rng = rng_for("ratings", study.name, "form", seed)
    items, key_items = blinded_items(study, replies.replies, checks, rng)
    # The digest connects ratings with the form that they were given on.
    form_digest = hashlib.sha256(msgspec.json.encode((study, items))).hexdigest()[:12]
    key = RatingKey(study, key_items, form_digest)
    return PreparedForm(items, key, replies.pictures, replies.notes)


def make_form(
    runs: Sequence[Path], study: RatingStudy, folder: Path, *, checks: int = 2, seed: int = 0
) -> MadeForm:
    """Write `form.html` and `key.json` for rating the replies of runs.

    Items are numbered in a random order. Each rater sees them in another order, which follows from
    the form and the rater's name. The same runs and seed give the same form.

    Args:
        runs: Folders of the runs, one for each model.
        study: The dimensions and the scale.
        folder: Folder of the two files.
        checks: Number of items that ask for a certain value, to see whether raters read them.
        seed: Seed of the order and the checks.

    Raises:
        DataError: If the runs have no replies, or two are of the same model.
        StoreError: If a folder is not a run, or `folder` has another study.
    """
    prepared = prepare_form(runs_in(runs), study, checks=checks, seed=seed)
    key = prepared.key
    write_key(folder, key)
    # A reply may hold half of a surrogate pair, which cannot be encoded; inside JSON it is escaped.
    page = rating_page(study, prepared.items, prepared.pictures, key.form)
    write_atomically(folder / FORM_FILE, page.encode("utf-8", "replace"))
    return MadeForm(folder / FORM_FILE, key, prepared.notes)


def rating_page(
    study: RatingStudy,
    items: Sequence[FormItem],
    pictures: Mapping[str, tuple[str, bytes]],
    digest: str,
) -> str:
    """Return the HTML page of a form.

    Args:
        study: The dimensions and the scale.
        items: The items to rate.
        pictures: Media type and bytes of each image, by its digest.
        digest: The digest that identifies the form.
    """
    style = files("snellen_lab.ratings").joinpath("form.css").read_text("utf-8")
    script = ""
    for name in ("form_elements.js", "form.js"):
        script += files("snellen_lab.ratings").joinpath(name).read_text("utf-8")
    page = OfflinePage(
        study.title, style, script, "study", _content(study, items, pictures, digest)
    )
    templates = template_environment(PackageLoader("snellen_lab.ratings"))
    return templates.get_template("form.html").render(page=page)


def data_uri(media_type: str, content: bytes) -> str:
    """Return a file as a `data:` URI, so that an offline page can contain it."""
    return f"data:{media_type};base64,{b64encode(content).decode()}"


def _content(
    study: RatingStudy,
    items: Sequence[FormItem],
    pictures: Mapping[str, tuple[str, bytes]],
    digest: str,
) -> dict[str, Any]:
    """Return the data for the page's script.

    Each image is stored once, in a list; items refer to it by its index there.
    """
    indexes: dict[str, int] = {}
    shown_items = []
    for item in items:
        for image_digest in item.pictures:
            indexes.setdefault(image_digest, len(indexes))
        item_indexes = [indexes[image_digest] for image_digest in item.pictures]
        shown_items.append({**asdict(item), "pictures": item_indexes})

    dimensions = []
    for dimension in study.dimensions:
        dimensions.append(
            {
                "name": dimension.name,
                "title": dimension.title,
                "question": dimension.question,
                "low": dimension.low,
                "high": dimension.high,
            }
        )
    return {
        "form": digest,
        "study": study.name,
        "instructions": study.instructions.strip(),
        "values": list(study.values),
        "dimensions": dimensions,
        "pictures": [data_uri(*pictures[image_digest]) for image_digest in indexes],
        "items": shown_items,
    }
