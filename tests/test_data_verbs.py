"""What benchmarks are made from: where it lies, what of it is here, how it goes, and whether places still have it (maintenance/places.py)."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "maintenance"))

import places as place_script
import small
from snellen.catalogue.places import LOCK, KnownDataset, KnownFile, Lock, read_lock
from snellen.errors import DataError
from test_imports import loaded_by

COMMIT, NEWER = "c0ffee" * 6 + "dad5", "decade" * 6 + "beef"
ENTRY = """
name = "{name}"
title = "{name}"
formulation = "choice"
licence = "CC0"

[source]
reader = "table"
params = {{ file = "{name}.jsonl" }}
{places}"""


class Handler(SimpleHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append((self.command, path))
        status, headers, told = self.server.answers.get(path, (200, {}, None))
        if path.startswith("/no-head/"):
            status, path = (501, path) if self.command == "HEAD" else (200, path)
            headers, told = {"Content-Range": "bytes 0-0/77"}, b"x"
        if told is None and status == 200:
            told_file = self.server.folder / path.lstrip("/")
            status, told = (200, told_file.read_bytes()) if told_file.is_file() else (404, b"")
        body = told or b""
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Files of a folder, and other answers where these are named; it remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.answers: dict[str, tuple[int, dict[str, str], bytes | None]] = {}
        self.asked: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def dataset(self, repo: str, sha: str, revision: str = "", **more: Any) -> None:
        """An answer of the hub about a dataset."""
        siblings = [
            {
                "rfilename": "data/test-0.parquet",
                "size": 9,
                "lfs": {"size": 9, "sha256": "ab", "pointerSize": 1},
            }
        ]
        told = {
            "id": repo,
            "sha": sha,
            "siblings": siblings,
            "gated": False,
            "private": False,
            "tags": [],
            **more,
        }
        path = f"/api/datasets/{repo}{f'/revision/{revision}' if revision else ''}"
        self.answers[path] = (200, {"Content-Type": "application/json"}, json.dumps(told).encode())


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    server = Server(folder)
    with small.running(server):
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as server:
        yield server


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, a folder of data, a cache of the hub and a folder of suites of the test's own; the latter."""
    for name in ("home", "data", "suites"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"SNELLEN_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "suites"


def url_place(*files: str) -> str:
    return '\n[[source.places]]\nkind = "urls"\n' + "".join(
        f"\n[[source.places.files]]\n{file}\n" for file in files
    )


def hub_place(repo: str, more: str = "") -> str:
    return f'\n[[source.places]]\nkind = "hub"\nrepo = "{repo}"\nsplit = "test"\n{more}\n'


def entry(folder: Path, name: str, *declared: str) -> None:
    (folder / f"{name}.toml").write_text(ENTRY.format(name=name, places="\n".join(declared)))


def table(server: Server, name: str) -> str:
    """A served table of questions, as a file of an entry."""
    rows = [{**row, "question": f"{name}: {row['question']}"} for row in small.rows(4)]
    content = small.write(rows, server.folder / f"{name}.jsonl").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f'url = "{server.url}/{name}.jsonl"\nsize = {len(content)}\nsha256 = "{digest}"'


def archive(server: Server) -> str:
    """A served archive with the tables `first` and `second`."""
    with zipfile.ZipFile(server.folder / "both.zip", "w") as both:
        for name in ("first", "second"):
            both.write(small.write(small.rows(4), server.folder / f"{name}.jsonl"), f"{name}.jsonl")
    return f'url = "{server.url}/both.zip"\nunpack = true'


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    code, out, _ = small.command(capsys, *words, "--json")
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


# --- where benchmarks come from ----------------------------------------------------------------------------------


def test_sources_are_shown_in_the_order_in_which_they_are_tried(
    server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = '\n[[source.places]]\nkind = "by-hand"\nurl = "https://example.org/"\nwhat = "ask the authors"\n'
    entry(places, "stars", url_place(table(server, "stars")), hub_place("ILSVRC/imagenet-1k"), page)
    entry(places, "mine")
    where = "benchmark in ('stars', 'mine', 'eyechart/shape')"
    rows = listed(capsys, "list", "--sources", "--where", where)
    code, _, err = small.command(capsys, "list", "--where", "name == 'stars'")
    assert code == 2 and "--where: unknown fact 'name'; known: benchmark, dimension" in err
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("eyechart/shape", "built in"),
        ("mine", "own files"),
        ("stars", "urls"),
        ("stars", "hub"),
        ("stars", "by hand"),
    ]
    files, hub, by_hand = rows[2:]
    assert files["place"] == server.url.removeprefix("http://") and files["licence"] == "CC0"
    assert files["size"] == (server.folder / "stars.jsonl").stat().st_size
    assert (hub["place"], hub["gated"], hub["size"]) == ("ILSVRC/imagenet-1k", True, None)
    assert (by_hand["place"], by_hand["url"]) == ("ask the authors", "https://example.org/")
    _, out, _ = small.command(capsys, "list", "--sources", "--where", where)
    assert (
        "by hand: ask the authors (https://example.org/)" in out
        and "hub: ILSVRC/imagenet-1k" in out
    )
    assert server.asked == []


def test_sources_are_of_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = small.command(capsys, "list", "suites", "--sources")
    assert code == 2 and "--sources applies to benchmarks, not to suites" in err


def test_a_list_without_sources_reads_no_lock(places: Path) -> None:
    entry(places, "mine")
    code = "from snellen.cli import main\ntry:\n    main(['list'])\nexcept SystemExit as end:\n    assert not end.code"
    code += "\nfrom snellen.catalogue.places import source_lock\nassert not source_lock.cache_info().currsize"
    assert not loaded_by(code) & {"snellen.fetching.sources", "huggingface_hub"}


# --- what is here, and how it goes -------------------------------------------------------------------------------


def test_data_are_needed_until_all_of_their_benchmarks_are_built(
    server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = url_place(archive(server))
    entry(places, "first", both)
    entry(places, "second", both)
    small.command(capsys, "build", "first")
    rows = listed(capsys, "list", "data")
    assert [(row["name"], row["kind"], row["state"]) for row in rows] == [
        ("both.zip", "file", "needed"),
        ("both.zip-all", "unpacked", "needed"),
    ]
    assert all(row["benchmarks"] == ["first", "second"] and row["size"] > 0 for row in rows)
    small.command(capsys, "build", "second")
    assert {row["state"] for row in listed(capsys, "list", "data")} == {"unused"}


def test_data_that_no_benchmark_knows_are_shown(
    places: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data/files/0123").mkdir(parents=True)
    (tmp_path / "data/files/0123/left.zip.part").write_bytes(bytes(2000))
    entry(places, "mine")
    [row] = listed(capsys, "list", "data")
    assert (row["name"], row["size"], row["benchmarks"], row["state"]) == (
        "left.zip.part",
        2000,
        [],
        "unused",
    )
    _, out, _ = small.command(capsys, "list", "data")
    assert out.splitlines()[-1].startswith("2 KB in ") and out.endswith("; 2 KB are unused\n")


def test_what_another_benchmark_on_this_machine_needs_stays(
    server: Server, places: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = table(server, "first")
    entry(places, "first", url_place(shared))
    entry(places, "second", url_place(shared, table(server, "second")))
    entry(
        places, "absent", url_place(shared, table(server, "absent"))
    )  # is not fetched, and keeps nothing
    small.command(capsys, "fetch", "first", "second")
    code, out, _ = small.command(capsys, "fetch", "--remove", "first")
    assert code == 0 and out.splitlines()[1:] == ["nothing was removed"]
    assert (
        out.startswith("first.jsonl (") and "was not removed, because second also needs it" in out
    )
    code, out, _ = small.command(capsys, "fetch", "--remove", "second")
    assert (
        code == 0
        and out.startswith("removed second.jsonl (")
        and "was not removed, because first also needs it" in out
    )
    assert (
        out.splitlines()[-1].endswith(" freed") and not (tmp_path / "data/sources/second").exists()
    )
    assert "removed first.jsonl" in small.command(capsys, "fetch", "--remove", "first")[1]
    assert listed(capsys, "list", "data") == []


def test_what_was_built_stays_when_its_files_go(
    server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry(places, "first", url_place(archive(server)))
    assert small.command(capsys, "build", "first")[0] == 0
    assert small.command(capsys, "fetch", "--remove", "first")[0] == 0
    assert small.command(capsys, "run", "snellen:oracle", "first", "--offline")[0] == 0


def test_removing_does_not_copy(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = small.command(capsys, "fetch", "--remove", "--to", "stick", "eyechart")
    assert code == 2 and "use only one of them" in err


def cached(repo: str, commit: str, tmp_path: Path) -> Path:
    """A snapshot in the hub's cache, with a file of its own."""
    folder = tmp_path / "hub" / f"datasets--{repo.replace('/', '--')}"
    blob = folder / "blobs" / hashlib.sha256(commit.encode()).hexdigest()
    for path in (blob, folder / "refs/main", folder / "snapshots" / commit / "data/test-0.parquet"):
        path.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(bytes(3000))
    (folder / "refs/main").write_text(commit)
    (folder / "snapshots" / commit / "data/test-0.parquet").symlink_to(blob)
    return folder


def test_of_the_hubs_cache_only_the_benchmarks_dataset_goes(
    places: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry(places, "birds", hub_place("me/birds-today", 'before = ["me/birds"]'))
    gone, kept = cached("me/birds", COMMIT, tmp_path), cached("you/fish", NEWER, tmp_path)
    [row] = listed(capsys, "list", "data")
    assert (row["name"], row["kind"], row["size"]) == (f"me/birds@{COMMIT[:7]}", "hub", 3000)
    assert (row["benchmarks"], row["state"]) == (["birds"], "needed")
    code, out, _ = small.command(capsys, "fetch", "--remove", "birds")
    assert code == 0 and out.splitlines()[-1] == "3 KB freed"
    assert not gone.exists() and kept.exists()


def test_a_dataset_that_two_benchmarks_read_goes_with_both(
    places: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry(places, "birds", hub_place("me/birds"))
    entry(places, "nests", hub_place("me/birds"))
    folder = cached("me/birds", COMMIT, tmp_path)
    assert (
        "was not removed, because nests also needs it"
        in small.command(capsys, "fetch", "--remove", "birds")[1]
        and folder.exists()
    )
    assert (
        "3 KB freed" in small.command(capsys, "fetch", "--remove", "birds", "nests")[1]
        and not folder.exists()
    )


def test_what_is_copied_is_built_where_there_is_no_network(
    server: Server,
    places: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry(places, "stars", url_place(table(server, "stars")))
    declared = places / "stars.toml"
    declared.write_text(declared.read_text().replace('name = "stars"', 'name = "sky/stars"'))
    assert small.command(capsys, "fetch", "sky/stars", "--to", "stick")[0] == 0
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "elsewhere"))
    assert small.command(capsys, "build", "sky/stars", "--source", "stick", "--offline")[0] == 0


# --- offline -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [("fetch", "stars"), ("build", "stars"), ("run", "snellen:oracle", "stars")]
)
def test_offline_nothing_is_fetched(
    words: tuple[str, ...], server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry(places, "stars", url_place(table(server, "stars")))
    code, _, err = small.command(capsys, *words, "--offline")
    assert code == 2 and "stars.jsonl is not on this machine" in err and server.asked == []


def test_offline_what_is_here_is_used(
    server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry(places, "stars", url_place(table(server, "stars")))
    assert small.command(capsys, "fetch", "stars")[0] == 0
    server.asked.clear()
    assert small.command(capsys, "run", "snellen:oracle", "stars", "--offline")[0] == 0
    assert server.asked == []


# --- whether places still have it --------------------------------------------------------------------------------


def looked(
    capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code of `maintenance/places.py`, and what it says by place."""
    code = place_script.main([*words, "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {row["place"].rpartition("/")[2]: row for row in rows}


def test_every_address_is_looked_at_and_none_is_fetched(
    server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = {
        "/moved.zip": (301, {"Location": "/stars.jsonl"}, None),
        "/passing.zip": (302, {"Location": "/stars.jsonl?signed=1"}, None),
        "/signed.zip": (403, {}, b""),
        "/page.zip": (200, {"Content-Type": "text/html"}, b"sign in"),
        "/ill.zip": (500, {}, b""),
    }
    named = (
        "moved.zip",
        "passing.zip",
        "signed.zip",
        "page.zip",
        "ill.zip",
        "gone.zip",
        "no-head/odd.zip",
    )
    short = table(server, "short").replace("size = ", "size = 9")
    files = [table(server, "stars"), short, *(f'url = "{server.url}/{name}"' for name in named)]
    unreached = 'url = "http://127.0.0.1:9/off.zip"'
    page = f'\n[[source.places]]\nkind = "by-hand"\nurl = "{server.url}/gone.html"\nwhat = "ask"\n'
    entry(places, "stars", url_place(*files, unreached), page)
    code, rows = looked(capsys, "stars")
    assert code == 2
    assert {name: row["state"] for name, row in rows.items()} == {
        "stars.jsonl": "fine",
        "short.jsonl": "changed",
        "moved.zip": "moved",
        "passing.zip": "fine",
        "signed.zip": "gated",
        "page.zip": "changed",
        "ill.zip": "cannot be reached",
        "gone.zip": "vanished",
        "odd.zip": "fine",
        "off.zip": "cannot be reached",
        "gone.html": "vanished",
    }
    assert rows["moved.zip"]["found"] == f"to {server.url}/stars.jsonl"
    assert rows["passing.zip"]["found"].endswith(f"at {server.url}/stars.jsonl")
    assert rows["odd.zip"]["found"] == "77 bytes"
    # One byte, where the server does not answer to HEAD.
    assert {path for method, path in server.asked if method != "HEAD"} == {
        "/no-head/odd.zip",
        "/signed.zip",
    }


def test_a_place_that_has_moved_or_cannot_be_reached_is_no_failure(
    server: Server, places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = {
        "/moved.zip": (308, {"Location": "/stars.jsonl"}, None),
        "/ill.zip": (503, {}, b""),
    }
    table(server, "stars")
    entry(
        places,
        "stars",
        url_place(*(f'url = "{server.url}/{name}"' for name in ("moved.zip", "ill.zip"))),
    )
    code, rows = looked(capsys, "stars")
    assert code == 0
    assert [row["state"] for row in rows.values()] == ["moved", "cannot be reached"]


def test_datasets_are_looked_at_by_the_hubs_client(
    server: Server,
    places: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    for name in ("fine", "moved", "gated", "empty", "lost", "gone", "closed"):
        entry(
            places,
            name,
            hub_place(f"me/{name}", f'revision = "{COMMIT}"' if name in ("fine", "lost") else ""),
        )
    server.dataset("me/fine", COMMIT, COMMIT)
    server.dataset("me/fine", NEWER)
    server.dataset("me/moved", NEWER, id="you/moved")
    server.dataset("me/gated", NEWER, gated="manual")
    server.dataset("me/empty", NEWER, siblings=[])
    server.answers[f"/api/datasets/me/lost/revision/{COMMIT}"] = (
        404,
        {"X-Error-Code": "RevisionNotFound"},
        b"{}",
    )
    server.answers["/api/datasets/me/gone"] = (404, {"X-Error-Code": "RepoNotFound"}, b"{}")
    server.answers["/api/datasets/me/closed"] = (403, {"X-Error-Code": "GatedRepo"}, b"{}")
    code, rows = looked(capsys, "fine", "moved", "gated", "empty", "lost", "gone", "closed")
    assert code == 2
    assert {name.partition("@")[0]: row["state"] for name, row in rows.items()} == {
        "fine": "fine",
        "moved": "moved",
        "gated": "gated",
        "empty": "vanished",
        "lost": "vanished",
        "gone": "vanished",
        "closed": "gated",
    }
    assert rows[f"fine@{COMMIT}"]["found"] == f"commit {COMMIT[:7]}, main is at {NEWER[:7]}"
    assert rows["moved"]["found"] == f"to you/moved, commit {NEWER[:7]}"
    assert rows["empty"]["found"] == "it has no file called data/test-*.parquet"


def test_the_lock_is_written_again_with_what_is_as_it_should_be(
    server: Server,
    places: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    server.dataset("me/birds", COMMIT, cardData={"license": "mit"})
    small.write(small.rows(4), server.folder / "new.jsonl")
    entry(
        places,
        "stars",
        url_place(f'url = "{server.url}/new.jsonl"', table(server, "short")),
        hub_place("me/birds"),
    )
    short = KnownFile(size=5, md5="ee", rests_on="somebody; not reached")
    other = KnownFile(size=7, rests_on="nobody; not reached")
    known = Lock(
        files={
            f"{server.url}/new.jsonl": KnownFile(md5="ff", rests_on="somebody; not reached"),
            f"{server.url}/short.jsonl": short,
            "https://example.org/other.zip": other,
        }
    )
    (tmp_path / "own.lock").write_text(place_script.lock_text(known, "# Mine."))
    code, _ = looked(capsys, "stars", "--lock", "own.lock", "--write")
    assert code == 2
    # One file has another size: what is known of it stays, for somebody to look into.
    found = read_lock(Path("own.lock"))
    assert found.files[f"{server.url}/short.jsonl"] == short
    assert found.files["https://example.org/other.zip"] == other
    new = found.files[f"{server.url}/new.jsonl"]
    assert (new.size, new.md5) == ((server.folder / "new.jsonl").stat().st_size, "ff")
    assert new.rests_on == "somebody; reached" and new.date
    birds = found.hub["me/birds"]
    assert (birds.commit, birds.licence, birds.rests_on) == (COMMIT, "mit", "reached")
    assert birds.files == {"data/test-0.parquet": KnownFile(size=9, sha256="ab")}
    assert Path("own.lock").read_text().startswith("# Mine.\n\n[files.")
    server.dataset(
        "me/birds", COMMIT, COMMIT, siblings=[{"rfilename": "data/test-0.parquet", "size": 10}]
    )
    _, rows = looked(capsys, "stars", "--lock", "own.lock")
    assert rows["birds"]["found"] == "other bytes than known in data/test-0.parquet"


def test_places_are_not_looked_at_offline(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry(places, "mine")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="HF_HUB_OFFLINE"):
        place_script.main(["mine"])


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("eyechart",), "missing option '--source'"),
        (("--source", "."), "missing argument 'WHAT...'"),
    ],
)
def test_verify_says_what_is_missing(
    words: tuple[str, ...], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = small.command(capsys, "verify", *words)
    assert code == 2 and fault in " ".join(err.split())


# --- the lock ----------------------------------------------------------------------------------------------------


def test_the_lock_comes_out_byte_for_byte_when_written_again() -> None:
    text = LOCK.read_text("utf-8")
    assert place_script.lock_text(read_lock(LOCK), text.splitlines()[0]) == text


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=6)
known_files = st.builds(KnownFile, size=st.integers(0, 1 << 50), sha256=texts, licence=texts)
known_datasets = st.builds(
    KnownDataset, commit=texts, gated=st.booleans(), files=st.dictionaries(texts, known_files)
)


@given(
    st.builds(
        Lock, files=st.dictionaries(texts, known_files), hub=st.dictionaries(texts, known_datasets)
    )
)
def test_a_lock_that_is_written_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, known: Lock
) -> None:
    path = tmp_path_factory.getbasetemp() / "known.lock"
    path.write_text(place_script.lock_text(known), "utf-8")
    assert read_lock(path) == known
