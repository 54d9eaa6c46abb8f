"""Whatever a client without a key sends to `snellen view` and `snellen serve`, nothing happens.

Every address is tried, as the routes list them, so a new one is covered by itself.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")

import small
import snellen as sn
from served import ServedProcess, served
from servers import Server, start_server
from snellen.viewing import running
from snellen.viewing.library import RunLibrary
from snellen.viewing.local_pages import LocalPages
from view_runs import serving

EVIL = "from pathlib import Path\nPath({marker!r}).touch()\nclass M:\n    def generate(self, *_): ...\n"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
SENDERS: tuple[dict[str, str], ...] = (
    {},
    {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
    {"host": "evil.example"},
    {
        "cookie": "snellen_session=guess; snellen_visitor=guess.guess",
        "authorization": "Bearer snl_guess",
    },
)
SECONDS = 30
"""For one answer. The slowest page takes less than one on an idle machine; a forecast without end took minutes."""


def hostile_fields(evil: Path, api: str) -> list[dict[str, str]]:
    """Parameters that do harm wherever one of their names means something."""
    code = {
        "model": f"{evil}:M",
        "judge": f"{evil}:M",
        "benchmarks": f"{evil} {evil.parent}",
        "protocols": f"{evil}:M",
        "name": f"../../{evil.stem}",
        "run": str(evil.parent),
        "id": str(evil),
        "of": f"{evil}:M",
        "in": str(evil.parent),
        "sample": "../" * 8 + "etc/passwd",
        "next": "//evil.example",
        "file": str(evil),
        "image": str(evil),
        "question": "What is it?",
        "token": "guess",
        "look": "1",
    }
    dotted = {**code, "model": f"{evil.parent.name}.{evil.stem}:M"}
    asking = {**code, "model": f"openai:any@{api}", "benchmarks": "eyechart/colour"}
    endless = {
        **asking,
        "model": "snellen:tiny",
        "protocols": "instability?m=100000000",
        **dict.fromkeys(
            ("page", "turn", "limit", "count", "days", "seed", "first", "battles"), "9" * 30
        ),
        "q": "a" * 5000,
        "sort": "(" * 500,
    }
    return [code, dotted, asking, endless]


def filled(path: str, value: str) -> str:
    """A route's path with a value for each of its parameters."""
    return re.sub(r"\{[^}]*\}", value, path)


def addresses(paths: Iterable[str]) -> list[str]:
    values = ("1", "..%2f..%2fetc%2fpasswd", "9" * 40)
    return sorted({filled(path, value) for path in paths for value in values})


def files_below(*folders: Path) -> dict[str, tuple[int, float]]:
    """Size and time of every file but SQLite's: the index of the pages grows by itself, and rows are looked at."""
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and ".sqlite" not in path.name:
                found[str(path)] = (path.stat().st_size, path.stat().st_mtime)
    return found


def children_of(process: int) -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == process:
            found.add(int(status.parent.name))
    return found


def send_all(
    server: ServedProcess, paths: Sequence[str], fields: Sequence[dict[str, str]]
) -> Iterator[tuple[str, str, dict[str, str], httpx.Response]]:
    """The answer to each method, address, sender and set of parameters."""
    with httpx.Client(
        base_url=server.url, trust_env=False, verify=False, timeout=SECONDS
    ) as client:
        for method, path, sender in product(METHODS, paths, SENDERS):
            if sender and method in ("PATCH", "DELETE", "OPTIONS"):
                continue  # no address takes them
            for sent in fields:
                body: dict[str, Any] = {"data": sent} if method in CHANGING else {}
                answer = client.request(method, path, params=sent, headers=sender, **body)
                client.cookies.clear()
                yield method, path, sender, answer
                if sender or method not in ("GET", "POST"):
                    break  # who asks matters there, not for what


def check_refusal(method: str, path: str, sender: dict[str, str], answer: httpx.Response) -> None:
    what = f"{method} {path} {sender}: {answer.status_code} {answer.text[:200]}"
    assert answer.status_code < 500 or answer.status_code == 503, what
    if method in CHANGING:
        assert answer.status_code >= 400, what
    if "host" in sender:
        assert answer.status_code == 400, what
    assert "evil.example" not in answer.headers.get("location", ""), what


