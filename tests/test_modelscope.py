"""Datasets from ModelScope where the hub does not give them, by real servers on loopback."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

import mini_hub
from place_servers import Faults, HubServer, ModelScopeServer, Repo
from snellen.errors import DataError
from snellen.fetching.download import FetchError
from snellen.fetching.modelscope import fetch_from_modelscope
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from snellen.runs.finding import find_benchmarks
from test_parts import ENTRY, TYPES, point_at, rows

NAME = "owner/copy"
FILES = {f"data/test-{number:05d}.bin": bytes([number]) * 500 for number in range(3)}
PATTERNS = ("data/test-*",)


def speak_to(server: ModelScopeServer, monkeypatch: pytest.MonkeyPatch, token: str = "") -> None:
    monkeypatch.setenv("MODELSCOPE_URL_SCHEME", "http://")
    monkeypatch.setenv("MODELSCOPE_DOMAIN", urlsplit(server.url).netloc)
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", token)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("snellen.fetching.download.MIN_PAUSE_SECONDS", 0.001)


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_files_are_fetched_once_page_by_page_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {f"other/{number}.txt": b"x" for number in range(5)}
    monkeypatch.setattr("snellen.fetching.modelscope.FILES_PER_PAGE", 3)
    with ModelScopeServer({NAME: Repo({**FILES, **more})}) as server:
        speak_to(server, monkeypatch)
        folder = fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)
        assert content(folder) == FILES and not (folder / "other").exists()
        sent = sum("FilePath" in one.path for one in server.log)
        (folder / "data/test-00001.bin").write_bytes(b"changed")
        fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)
        assert content(folder) == FILES
        assert sum("FilePath" in one.path for one in server.log) == sent + 1


@pytest.mark.parametrize(
    ("repo", "said"),
    [
        (Repo(FILES, state="gone"), r"no longer exists \(404\)"),
        (Repo(FILES, state="private", tokens=("mine",)), r"requires a login \(403\)"),
        (Repo({"else.txt": b"x"}), "has no file named data/test-"),
        (Repo(FILES, rate_limited=99, retry_after=600), "429, too many requests"),
    ],
)
def test_what_cannot_be_had_is_one_line(
    repo: Repo, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelScopeServer({NAME: repo}) as server:
        speak_to(server, monkeypatch)
        with pytest.raises(FetchError, match=said) as caught:
            fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_token_opens_what_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelScopeServer({NAME: Repo(FILES, state="private", tokens=("mine",))}) as server:
        speak_to(server, monkeypatch, token="mine")
        assert content(fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)) == FILES


@pytest.mark.parametrize("what", ["cut", "flipped", "error", "storm"])
def test_faults_that_pass_are_overcome(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Faults(what, times=1, each=True, after=100, retry_after="0")  # type: ignore[arg-type]
    with ModelScopeServer({NAME: Repo(FILES)}, faults=fault) as server:
        speak_to(server, monkeypatch)
        assert content(fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)) == FILES


@pytest.fixture
def table(tmp_path: Path) -> bytes:
    path = mini_hub.write(tmp_path / "made.parquet", rows(0, 12), TYPES)
    return path.read_bytes()


def test_a_benchmark_is_built_from_modelscope_when_the_hub_is_away(
    table: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("home", "data", "suites"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"SNELLEN_{name.upper()}", str(tmp_path / name))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    entry = ENTRY.format(more="").replace(
        'split = "test"', f'split = "test"\nmodelscope = "{NAME}"'
    )
    (tmp_path / "suites" / "large.toml").write_text(entry)
    lines: list[str] = []
    with (
        HubServer({}) as hub,
        ModelScopeServer({NAME: Repo({"data/test-0.parquet": table})}) as server,
    ):
        point_at(hub, monkeypatch)
        speak_to(server, monkeypatch)
        with using_callbacks(UserCallbacks(lines.append)):
            [use] = find_benchmarks(["large"])
        assert use.benchmark.manifest.counts.samples == 12
        assert use.benchmark.manifest.build_info.origin == "owner/copy on ModelScope"
        assert any(
            "no dataset owner/large" in line and "trying ModelScope" in line for line in lines
        )


def test_offline_what_was_fetched_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelScopeServer({NAME: Repo(FILES)}) as server:
        speak_to(server, monkeypatch)
        fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert content(fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)) == FILES
    with pytest.raises(DataError, match="HF_HUB_OFFLINE is set"):
        fetch_from_modelscope(NAME, (*PATTERNS, "more/*"), {}, tmp_path)


def test_offline_it_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelScopeServer({NAME: Repo(FILES)}) as server:
        speak_to(server, monkeypatch)
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        with pytest.raises(DataError, match="HF_HUB_OFFLINE is set"):
            fetch_from_modelscope(NAME, PATTERNS, {}, tmp_path)
        assert not server.log
