"""Twenty hard cases of fetching, written before anybody had looked how the code does them; numbered as there.

What is to be at the end is the right bytes, or one line that says what happened and what to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from huggingface_hub import hf_hub_download
from huggingface_hub.utils import http_backoff

from place_servers import (
    Blob,
    Faults,
    FileServer,
    HubServer,
    ModelScopeServer,
    Repo,
    secure_file_server,
)
from snellen.errors import DataError
from snellen.fetching.download import BLOCK_BYTES, fetch_file
from snellen.fetching.hub import fetch_dataset
from snellen.fetching.modelscope import fetch_from_modelscope
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from test_fetching import CONTENT, FILES, KNOWN, NAME, PATTERNS, is_right, point_at
from test_modelscope import speak_to

FIVE = {f"data/{letter}.parquet": letter.encode() * 20_000 for letter in "abcde"}
DATA = ("data/*",)
DIGEST = r"[0-9a-f]{64}"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snellen.fetching.download.MIN_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr("snellen.fetching.hub.MIN_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_TOKEN", "")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer({NAME: Repo(FILES)}) as server:
        point_at(server, tmp_path, monkeypatch)
        yield server


def line(fetch: Callable[[], object]) -> str:
    """The one line by which fetching ends without data."""
    with pytest.raises(DataError) as caught:
        fetch()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fetched(files: dict[str, bytes], patterns: tuple[str, ...] = DATA, revision: str = "") -> bool:
    """Whether a dataset gives the right bytes, and nothing else of the patterns."""
    folder, _ = fetch_dataset((NAME,), patterns, revision)
    return {name: (folder / name).read_bytes() for name in files} == files


def blob(cache: Path, content: bytes) -> Path:
    return cache / "datasets--owner--name" / "blobs" / hashlib.sha256(content).hexdigest()


def stored(hub: HubServer) -> list[str | None]:
    """The ranges of all requests to the store."""
    return [one.range for one in hub.log if one.port == "store"]


# --- the hub: who may read ---------------------------------------------------------------------------------------


def test_21_who_asked_for_access_is_told_to_wait(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "mine")
    hub[NAME] = Repo(FILES, state="gated", pending=("mine",))
    said = line(lambda: fetch_dataset((NAME,), PATTERNS))
    assert "owner/name is gated, and your request for access is still pending" in said
    assert "accept" not in said and "hf auth login" not in said and "mine" not in said
    assert not stored(hub)


def test_22_an_expired_token_is_named(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "old-secret")
    hub.expired = ("old-secret",)
    said = line(lambda: fetch_dataset((NAME,), PATTERNS))
    assert "token" in said and "`hf auth login`" in said and "unset HF_TOKEN" in said
    assert "no dataset" not in said and "old-secret" not in said


@pytest.mark.parametrize("pinned", [False, True])
def test_23_terms_that_are_withdrawn_in_the_middle(pinned: bool, hub: HubServer) -> None:
    hub[NAME] = Repo(FIVE)
    revision, ended = hub.commit(NAME) if pinned else "", list[str]()

    def withdraw(name: str, here: int, size: int) -> None:
        ended.extend([name] if here == size else [])
        if len(ended) == 2:
            hub[NAME] = Repo(FIVE, state="gated")

    with using_callbacks(UserCallbacks(progress=withdraw)):
        said = line(lambda: fetch_dataset((NAME,), DATA, revision))
    assert "owner/name is gated; accept its terms at" in said and len(stored(hub)) == 2
    hub[NAME] = Repo(FIVE)
    assert fetched(FIVE, revision=revision) and len(stored(hub)) == 5


def test_24_an_address_that_has_expired_is_asked_for_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults("cut", after=1000, matching="/repos/")
    with HubServer({NAME: Repo({"data/a.parquet": CONTENT})}, signed_for=1, faults=faults) as hub:
        point_at(hub, tmp_path, monkeypatch)
        assert fetched({"data/a.parquet": CONTENT})
        assert stored(hub) == [None, "bytes=1000-"]
        assert hub.sent("/repos/") == len(CONTENT)


# --- the hub: revisions and listings -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_kept", [True, False])
def test_25_all_bytes_are_of_one_commit(
    is_kept: bool, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.commit(NAME)
    newer = {name: b"new " + content for name, content in FILES.items()}

    def move_on(told: str) -> None:
        hub[NAME] = Repo(newer, older={"before": FILES} if is_kept else {})

    with using_callbacks(UserCallbacks(say=move_on)):
        if is_kept:
            folder, found = fetch_dataset((NAME,), PATTERNS)
            assert found == commit and is_right(folder)
            return
        said = line(lambda: fetch_dataset((NAME,), PATTERNS))
    assert f"has no revision '{commit}'" in said
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "is not in the hub's cache" in line(lambda: fetch_dataset((NAME,), PATTERNS, commit))


@pytest.mark.parametrize("revision", ["v9", "0" * 40])
def test_26_a_revision_that_is_unknown(revision: str, hub: HubServer) -> None:
    said = line(lambda: fetch_dataset((NAME,), PATTERNS, revision))
    assert NAME in said and f"no revision '{revision}'" in said


@pytest.mark.parametrize("pinned", [False, True])
def test_27_a_listed_file_that_is_gone(
    pinned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "data/train.jsonl": b"{}\n" * 9,
        "data/val.jsonl": b"[]\n" * 9,
        "data/work.jsonl": b"1\n",
    }
    faults = Faults("vanish", matching="val.jsonl", where="any")
    with HubServer({NAME: Repo(files)}, faults=faults) as hub:
        point_at(hub, tmp_path, monkeypatch)
        commit = hub.commit(NAME)
        said = line(lambda: fetch_dataset((NAME,), DATA, commit if pinned else ""))
        assert "data/val.jsonl" in said and "no dataset" not in said
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "not in the hub's cache" in line(lambda: fetch_dataset((NAME,), DATA, commit))


def test_27_shards_that_another_program_left_out(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"data/test-{number:05d}-of-00003.parquet" for number in range(3)]
    hub[NAME] = Repo(dict.fromkeys(names, CONTENT))
    for name in names[:2]:
        hf_hub_download(NAME, name, repo_type="dataset")
    hub.faults = Faults("reset", after=0, where="any", times=None)
    assert "cannot be reached" in line(lambda: fetch_dataset((NAME,), DATA, hub.commit(NAME)))
    hub.faults = ()
    hf_hub_download(NAME, names[2], repo_type="dataset")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetched(dict.fromkeys(names, CONTENT), revision=hub.commit(NAME))


SEVEN = {f"data/{number}.bin": bytes([number]) * 999 for number in range(7)}


def test_28_a_page_of_a_listing_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults("error", status=502, where="api", matching="cursor=4", times=1)
    monkeypatch.setitem(http_backoff.__kwdefaults__, "base_wait_time", 0.001)
    with HubServer({NAME: Repo(SEVEN)}, page=2, faults=faults) as hub:
        point_at(hub, tmp_path, monkeypatch)
        assert fetched(SEVEN)
        assert any(one.fault == "error" for one in hub.log)


def test_29_a_listing_that_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults("short", where="api", matching="/tree/", times=None)
    with HubServer({NAME: Repo(SEVEN)}, page=2, faults=faults) as hub:
        point_at(hub, tmp_path, monkeypatch)
        said = line(lambda: fetch_dataset((NAME,), DATA))
    assert hub.url in said and "incomplete response" in said and "sign in" not in said
    assert not stored(hub) and not [*tmp_path.rglob("blobs/*")]


@pytest.mark.parametrize("is_there", [True, False])
def test_30_a_place_that_cannot_be_reached(
    is_there: bool, tmp_path: Path, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.faults = Faults("reset", after=0, where="any", times=None)
    host = urlsplit(hub.url).netloc
    if not is_there:
        with socket.create_server(("127.0.0.1", 0)) as free:
            host = f"127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://{host}")
    said = line(lambda: fetch_dataset((NAME,), PATTERNS))
    assert (
        host in said
        and "cannot be reached" in said
        and "gone" not in said
        and "no dataset" not in said
    )


# --- the hub: bytes ----------------------------------------------------------------------------------------------


def test_31_a_silence_is_given_up_and_gone_on_from(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snellen.fetching.download.MAX_SILENCE_SECONDS", 0.3)
    hub.faults = Faults("stall", after=5000, times=1, matching="a.parquet")
    assert is_right(fetch_dataset((NAME,), PATTERNS)[0])
    assert "bytes=5000-" in stored(hub)


FETCH = """
import sys
from snellen.errors import DataError
from snellen.fetching.hub import fetch_dataset
try:
    fetch_dataset(("owner/name",), ("data/*",))
