"""The page on which people audit a benchmark: one file that opens offline, or the same from a server on this machine
that keeps each label at once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.building.benchmark import Benchmark
from snellen.common.images import data_uri, to_plain_file
from snellen.errors import StoreError
from snellen.formats.decoding import JSON_FAULTS
from snellen.report.rendering import OfflinePage, report_asset, templates
from snellen.runs.run_folder import write_atomically
from snellen.verification.audit import LABELS, AuditItem, AuditLabel, ItemVerdict, read_audit_labels, write_audit_labels

MOST_SENT = 100_000
"""Bytes of a label."""


class AuditForm(Struct, frozen=True):
    """What a page asks, and of whom."""

    benchmark: Benchmark
    items: Sequence[AuditItem]
    by: str = ""
    """Who labels; the page asks for a name where there is none."""
    settling: Mapping[str, ItemVerdict] = {}
    """By item what raters said who differ: to be settled in sight of it."""
    given: Mapping[str, AuditLabel] = {}
    """By item what was labelled before."""
    sends: str = ""
    """The path that labels are sent to; empty for a page that saves them as a file."""

    @property
    def settles(self) -> bool:
        """Whether labels decide where raters differ."""
        return bool(self.settling)

    @property
    def asked(self) -> list[AuditItem]:
        """The questions that are shown: all, or those to be settled."""
        return [item for item in self.items if not self.settles or item.id in self.settling]


def audit_page(form: AuditForm) -> str:
    """The whole page."""
    style = "".join(
        files(package).joinpath(name).read_text("utf-8")
        for package, name in (("snellen.experiments.ratings", "form.css"), ("snellen.verification", "audit.css"))
    )
    script = report_asset("form_elements.js") + files("snellen.verification").joinpath("audit.js").read_text("utf-8")
    page = OfflinePage(
        f"Audit of {form.benchmark.name}", style, script, "audit", _content(form), talks=bool(form.sends)
    )
    return templates("snellen.experiments.ratings").get_template("form.html").render(page=page)


def write_audit_page(form: AuditForm, path: Path) -> None:
    """Write the page as one file. Raises StoreError for a place that cannot be written."""
    try:
        write_atomically(path, audit_page(form).encode("utf-8", "replace"))
    except OSError as error:
        raise StoreError(f"{path}: the page cannot be written ({error.strerror})") from None


def _content(form: AuditForm) -> dict[str, Any]:
    pictures = {image.digest: image for item in form.asked for image in item.sample.images}
    places = {digest: place for place, digest in enumerate(pictures)}
    images = form.benchmark.images
    drawn = " ".join(item.id for item in form.asked)
    return {
        "draw": hashlib.blake2b(drawn.encode(), digest_size=8).hexdigest(),
        "by": form.by,
        "sends": form.sends,
        "settles": form.settles,
        "labels": LABELS,
        "given": {item: {"label": label.label, "answer": label.answer} for item, label in form.given.items()},
        "pictures": [data_uri(*to_plain_file(image, images.read(image))) for image in pictures.values()],
        "items": [
            {
                "id": item.id,
                "name": item.sample.id,
                "context": item.sample.context or "",
                "pictures": [places[image.digest] for image in item.sample.images],
                "labels": dict(form.settling[item.id].labels) if item.id in form.settling else {},
                "rounds": [
                    {
                        "question": turn.question,
                        "options": turn.options,
                        "gold": [place for place in range(len(turn.options)) if item.is_right(number, place)],
                        "texts": [text for gold in item.golds if gold.turn == number for text in gold.texts],
                    }
                    for number, turn in enumerate(item.sample.rounds)
                ],
            }
            for item in form.asked
        ],
    }


class AuditServer(ThreadingHTTPServer):
    """Serves the page on this machine alone, and adds each label to a file. Only who has its address, with the secret
    in it, sees anything."""

    daemon_threads = True

    def __init__(self, form: AuditForm, labels: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.secret, self.labels, self._form = f"/{secrets.token_urlsafe(12)}", labels, form

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://127.0.0.1:{self.server_port}{self.secret}"

    def page(self) -> bytes:
        """The page with what was labelled so far."""
        form = self._form
        own = {
            label.item: label
            for label in read_audit_labels(self.labels)
            if (label.by, label.settles) == (form.by, form.settles)
        }
        shown = msgspec.structs.replace(form, given=own, sends=self.secret)
        return audit_page(shown).encode("utf-8", "replace")


class _Handler(BaseHTTPRequestHandler):
    server: AuditServer

    def do_GET(self) -> None:
        if self.path == self.server.secret:
            self._send(200, self.server.page(), "text/html; charset=utf-8")
        else:
            self._send(404, b"not here", "text/plain")

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != self.server.secret or size > MOST_SENT:
            self._send(404, b"not here", "text/plain")
            return
        try:
            label = msgspec.json.decode(self.rfile.read(size), type=AuditLabel)
            write_audit_labels(self.server.labels, [label])
        except (*JSON_FAULTS, StoreError) as error:
            self._send(500, str(error).encode(), "text/plain")
            return
        self._send(200, b"kept", "text/plain")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *values: object) -> None:
        """Nothing: each label would be a line."""
