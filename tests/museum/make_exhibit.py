"""Make an exhibit: a benchmark, a run and a server's database as a revision of Snellen wrote them.

    python tests/museum/make_exhibit.py 8a5a1dde

Checks the revision out into a temporary worktree, runs it there with the packages of this environment, and writes
`tests/museum/REVISION.zip`. The run asks a small API on this machine, whose address is the same in all exhibits. Paths
of this machine become `/museum`.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from PIL import Image

PORT = 18710
MODEL = f"openai:m@http://127.0.0.1:{PORT}/v1"
PLACE = "/museum"
"""Stands in the exhibits for the folder in which they were made."""
COLOURS = ("red", "green", "blue", "white")
LEFT_OUT = ("report.html", ".lock")
MUSEUM = Path(__file__).parent
REPOSITORY = MUSEUM.parents[1]
EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a file in a zip

DATABASE = """
import sys
from datetime import datetime, timezone

try:
    from snellen_server.hosting.database import Database
    from snellen_server.hosting.features import migration_packages
    try:
        from snellen_server.hosting.database import migrate
    except ImportError:
        from snellen_server.hosting.migrating import migrate
except ImportError:
    from snellen.server.hosting.database import Database
    from snellen.server.hosting.features import migration_packages
    from snellen.server.hosting.migrating import migrate
from sqlalchemy import text

database = Database(f"sqlite:///{sys.argv[1]}")
migrate(database, migration_packages())
account = {"id": "a1", "name": "Ann", "created": datetime(2026, 1, 1, tzinfo=timezone.utc).isoformat(" ")[:19]}
with database.engine.begin() as connection:
    connection.execute(
        text(
            "INSERT INTO account (id, name, folded_name, is_admin, is_disabled, created)"
            " VALUES (:id, :name, 'ann', 1, 0, :created)"
        ),
        account,
    )
database.close()
"""


class _Api(BaseHTTPRequestHandler):
    """Replies `A` to everything."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def _reply(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self._reply({"object": "list", "data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "A"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 1}
        self._reply(
            {
                "id": "x",
                "object": "chat.completion",
                "model": "m",
                "choices": [choice],
                "usage": usage,
            }
        )


@contextmanager
def api(port: int = PORT) -> Iterator[None]:
    """Serve the API that the exhibits' runs asked."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def write_questions(folder: Path) -> Path:
    """Write four questions about the colours of tiny images, whose right answers are A, B, C and A."""
    (folder / "images").mkdir(parents=True)
    path = folder / "colours.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "question", "A", "B", "C", "answer"])
        for number, colour in enumerate(COLOURS):
            Image.new("RGB", (8, 8), colour).save(folder / "images" / f"{colour}.png")
            options = [colour, *(other for other in COLOURS if other != colour)][:3]
            shift = number % 3
            options = options[-shift:] + options[:-shift] if shift else options
            answer = "ABC"[options.index(colour)]
            table.writerow(
                [f"images/{colour}.png", "What colour is the picture?", *options, answer]
            )
    return path


def make_exhibit(revision: str, target: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        checkout, work = Path(temporary) / "checkout", Path(temporary) / "work"
        work.mkdir()
        git = ["git", "-C", str(REPOSITORY), "worktree"]
        subprocess.run([*git, "add", "--detach", str(checkout), revision], check=True)
        try:
            _run_revision(checkout, work)
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)
        _write_zip(work, target)


def _run_revision(checkout: Path, work: Path) -> None:
    paths = [
        checkout / "src",
        checkout / "packages/snellen-lab/src",
        checkout / "packages/snellen-server/src",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "SNELLEN_HOME": str(work / "home"),
    }
    write_questions(work)
    snellen = [sys.executable, "-m", "snellen"]
    run = ["run", MODEL, "./bench", "--name", "run"]
    with api():
        for words in (["build", "colours.csv", "--to", "bench"], run):
            subprocess.run([*snellen, *words], cwd=work, env=environment, check=True)
    (work / "server").mkdir()
    database = [sys.executable, "-c", DATABASE, str(work / "server/snellen.sqlite")]
    # The earliest revisions had no server.
    subprocess.run(database, cwd=work, env=environment, check=False)


def _write_zip(work: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for top in ("bench", "runs", "server"):
            for path in sorted((work / top).rglob("*")):
                if not path.is_file() or path.name in LEFT_OUT:
                    continue
                content = path.read_bytes().replace(str(work).encode(), PLACE.encode())
                name = path.relative_to(work).as_posix()
                archive.writestr(zipfile.ZipInfo(name, EARLIEST), content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        make_exhibit(name, MUSEUM / f"{name}.zip")