except DataError as error:
    sys.exit(str(error))
"""


def surroundings(hub: HubServer, cache: Path) -> dict[str, str]:
    return {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache)}


def on_disk(cache: Path) -> int:
    """Bytes of blobs that are here, whole or not."""
    size = 0
    for path in cache.glob("*/blobs/*"):
        with suppress(FileNotFoundError):  # a file that just got its right name
            size += path.stat().st_size if path.suffix in ("", ".part") else 0
    return size


@pytest.fixture(scope="module")
def fifty() -> dict[str, Blob]:
    """Fifty megabytes in five files."""
    return {f"data/{number}.bin": Blob.of(bytes([number]) * 10_000_000) for number in range(5)}


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 4 else []) for seed in range(100)],
)
def test_32_what_a_kill_leaves_is_gone_on_from(
    seed: int, fifty: dict[str, Blob], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(blob.size for blob in fifty.values())
    moment = random.Random(seed).randrange(total)
    with HubServer({NAME: Repo(fifty)}, faults=Faults("slow", times=None, seconds=0.1)) as hub:
        point_at(hub, tmp_path, monkeypatch)
        process = subprocess.Popen([sys.executable, "-c", FETCH], env=surroundings(hub, tmp_path))
        while on_disk(tmp_path) < moment:
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
        process.wait()
        here, before, hub.faults = on_disk(tmp_path), len(hub.log), ()
        folder, _ = fetch_dataset((NAME,), DATA)
        sent = sum(one.sent for one in hub.log[before:] if one.port == "store")
    assert all((folder / name).read_bytes() == content.source for name, content in fifty.items())
    # What the dead process asked for last may be sent to nobody.
    assert total - here <= sent <= total - here + BLOCK_BYTES


@pytest.mark.parametrize("name", ["data/a.parquet", "README.md"])
def test_33_a_flipped_byte_from_an_earlier_day(
    name: str, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = fetch_dataset((NAME,), PATTERNS)
    content = bytearray(FILES[name])
    content[-1] ^= 1
    (folder / name).resolve().write_bytes(content)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = line(lambda: fetch_dataset((NAME,), PATTERNS))
    digests = DIGEST if name.endswith("parquet") else "[0-9a-f]{40}"
    assert (folder / name).resolve().name in said and "HF_HUB_OFFLINE" in said
    assert len(set(re.findall(digests, said))) >= 2
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert is_right(fetch_dataset((NAME,), PATTERNS)[0])
    assert (folder / name).resolve().with_suffix(".wrong").read_bytes() == content


def apart(mount: str, folder: Path, *command: str) -> list[str]:
    """A command with a mount of its own at `folder`; skips the test where nobody may have one."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a mount of one's own takes user namespaces (unshare -rm)")
    return [
        "unshare",
        "-rm",
        "sh",
        "-ec",
        f'{mount}; shift; exec "$@"',
        "sh",
        str(folder),
        *command,
    ]


