"""Files that fetch themselves, from real servers on loopback that have faults."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from endless_server import endless
from place_servers import (
    Blob,
    Faults,
    FileServer,
    HubServer,
    PlaceServer,
    Repo,
    blobs,
    drawn,
    secure_file_server,
)
from snellen.errors import DataError
from snellen.fetching.archives import extract_archive
from snellen.fetching.download import Content, FetchError, fetch_file
from snellen.fetching.hub import fetch_dataset

CONTENT = bytes(range(256)) * 2_000
OTHER = CONTENT[::-1]
KNOWN = Content(len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
MD5 = Content(md5=hashlib.md5(CONTENT).hexdigest())
FILES = {"data/a.parquet": CONTENT, "README.md": b"A data set.\n" * 20, "data/b.parquet": OTHER}
PATTERNS = ("data/*.parquet", "README.md")
NAME = "owner/name"


def seeds(quick: int) -> list[Any]:
    """Two hundred, all but some of them for `make slow`."""
    return [
        pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(200)
    ]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snellen.fetching.download.MIN_PAUSE_SECONDS", 0.001)


def point_at(hub: HubServer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
    )


def data_gets(server: PlaceServer, name: str) -> list[str | None]:
    """The ranges of the requests for a file's bytes, in order."""
    return [one.range for one in server.log if one.method == "GET" and one.path.endswith(name)]


def is_right(folder: Path) -> bool:
    return all((folder / name).read_bytes() == content for name, content in FILES.items())


# --- a file at an address ----------------------------------------------------------------------------------------


def test_a_file_is_fetched_once_and_what_lies_there_is_checked(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    with FileServer({"a.bin": CONTENT}) as server:
        assert fetch_file([f"{server.url}/a.bin"], target, KNOWN)
        assert target.read_bytes() == CONTENT
        assert not fetch_file([f"{server.url}/a.bin"], target, KNOWN)
        assert len(server.log) == 1
        target.write_bytes(OTHER)
        assert fetch_file([f"{server.url}/a.bin"], target, MD5)
    assert target.read_bytes() == CONTENT and (tmp_path / "a.bin.wrong").read_bytes() == OTHER


@pytest.mark.parametrize("ranges", [True, False])
def test_what_broke_off_goes_on(ranges: bool, tmp_path: Path) -> None:
    with FileServer({"a.bin": CONTENT}, ranges=ranges, faults=Faults("cut", after=1000)) as server:
        fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", KNOWN)
        sent = server.sent()
    assert (tmp_path / "a.bin").read_bytes() == CONTENT
    assert sent == len(CONTENT) + (0 if ranges else 1000)


def test_a_file_that_changed_meanwhile_is_not_glued_to_what_was_there(tmp_path: Path) -> None:
    faults = (Faults("cut", after=1000), Faults("vanish", times=None))
    with FileServer({"a.bin": CONTENT}, faults=faults) as server:
        with pytest.raises(FetchError, match="no longer exists"):
            fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", Content())
        assert (tmp_path / "a.bin.part").stat().st_size == 1000
        server.faults = ()
        server.files = blobs({"a.bin": OTHER})
        fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", Content())
    assert (tmp_path / "a.bin").read_bytes() == OTHER


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (
            Faults("flipped", times=None),
            "in two downloads: its SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}",
        ),
        (Faults("short", times=None), "it has [0-9,]+ bytes, not 512,000"),
        (Faults("html", times=None), "returned a web page instead of data; sign in to the proxy"),
        (
            Faults("vanish", times=None),
            r"no longer exists \(404\); give files that you already have with sn\.build\(NAME, source=FOLDER\)",
        ),
        (
            Faults("storm", times=None, retry_after="0"),
            r"has rate-limited this client \(429, too many requests\)",
        ),
        (
            Faults("storm", times=None, retry_after="3600"),
            r"\(429, too many requests\); try again later, in 3,600 sec",
        ),
        (Faults("error", times=None, status=503), "answers 503"),
        (Faults("reset", after=0, times=None), "cannot be reached"),
    ],
)
def test_a_place_that_does_not_give_it_is_one_line(
    faults: Faults, said: str, tmp_path: Path
) -> None:
    with (
        FileServer({"a.bin": CONTENT}, faults=faults) as server,
        pytest.raises(FetchError, match=said) as caught,
    ):
        fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", KNOWN)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a.bin").exists()


