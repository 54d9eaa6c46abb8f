"""A local server of the page on which a rater labels questions."""

from __future__ import annotations

import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
from msgspec.structs import replace

from snellen import StoreError
from snellen.plugin_api import JSON_FAULTS, add_lines
from snellen_lab.verification.audit_form import AuditForm, audit_page
from snellen_lab.verification.audit_labels import AuditLabel, read_audit_labels

MAX_LABEL_BYTES = 100_000


class AuditServer(ThreadingHTTPServer):
    """A local web server for the page of one rater, which stores each label at once.

    Only programs on this machine that know its address, which contains a secret, can use it.
    """

    daemon_threads = True

    def __init__(self, form: AuditForm, labels: Path, port: int = 0) -> None:
        """Listen on this machine only. Port 0 is any free port. Only an address with the secret is answered."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.secret = f"/{secrets.token_urlsafe(12)}"
        self.labels = labels
        self._form = form
        self._newest: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def keep(self, label: AuditLabel, visit: str, order: int) -> None:
        """Add a label to the file, unless a later one for its item has arrived before it.

        A browser sends the labels of one visit over several connections, and an undone label may
        arrive after the one that replaces it.
        """
        item = (visit, label.item)
        with self._lock:
            if order < self._newest.get(item, 0):
                return
            add_lines(self.labels, label)
            self._newest[item] = order

    @property
    def address(self) -> str:
        """Return the address of the page."""
        return f"http://127.0.0.1:{self.server_port}{self.secret}"

    def page(self) -> bytes:
        """Return the page with the rater's labels so far."""
        form = self._form
        earlier = {}
        for label in read_audit_labels(self.labels):
            if label.by == form.by and label.settles == form.settles:
                earlier[label.item] = label
        current_form = replace(form, earlier=earlier, sends=self.secret)
        return audit_page(current_form).encode("utf-8", "replace")


class _Handler(BaseHTTPRequestHandler):
    server: AuditServer  # pyrefly: ignore[bad-override-mutable-attribute]  # no other server makes one

    def do_GET(self) -> None:
        """Send the page of the audit at its secret address, and 404 at all others."""
        if self.path == self.server.secret:
            self._send(200, self.server.page(), "text/html; charset=utf-8")
        else:
            self._send(404, b"not here", "text/plain")

    def do_POST(self) -> None:
        """Receive a label from the page, and store it."""
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != self.server.secret or size > MAX_LABEL_BYTES:
            self._send(404, b"not here", "text/plain")
            return
        try:
            label = msgspec.json.decode(self.rfile.read(size), type=AuditLabel)
            self.server.keep(label, self.headers.get("Audit-Visit", ""), self._order())
        except (*JSON_FAULTS, StoreError) as error:
            self._send(500, str(error).encode(), "text/plain")
            return
        self._send(200, b"kept", "text/plain")

    def _order(self) -> int:
        """Return the number of this label among those of the visit, from 1; 0 if it has none."""
        written = self.headers.get("Audit-Order", "")
        return int(written) if written.isdecimal() and len(written) < 10 else 0

    def _send(self, status: int, content: bytes, media_type: str) -> None:
        """Send a response that the browser must not store."""
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: each label would be a line."""
