"""A home of our own for built benchmarks, and the ones that many tests ask about."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import huggingface_hub.constants  # noqa: F401 (it reads HF_HUB_OFFLINE once, which some tests set)
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import small
import snellen
from kept_self_checks import keeping_self_checks
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.catalogue import select
from snellen.runs.finding import find_benchmarks

# The folders of built benchmarks that are not of tables of one's own.
SUITES = {"acuity"} | {
    folder.name.replace("_", "-") for folder in Path(snellen.__file__).with_name("suites").iterdir()
}

# Tests and the libraries of models make objects that stay, so that the collector looks through them in vain: it rests while
# tests are collected, and runs less often than by default after that.
gc.disable()
gc.set_threshold(200_000, 10, 50)

# Nothing here is timed: a machine that is busy must not make a test fail. A change is tested by the same examples
# everywhere; `make fuzz` looks for new ones.
settings.register_profile(
    "snellen",
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", settings.get_profile("snellen"), derandomize=False, max_examples=2000
)
PROFILE = os.environ.get("SNELLEN_TEST_PROFILE", "snellen")
settings.load_profile(PROFILE)
if PROFILE == "snellen":
    # Constants of the modules that other tests have loaded would make the examples depend on these.
    providers._get_local_constants = providers.Constants


LONGEST = (
    "batches docs view_changes benches hf_engine hf_strangers spot_checks served_limits strangers interrupts"
    " training_notebook acuity board_ledger hf_clips leaderboard streams hf_adversaries namespace"
    " hf_mixed_windows server_strangers server_facts gate planted_keys server_arena ray datasheets large_runs"
    " extract acuity_ideal demo audit modern museum view_browser fetching_cases acuity_tests hf_folders"
    " http_connection view example_package training benchmark_audit parts providers report_browser fetching"
    " served_arena in_memory hf_edges report data_verbs server_pages_browser cli absent_benchmarks clips resume"
    " aggregate hub_datasets hosting_operations adaptive server_arena_browser docstrings openai wordnet agree"
    " suite_doors hf_architectures"
).split()
"""Files that take more than six seconds, or that wait for long with few tests, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: at the end no worker has one to itself while the others wait."""
    places = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_collection_finish() -> None:
    """Let the garbage collector run, without what stays until the end."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """$SNELLEN_HOME of the whole session, in which no server but one on this machine is reached. What a process of the
    session has built of the suites that are drawn is there for the others too."""
    folder = tmp_path_factory.mktemp("home")
    if "PYTEST_XDIST_WORKER" in os.environ:
        (folder / "benchmarks").mkdir()
        for suite in ("acuity", "eyechart"):
            drawn = tmp_path_factory.getbasetemp().parent / "drawn" / suite
            drawn.mkdir(parents=True, exist_ok=True)
            (folder / "benchmarks" / suite).symlink_to(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNELLEN_HOME", str(folder))
        patch.setenv("SNELLEN_YES", "1")
        for name in ("http_proxy", "https_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        patch.setenv("no_proxy", "127.0.0.1,localhost,::1")
        yield folder


@pytest.fixture(scope="session", autouse=True)
def kept_self_checks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The self-check of a model with the same weights and settings is done once for all processes of a session."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        choose = keeping_self_checks(folder / "self-checks")
        patch.setattr("snellen.models.hf.model.choose_fast_paths", choose)
        yield


@pytest.fixture(scope="session")
def home(session_home: Path) -> Path:
    return session_home


@contextmanager
def _removing_own_builds(home: Path) -> Iterator[None]:
    """Remove what the block builds of tables: those of other tests have the same names, and are not replaced unasked."""
    folder = home / "benchmarks"
    before = set(folder.glob("*"))
    yield
    for built in set(folder.glob("*")) - before:
        if built.is_dir() and built.name not in SUITES and not built.is_symlink():
            shutil.rmtree(built)


@pytest.fixture(scope="module", autouse=True)
def own_builds_of_module(session_home: Path) -> Iterator[None]:
    with _removing_own_builds(session_home):
        yield


@pytest.fixture(autouse=True)
def own_builds_of_test(session_home: Path) -> Iterator[None]:
    with _removing_own_builds(session_home):
        yield


@pytest.fixture
def own_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$SNELLEN_HOME of one test, in which the embedded suite is the session's."""
    drawn, own = (folder / "benchmarks" / "eyechart" for folder in (home, tmp_path / "home"))
    drawn.mkdir(parents=True, exist_ok=True)
    own.parent.mkdir(parents=True)
    own.symlink_to(drawn, target_is_directory=True)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class EmbeddedSuite(Mapping[str, Benchmark]):
    """The embedded suite by task; a benchmark is built when it is first asked for, since few tests need all."""

    def __init__(self) -> None:
        self._names = {spec.name.partition("/")[2]: spec.name for spec in select("eyechart")}

    def __getitem__(self, task: str) -> Benchmark:
        [use] = find_benchmarks([self._names[task]])
        return use.benchmark

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@pytest.fixture(scope="session")
def eyechart(home: Path) -> Mapping[str, Benchmark]:
    """The embedded suite, each of its benchmarks built at most once in a session; by task."""
    return EmbeddedSuite()


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Twelve questions with four options about six pictures."""
    return small.built(small.rows(12), tmp_path_factory.mktemp("questions") / "made")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Benchmark]:
    """Builds a benchmark from rows of a table: `make(rows)`, or `make(rows, suffix=".tsv", name="mine")`."""

    def made(rows: list[dict[str, Any]], name: str = "mine", **settings: Any) -> Benchmark:
        return small.built(rows, tmp_path / f"built-{name}", name=name, **settings)

    return made


@pytest.fixture(autouse=True, scope="module")
def registered_names() -> Iterator[None]:
    """What a page of the documentation or a test registers is gone with its module."""
    before = {group: dict(known) for group, known in registry._NAMES.items()}
    yield
    for group, known in registry._NAMES.items():
        known.clear()
        known.update(before[group])
