"""The page on which a rater labels questions of a benchmark.

It is one file that opens offline and saves the labels as a file, or it sends them to
`audit_server`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import PackageLoader
from msgspec import Struct

from snellen import StoreError
from snellen.plugin_api import (
    Benchmark,
    ImageRef,
    OfflinePage,
    template_environment,
    to_plain_file,
    write_atomically,
)
from snellen_lab.ratings.form import data_uri
from snellen_lab.verification.audit_labels import LABELS, AuditLabel
from snellen_lab.verification.audit_outcome import ItemVerdict
from snellen_lab.verification.audited_questions import AuditItem


class AuditForm(Struct, frozen=True):
    """What the page of a rater contains."""

    benchmark: Benchmark
    items: Sequence[AuditItem]
    by: str = ""
    """Name of the rater; the page asks for it if it is empty."""
    settling: Mapping[str, ItemVerdict] = {}
    """Verdicts on which raters differ, by item: the page shows their labels and asks for a decision."""
    earlier: Mapping[str, AuditLabel] = {}
    """Earlier labels by item."""
    sends: str = ""
    """Path to which labels are sent; empty for a page that saves them as a file."""

    @property
    def settles(self) -> bool:
        """Return whether the rater decides questions on which others disagree."""
        return bool(self.settling)

    @property
    def displayed_items(self) -> list[AuditItem]:
        """Return the questions on the page: all, or only those that are to be settled."""
        if not self.settles:
            return list(self.items)
        return [item for item in self.items if item.id in self.settling]


def audit_page(form: AuditForm) -> str:
    """Return the page as HTML."""
    style = files("snellen_lab.ratings").joinpath("form.css").read_text("utf-8")
    style += files("snellen_lab.verification").joinpath("audit.css").read_text("utf-8")
    script = files("snellen_lab.ratings").joinpath("form_elements.js").read_text("utf-8")
    script += files("snellen_lab.verification").joinpath("audit.js").read_text("utf-8")
    page = OfflinePage(
        f"Audit of {form.benchmark.name}",
        style,
        script,
        "audit",
        _content(form),
        sends_requests=bool(form.sends),
    )
    templates = template_environment(PackageLoader("snellen_lab.ratings"))
    return templates.get_template("form.html").render(page=page)


def write_audit_page(form: AuditForm, path: Path) -> None:
    """Write the page as one file. Raises StoreError if it cannot be written."""
    try:
        write_atomically(path, audit_page(form).encode("utf-8", "replace"))
    except OSError as error:
        raise StoreError(f"{path}: the page cannot be written ({error.strerror})") from None


def _content(form: AuditForm) -> dict[str, Any]:
    """Return the data of the page's script: the questions with their images, and the labels given earlier."""
    images: dict[str, ImageRef] = {}
    for item in form.displayed_items:
        for image in item.sample.images:
            images[image.digest] = image
    image_indexes = {digest: index for index, digest in enumerate(images)}
    image_uris = []
    for image in images.values():
        media_type, content = to_plain_file(image, form.benchmark.images.read(image))
        image_uris.append(data_uri(media_type, content))

    earlier = {}
    for item_id, label in form.earlier.items():
        earlier[item_id] = {"label": label.label, "answer": label.answer}

    items = []
    for item in form.displayed_items:
        labels_to_settle: dict[str, str] = {}
        if item.id in form.settling:
            labels_to_settle = dict(form.settling[item.id].labels)
        items.append(
            {
                "id": item.id,
                "name": item.sample.id,
                "context": item.sample.context or "",
                "pictures": [image_indexes[image.digest] for image in item.sample.images],
                "labels": labels_to_settle,
                "rounds": _rounds(item),
            }
        )

    # The digest of the ids tells the page whether labels saved in the browser are of the same draw.
    item_ids = " ".join(item.id for item in form.displayed_items)
    return {
        "draw": hashlib.blake2b(item_ids.encode(), digest_size=8).hexdigest(),
        "by": form.by,
        "sends": form.sends,
        "settles": form.settles,
        "labels": LABELS,
        "given": earlier,
        "pictures": image_uris,
        "items": items,
    }


def _rounds(item: AuditItem) -> list[dict[str, Any]]:
    """Return each round of a question, with its right options and accepted texts, for the page."""
    rounds = []
    for number, turn in enumerate(item.sample.rounds):
        texts: list[str] = []
        for gold in item.golds:
            if gold.turn == number:
                texts.extend(gold.texts)
        right_options = [i for i in range(len(turn.options)) if item.is_right(number, i)]
        rounds.append(
            {
                "question": turn.question,
                "options": turn.options,
                "gold": right_options,
                "texts": texts,
            }
        )
    return rounds
