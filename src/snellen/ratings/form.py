"""The form that people fill in: one HTML file that requests nothing, works from a disk, and names no model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.ratings.items import FormItem, blinded_items, replies_of
from snellen.ratings.key import RatingKey, write_key
from snellen.ratings.study import RatingStudy
from snellen.report.offline_page import OfflinePage, data_uri
from snellen.report.rendering import templates
from snellen.runs.journal import write_atomically
from snellen.seeds import rng_for

FORM_FILE = "form.html"


class MadeForm(Struct, frozen=True):
    """A form that was written, and what is behind it."""

    path: Path
    key: RatingKey
    notes: tuple[str, ...]


class PreparedForm(Struct, frozen=True):
    """What raters see, and what is behind it."""

    items: tuple[FormItem, ...]
    key: RatingKey
    pictures: dict[str, tuple[str, bytes]]
    """Media type and bytes by digest, as a browser shows them."""
    notes: tuple[str, ...]


def prepare_form(runs: Sequence[Path], study: RatingStudy, *, checks: int = 2, seed: int = 0) -> PreparedForm:
    """The items of the replies of `runs`, in one random order that follows from the seed; the same every time.

    `checks` are items that ask for a given value. Raises DataError, StoreError.
    """
    replies = replies_of(runs)
    items, key_items = blinded_items(study, replies.replies, checks, rng_for("ratings", study.name, "form", seed))
    digest = hashlib.sha256(msgspec.json.encode((study, items))).hexdigest()[:12]
    return PreparedForm(items, RatingKey(study, key_items, digest), replies.pictures, replies.notes)


def make_form(runs: Sequence[Path], study: RatingStudy, folder: Path, *, checks: int = 2, seed: int = 0) -> MadeForm:
    """Write `form.html` and `key.json` for the replies of `runs`; the same runs and seed give the same form.

    The items are numbered in a random order, and each rater sees them in another, which follows from the form and the
    rater's name. `checks` are items that ask for a given value. Raises DataError, StoreError.
    """
    prepared = prepare_form(runs, study, checks=checks, seed=seed)
    key = prepared.key
    write_key(folder, key)
    # A reply may hold half of a surrogate pair, which cannot be encoded; inside JSON it is escaped.
    page = rating_page(study, prepared.items, prepared.pictures, key.form)
    write_atomically(folder / FORM_FILE, page.encode("utf-8", "replace"))
    return MadeForm(folder / FORM_FILE, key, prepared.notes)


def rating_page(
    study: RatingStudy, items: Sequence[FormItem], pictures: Mapping[str, tuple[str, bytes]], digest: str
) -> str:
    """The whole page; `pictures` are media type and bytes by digest."""
    style, script = (files("snellen.ratings").joinpath(name).read_text("utf-8") for name in ("form.css", "form.js"))
    page = OfflinePage(study.title, style, script, "study", _content(study, items, pictures, digest))
    return templates("snellen.ratings").get_template("form.html").render(page=page)


def _content(
    study: RatingStudy, items: Sequence[FormItem], pictures: Mapping[str, tuple[str, bytes]], digest: str
) -> dict[str, Any]:
    shown = dict.fromkeys(picture for item in items for picture in item.pictures)
    places = {picture: place for place, picture in enumerate(shown)}
    return {
        "form": digest,
        "study": study.name,
        "instructions": study.instructions.strip(),
        "values": list(study.values),
        "dimensions": [
            {"name": d.name, "title": d.title, "question": d.question, "low": d.low, "high": d.high}
            for d in study.dimensions
        ],
        "pictures": [data_uri(*pictures[picture]) for picture in shown],
        "items": [
            {
                "number": item.number,
                "task": item.task,
                "reply": item.reply,
                "pictures": [places[picture] for picture in item.pictures],
            }
            for item in items
        ],
    }