def test_a_mirror_is_asked_when_the_first_address_fails(tmp_path: Path) -> None:
    with FileServer({"other.bin": CONTENT}) as server:
        fetch_file([f"{server.url}/a.bin", f"{server.url}/other.bin"], tmp_path / "a.bin", KNOWN)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_places_that_cannot_be_reached_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = secure_file_server({"a.bin": CONTENT})
    with (
        server,
        pytest.raises(
            FetchError, match=r"the certificate of 127.0.0.1:\d+ is not trusted .* SSL_CERT_FILE"
        ),
    ):
        fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", KNOWN)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(FetchError, match=r"cannot resolve nowhere\.invalid"):
        fetch_file(["http://nowhere.invalid/a.bin"], tmp_path / "a.bin", KNOWN)
    with (
        FileServer({"a.bin": Blob.vast(10**15)}, dates=False) as server,
        pytest.raises(
            DataError,
            match=r"needs 1,000.0 TB more, but .* free; free some space, or set another folder",
        ),
    ):
        fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", Content())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with FileServer({"a.bin": CONTENT}) as server:
        with pytest.raises(FetchError, match="is not on this machine, and HF_HUB_OFFLINE is set"):
            fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", KNOWN)
        assert not server.log


def test_a_secret_goes_to_the_first_server_alone(tmp_path: Path) -> None:
    with (
        FileServer({"a.bin": CONTENT}) as other,
        FileServer({}, redirects={"/a.bin": (302, f"{other.url}/a.bin")}) as first,
    ):
        fetch_file([f"{first.url}/a.bin"], tmp_path / "a.bin", KNOWN, token="secret")
        assert [one.authorization for one in first.log] == ["Bearer secret"]
        assert [one.authorization for one in other.log] == [None]


@pytest.mark.parametrize("seed", seeds(10))
def test_at_the_end_are_the_right_bytes_or_one_line(seed: int, tmp_path: Path) -> None:
    with FileServer({"a.bin": CONTENT}, faults=drawn(seed)) as server:
        try:
            fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", KNOWN)
        except FetchError as error:
            assert "\n" not in str(error)
            assert not (tmp_path / "a.bin").exists()
            server.faults = ()
            fetch_file([f"{server.url}/a.bin"], tmp_path / "a.bin", KNOWN)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


FETCH = """
import sys
from pathlib import Path
from snellen.fetching.download import Content
from snellen.fetching.download import fetch_file
fetch_file([sys.argv[1]], Path(sys.argv[2]), Content(sha256=sys.argv[3]))
"""


def start(server: FileServer, target: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, f"{server.url}/a.bin", str(target), KNOWN.sha256]
    )