READ_ONLY = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"'


@pytest.mark.parametrize("is_whole", [True, False])
def test_34_a_cache_that_may_only_be_read(is_whole: bool, tmp_path: Path, hub: HubServer) -> None:
    hub[NAME] = Repo(FIVE)
    for name in sorted(FIVE) if is_whole else sorted(FIVE)[:2]:
        hf_hub_download(NAME, name, repo_type="dataset")
    before = len(stored(hub))
    command = apart(READ_ONLY, tmp_path, sys.executable, "-c", FETCH)
    ended = subprocess.run(
        command, env=surroundings(hub, tmp_path), capture_output=True, text=True, check=False
    )
    if is_whole:
        assert ended.returncode == 0, ended.stderr
        assert fetched(FIVE)
    else:
        assert ended.returncode == 1 and len(ended.stderr.splitlines()) == 1
        assert (
            "cannot write (Read-only file system)" in ended.stderr
            and "HF_HUB_CACHE" in ended.stderr
        )
    assert len(stored(hub)) == before


def test_35_empty_files_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**FILES, "data/empty.parquet": b"", "data/empty.txt": b""}
    with HubServer({NAME: Repo(files)}, faults=Faults("cut", times=1)) as hub:
        point_at(hub, tmp_path, monkeypatch)
        assert fetched(files, ("*",))
        assert not any(one.status == 416 or one.range == "bytes=0-" for one in hub.log)
        before = len(stored(hub))
        assert fetched(files, ("*",)) and len(stored(hub)) == before


@pytest.mark.parametrize("suffix", [".incomplete", ".part"])
def test_36_what_has_the_right_length_is_not_yet_right(
    suffix: str, tmp_path: Path, hub: HubServer
) -> None:
    left = blob(tmp_path, CONTENT).with_name(blob(tmp_path, CONTENT).name + suffix)
    if suffix == ".part":
        hub.faults = tuple(
            Faults(what, after=len(CONTENT) - 1, matching="/repos/") for what in ("cut", "vanish")
        )
        line(lambda: fetch_dataset((NAME,), PATTERNS))
        assert left.stat().st_size == len(CONTENT) - 1
        hub.faults = ()
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(CONTENT[:-1] + b"?")
    assert is_right(fetch_dataset((NAME,), PATTERNS)[0])
    assert blob(tmp_path, CONTENT).read_bytes() == CONTENT


# --- other places ------------------------------------------------------------------------------------------------