@pytest.fixture
def api() -> Iterator[Server]:
    with start_server() as server:
        yield server


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    folder = tmp_path / "evil_package"
    folder.mkdir()
    code = EVIL.format(marker=str(tmp_path / "imported"))
    (folder / "__init__.py").write_text(code)
    (folder / "evil.py").write_text(code)
    return folder / "evil.py"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    benchmark = small.built(small.rows(4), tmp_path / "made", name="animals")
    folder = tmp_path / "runs"
    sn.evaluate("snellen:always-a", str(benchmark.folder), "vanilla", runs=folder, name="one")
    return folder


@pytest.mark.parametrize("flags", [(), ("--read-only",)])
def test_a_stranger_does_nothing_through_the_pages_of_runs(
    tmp_path: Path, runs: Path, evil: Path, api: Server, flags: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    pages = LocalPages(RunLibrary([runs], tmp_path / "other.sqlite"))
    paths = addresses(route.path for route in pages.routes())
    assert "/start" in paths

    log = tmp_path / "log"
    log.mkdir()
    words = ("view", runs, *flags)
    environment = {"SNELLEN_HOME": str(home), "PYTHONPATH": str(tmp_path)}
    with served(*words, folder=log, **environment) as server:
        while "always-a" not in httpx.get(server.url, trust_env=False).text:
            time.sleep(0.1)  # until the run is indexed
        before = files_below(runs, home, evil.parent)
        for method, path, sender, answer in send_all(server, paths, hostile_fields(evil, api.url)):
            check_refusal(method, path, sender, answer)
            assert evil.stem not in answer.text or path != "/start", "what was typed is not read"
            assert not (tmp_path / "imported").exists(), f"{method} {answer.url}"
        assert files_below(runs, home, evil.parent) == before
        assert not children_of(server.process.pid)
    assert not api.seen() and not api.seen("/v1/models")


@contextmanager
def owned_pages(tmp_path: Path, runs: Path) -> Iterator[tuple[ServedProcess, httpx.Client]]:
    """The pages of runs, and a client that has opened the address that the command printed."""
    log = tmp_path / "log"
    log.mkdir()
    environment = {"SNELLEN_HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    with (
        served("view", runs, folder=log, **environment) as server,
        httpx.Client(trust_env=False, follow_redirects=True, timeout=120) as client,
    ):
        client.get(server.address)
        yield server, client


def test_checking_a_model_runs_none_of_its_code_even_for_who_may_start_runs(
    tmp_path: Path, runs: Path, evil: Path
) -> None:
    with owned_pages(tmp_path, runs) as (server, client):
        for model in (f"{evil}:M", "evil_package.evil:M"):
            typed = {"model": model, "benchmarks": "eyechart/colour", "limit": "2", "look": "1"}
            page = client.get(f"{server.url}/start", params=typed)
            assert "2 requests to send" in page.text
            assert not (tmp_path / "imported").exists()
            elsewhere = {"sec-fetch-site": "cross-site"}
            page = client.get(f"{server.url}/start", params=typed, headers=elsewhere)
            assert model not in page.text


def test_what_a_run_would_ask_is_counted_within_bounds(
    tmp_path: Path, runs: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FORECAST_TIMEOUT_SECONDS", 3)
    before = children_of(os.getpid())
    with serving(runs, index=tmp_path / "index.sqlite", may_change=True) as client:
        typed = {
            "model": "snellen:tiny",
            "benchmarks": "eyechart/colour",
            "protocols": "instability?m=100000000",
            "look": "1",
        }
        page = client.get("/start", params=typed, timeout=120)
        assert "it has more requests than can be counted in 3 s" in page.text
        assert children_of(os.getpid()) <= before


@pytest.mark.parametrize("name", ["x" * 1900, "~nobody-here/x"])
def test_a_name_that_no_file_can_have_is_refused_on_the_page(
    tmp_path: Path, runs: Path, name: str
) -> None:
    with owned_pages(tmp_path, runs) as (server, client):
        for model, benchmark in ((f"{name}.py:M", "eyechart/colour"), ("snellen:oracle", name)):
            typed = {"model": model, "benchmarks": benchmark, "look": "1"}
            page = client.get(f"{server.url}/start", params=typed)
            assert page.status_code == 200
            assert "requests to send" not in page.text