def test_a_killed_process_goes_on_where_it_was(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    with FileServer({"a.bin": CONTENT}, faults=Faults("slow", seconds=30)) as server:
        process = start(server, target)
        while not (
            target.with_name("a.bin.part").exists()
            and target.with_name("a.bin.part").stat().st_size
        ):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        here = target.with_name("a.bin.part").stat().st_size
        server.faults = ()
        fetch_file([f"{server.url}/a.bin"], target, KNOWN)
        assert data_gets(server, "a.bin")[-1] == f"bytes={here}-"
    assert target.read_bytes() == CONTENT


def test_of_two_processes_one_fetches(tmp_path: Path) -> None:
    with FileServer({"a.bin": CONTENT}, faults=Faults("slow", times=None, seconds=1)) as server:
        processes = [start(server, tmp_path / "a.bin") for _ in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
        assert server.sent() == len(CONTENT)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


# --- a dataset of the hub ----------------------------------------------------------------------------------------


def test_a_dataset_lies_in_the_hubs_own_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import snapshot_download

    with HubServer({NAME: Repo(FILES)}) as hub:
        point_at(hub, tmp_path, monkeypatch)
        folder, commit = fetch_dataset((NAME,), PATTERNS)
        assert is_right(folder) and commit == hub.commit(NAME)
        before = hub.sent("GET .*(store|lfs|resolve)")
        theirs = snapshot_download(NAME, repo_type="dataset", local_files_only=True)
        assert Path(theirs) == folder
        assert (
            Path(snapshot_download(NAME, repo_type="dataset", allow_patterns=list(PATTERNS)))
            == folder
        )
        assert hub.sent("GET .*(store|lfs|resolve)") == before
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetch_dataset((NAME,), PATTERNS, commit) == (folder, commit)


def test_what_another_program_fetched_is_used_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import snapshot_download

    with HubServer({NAME: Repo(FILES)}) as hub:
        point_at(hub, tmp_path, monkeypatch)
        folder = Path(snapshot_download(NAME, repo_type="dataset"))
        asked = len(data_gets(hub, "a.parquet"))
        assert fetch_dataset((NAME,), PATTERNS)[0] == folder
        assert len(data_gets(hub, "a.parquet")) == asked
        blob = (folder / "data/a.parquet").resolve()
        blob.write_bytes(OTHER)
        assert is_right(fetch_dataset((NAME,), PATTERNS)[0])
        blob.write_bytes(OTHER)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        FetchError,
        match=r"a.parquet has unexpected content: its SHA-256 is \w{64}, not \w{64}",
    ):
        fetch_dataset((NAME,), PATTERNS)


@pytest.mark.parametrize(
    ("repo", "token", "said"),
    [
        (
            Repo(FILES, state="gated"),
            "",
            "is gated; accept its terms at http.*/owner/name, then run `hf auth login`",
        ),
        (
            Repo(FILES, state="gated", tokens=("one",)),
            "two",
            "is gated; your login does not have access; request it",
        ),
        (
            Repo(FILES, state="private"),
            "",
            "no dataset owner/name at .*: it may be private, deleted or",
        ),
        (
            Repo(FILES, state="gone"),
            "",
            "no dataset owner/name at .*: it may be private, deleted or",
        ),
        (
            Repo(FILES, rate_limited=10**6, retry_after=3600),
            "",
            "429, too many requests.; try again in 3,600 seconds",
        ),
        (
            Repo({"other.txt": b"a"}),
            "",
            "owner/name has no file named data/.*; has its layout changed",
        ),
        (
            Repo({**FILES, "data/c.parquet": Blob.vast(10**15)}),
            "",
            "the dataset owner/name needs 1,000.0 TB more, but",
        ),
    ],
)
def test_a_dataset_that_is_not_given_is_one_line(
    repo: Repo, token: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with HubServer({NAME: repo}) as hub, pytest.raises(DataError, match=said) as caught:
        point_at(hub, tmp_path, monkeypatch)
        fetch_dataset((NAME,), PATTERNS)
    assert "\n" not in str(caught.value) and (not token or token not in str(caught.value))
    assert not hub.sent("GET .*parquet")


@pytest.mark.parametrize("coded", [True, False])
def test_a_login_opens_what_is_gated(
    coded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "one")
    with HubServer({NAME: Repo(FILES, state="gated", tokens=("one",))}, coded=coded) as hub:
        point_at(hub, tmp_path, monkeypatch)
        assert is_right(fetch_dataset((NAME,), PATTERNS)[0])
        assert not any(one.authorization for one in hub.log if one.port == "store")


def test_a_moved_dataset_is_followed_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks

    said: list[str] = []
    with (
        HubServer({"old/name": Repo(FILES, moved_to=NAME), NAME: Repo(FILES)}) as hub,
        using_callbacks(UserCallbacks(said.append)),
    ):
        point_at(hub, tmp_path, monkeypatch)
        assert is_right(fetch_dataset(("old/name",), PATTERNS)[0])
    assert said[0] == "old/name has been renamed to owner/name" and re.match(
        r"fetching 1.0 MB of old/name from http", said[1]
    )


def test_a_copy_under_an_earlier_name_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HubServer({"old/name": Repo(FILES)}) as hub:
        point_at(hub, tmp_path, monkeypatch)
        folder, commit = fetch_dataset(("old/name",), PATTERNS)
        assert fetch_dataset((NAME, "old/name"), PATTERNS, commit) == (folder, commit)


@pytest.mark.parametrize("seed", seeds(10))
def test_a_dataset_is_right_or_one_line(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HubServer({NAME: Repo(FILES)}, faults=drawn(seed)) as hub:
        point_at(hub, tmp_path, monkeypatch)
        try:
            folder, _ = fetch_dataset((NAME,), PATTERNS)
        except FetchError as error:
            assert "\n" not in str(error)
            hub.faults = ()
            folder, _ = fetch_dataset((NAME,), PATTERNS)
        assert is_right(folder)


# --- archives ----------------------------------------------------------------------------------------------------


def pack(path: Path, files: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in files:
                archive.writestr(name, name)
        return path
    inner = path.parent / "inner"
    inner.write_text("x")
    with tarfile.open(path, "w:gz") as archive:
        for name in files:
            archive.add(inner, name)
    return path


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tgz"])
def test_what_is_asked_for_is_unpacked_once(name: str, tmp_path: Path) -> None:
    archive = pack(tmp_path / "digest" / name, ["val/1.jpg", "val/2.jpg", "train/3.jpg"])
    folder = extract_archive(archive, ["val/*"], tmp_path / "unpacked")
    assert sorted(path.name for path in folder.rglob("*.jpg")) == ["1.jpg", "2.jpg"]
    made = folder.stat().st_mtime_ns
    assert (
        extract_archive(archive, ["val/*"], tmp_path / "unpacked") == folder
        and folder.stat().st_mtime_ns == made
    )
    assert len([*extract_archive(archive, (), tmp_path / "unpacked").rglob("*.jpg")]) == 3
    with pytest.raises(DataError, match=r"matches test/\*; check that it is the right archive"):
        extract_archive(archive, ["test/*"], tmp_path / "unpacked")


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_nothing_is_unpacked_outside_its_folder(name: str, tmp_path: Path) -> None:
    archive = pack(tmp_path / "digest" / name, ["../../out.txt", "in.txt"])
    try:
        extract_archive(archive, (), tmp_path / "unpacked" / "deep")
    except DataError as error:
        assert "cannot unpack" in str(error)
    assert not [
        path
        for path in tmp_path.rglob("out.txt")
        if path.parent in (tmp_path, tmp_path / "unpacked")
    ]


def test_a_broken_archive_is_one_line(tmp_path: Path) -> None:
    archive = pack(tmp_path / "digest" / "a.zip", ["1.txt"] * 1)
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(DataError, match=r"is not an archive of a supported format|cannot unpack"):
        extract_archive(archive, (), tmp_path / "unpacked")
    assert not [*(tmp_path / "unpacked").iterdir()]


def bomb(path: Path) -> Path:
    """An archive of a few KB with a member of 20 MB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    member = path.parent / "member"
    member.write_bytes(b"x" * 20_000_000)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(member, "member")
    elif ".tar" in path.name:
        with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
            archive.add(member, "member")
    else:
        path.write_bytes(gzip.compress(member.read_bytes()))
    member.unlink()
    return path


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tar.xz", "a.jsonl.gz"])
def test_an_archive_unpacks_within_limits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = bomb(tmp_path / "digest" / name)
    monkeypatch.setattr("snellen.fetching.archives.UNPACKED_BYTES", 10e6)
    monkeypatch.setattr("snellen.fetching.archives.UNPACKED_TIMES", 10)
    with pytest.raises(DataError, match=rf"{name} is more than 10.0 MB; .*SNELLEN_LIMITS=10"):
        extract_archive(archive, (), tmp_path / "unpacked")
    assert not [*(tmp_path / "unpacked").iterdir()]
    monkeypatch.setenv("SNELLEN_LIMITS", "10")
    folder = extract_archive(archive, (), tmp_path / "unpacked")
    assert [path.stat().st_size for path in folder.iterdir()] == [20_000_000]


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_an_archive_may_have_so_many_members(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(tmp_path / "digest" / name, ["1.txt", "2.txt", "3.txt"])
    monkeypatch.setattr("snellen.fetching.archives.MAX_MEMBERS", 2)
    with pytest.raises(DataError, match="contains more than 2 files"):
        extract_archive(archive, (), tmp_path / "unpacked")


def test_a_file_of_unknown_size_is_fetched_within_limits(tmp_path: Path) -> None:
    with (
        endless() as server,
        pytest.raises(FetchError, match=r"/a.bin has more than 3.0 MB; if you trust the file"),
    ):
        fetch_file([f"{server}/a.bin"], tmp_path / "a.bin", Content(), most=3e6)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".lock"]


def test_a_file_of_known_size_is_not_read_far_beyond_it(tmp_path: Path) -> None:
    with (
        endless() as server,
        pytest.raises(FetchError, match="has unexpected content: it is larger than 1,000"),
    ):
        fetch_file([f"{server}/a.bin"], tmp_path / "a.bin", Content(1000))


def test_a_folder_that_others_filled_is_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.bin").write_bytes(CONTENT)

    def refused(*asked: object, **more: object) -> None:
        raise PermissionError(13, "Read-only file system")

    monkeypatch.setattr("snellen.fetching.download._locked", refused)
    assert not fetch_file(["http://127.0.0.1:9/a.bin"], tmp_path / "a.bin", KNOWN)


def test_a_locked_commit_in_the_cache_is_used_where_the_hub_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks

    with HubServer({NAME: Repo(FILES)}) as hub:
        point_at(hub, tmp_path, monkeypatch)
        folder, commit = fetch_dataset((NAME,), PATTERNS)
    said: list[str] = []
    with using_callbacks(UserCallbacks(said.append)):
        assert fetch_dataset((NAME,), PATTERNS, commit) == (folder, commit)
        with pytest.raises(FetchError, match="cannot be reached"):
            fetch_dataset((NAME,), PATTERNS)
    assert "cannot be reached" in said[0] and said[0].endswith(
        "using the files of this commit in the hub's cache"
    )


def test_a_bar_of_a_file_whose_size_nobody_says_is_one_bar() -> None:
    from rich.console import Console

    from snellen.cli.bars import FetchBar

    shown = io.StringIO()
    bar = FetchBar(Console(file=shown, force_terminal=True, width=100))
    bar.show("a.bin", 1_000, 0)
    first = bar._bar
    bar.show("a.bin", 2_000, 0)
    assert bar._bar is first
    bar.show("b.bin", 10, 20)
    assert bar._bar not in (None, first) and bar._file == "b.bin"
    bar.show("b.bin", 20, 20)
    assert bar._bar is None
    bar.end()


def test_an_archive_that_the_disk_cannot_take_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pack(tmp_path / "digest" / "a.zip", ["1.txt"])

    def full(*asked: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)
    with pytest.raises(DataError, match="No space left on device; free some space"):
        extract_archive(archive, (), tmp_path / "unpacked")
    assert not [*(tmp_path / "unpacked").iterdir()]