class Trunk(ModelScopeServer):
    """Knows no `master`."""

    branch: ClassVar[str] = "trunk"


def test_37_no_such_revision_on_modelscope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Trunk({NAME: Repo(FIVE)}) as server:
        speak_to(server, monkeypatch)
        said = line(lambda: fetch_from_modelscope(NAME, DATA, {}, tmp_path))
    assert f"{NAME} on ModelScope has no revision 'master', or it is empty" in said


def test_38_modelscope_gives_wrong_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults("flipped", times=None)
    with ModelScopeServer({NAME: Repo({"data/a.parquet": CONTENT})}, faults=faults) as server:
        speak_to(server, monkeypatch, token="secret")
        said = line(lambda: fetch_from_modelscope(NAME, DATA, {}, tmp_path))
        kept = [one for one in server.log if one.port == "store"]
    assert re.search(rf"its SHA-256 is {DIGEST}, not {KNOWN.sha256}", said)
    assert len(kept) == 2 and not any(one.authorization or "secret" in one.path for one in kept)
    assert not (tmp_path / NAME / "data/a.parquet").exists()


def test_39_a_captive_portal_and_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(address: str) -> Any:
        return lambda: fetch_file([address], tmp_path / "a.bin", KNOWN)

    portal = FileServer({"login": b"sign in"}, faults=Faults("html", times=None))
    server, certificate = secure_file_server({"a.bin": CONTENT})
    (tmp_path / "trusted.pem").write_bytes(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    with portal, server:
        server.redirects = {
            "/a.bin": (302, f"{portal.url}/login"),
            "/round": (302, "/round"),
            "/there": (302, "/back"),
            "/back": (302, "/there"),
        }
        assert f"{server.url}/a.bin returned a web page instead of data; sign in to the" in line(
            fetch(f"{server.url}/a.bin")
        )
        for name in ("round", "there"):
            said = line(fetch(f"{server.url}/{name}"))
            assert f"{server.url}/{name}" in said and "redirects in a circle" in said
        assert len(server.log) < 40
    assert not (tmp_path / "a.bin").exists()


FILLED = """
import json, subprocess, sys, time
from pathlib import Path
cache, most = Path(sys.argv[1]), int(sys.argv[2])
fetch = [sys.executable, "-c", sys.argv[3]]
def sizes():
    found = {}
    for path in cache.glob("*/blobs/*"):
        try:
            found[path.name] = path.stat().st_size
        except FileNotFoundError:
            pass  # renamed or removed since the folder was listed
    return found
both = [subprocess.Popen(fetch, stderr=subprocess.PIPE, text=True) for _ in range(2)]
while sum(sizes().values()) < most:
    assert all(process.poll() is None for process in both)
    time.sleep(0.001)
with open(cache / "other", "wb", buffering=0) as other:
    try:
        while other.write(bytes(1 << 16)):
            pass
    except OSError:
        pass
said = [process.communicate()[1] for process in both]
print(json.dumps([said, [process.returncode for process in both], sizes()]), flush=True)
input()
(cache / "other").unlink()
print(json.dumps([subprocess.run(fetch).returncode, sizes()]))
"""


def test_40_a_disk_that_another_fills(tmp_path: Path) -> None:
    files = {f"data/{number}.bin": bytes([number]) * 4_000_000 for number in range(5)}
    total = sum(map(len, files.values()))
    whole = {hashlib.sha256(content).hexdigest(): len(content) for content in files.values()}
    command = [sys.executable, "-c", FILLED, str(tmp_path), str(total * 7 // 10), FETCH]
    faults = (Faults("slow", start=4, times=1, seconds=2), Faults("slow", times=None, seconds=0.2))
    with HubServer({NAME: Repo(files)}, faults=faults) as hub:
        with subprocess.Popen(
            apart('mount -t tmpfs -o size=100m disk "$1"', tmp_path, *command),
            env=surroundings(hub, tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin and process.stdout
            said, codes, sizes = json.loads(process.stdout.readline())
            assert codes == [1, 1]
            for one in said:
                assert len(one.splitlines()) == 1 and re.search(
                    r"needs [\d.]+ [KM]?B more, but the disk of .* has [\d.]+ [KM]?B free; free",
                    one,
                )
            whole_files = {name: size for name, size in sizes.items() if "." not in name}
            assert whole_files.items() < whole.items()
            here = sum(size for name, size in sizes.items() if Path(name).suffix in ("", ".part"))
            before, hub.faults = hub.sent("/repos/"), ()
            code, sizes = json.loads(process.communicate("\n")[0])
        assert code == 0
        assert {name: size for name, size in sizes.items() if "." not in name} == whole
        assert hub.sent("/repos/") - before == total - here
