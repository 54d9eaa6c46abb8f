"""A part of a large dataset, read by ranges from a real server on loopback: the questions that a limit asks."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import mini_hub
import small
import snellen as sn
from place_servers import Faults, HubServer, Repo
from snellen.building.benchmark import Benchmark, Selection
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, NoSourceError
from snellen.fetching import terms
from snellen.fetching.parts import parts_folder
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from snellen.runs.finding import find_benchmarks

NAME = "owner/large"
ROWS, GROUP = 240, 10
TYPES = {
    "key": pa.string(),
    "question": pa.string(),
    "answers": mini_hub.TEXTS,
    "image": mini_hub.PICTURE,
    "unused": pa.binary(),
}
ENTRY = """
name = "large"
title = "large"
formulation = "text"
metrics = ["word_accuracy"]
licence = "CC0"
{more}

[source]
reader = "mapped"

[source.params]
id = "{{key}}"
question = "{{question}}"
answer = "{{answers}}"

[[source.places]]
kind = "hub"
repo = "owner/large"
split = "test"

[source.places.params]
group = "{{key:stem}}"

[source.places.params.records]
fields = {{ key = "text", question = "text", answers = ["text"] }}
"""


def rows(first: int, count: int) -> mini_hub.Rows:
    """Questions with an image of their own each, made large by bytes that nothing compresses."""
    noise = random.Random(first)
    return [
        {
            "key": f"q{number}",
            "question": f"What is written on sign {number}?",
            "answers": [f"word {number}"],
            "image": {
                "bytes": small.picture(number) + noise.randbytes(20_000),
                "path": f"{number}.png",
            },
            "unused": noise.randbytes(20_000),
        }
        for number in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder, each = tmp_path_factory.mktemp("large"), ROWS // 3
    names = [f"data/test-{shard:05d}-of-00003.parquet" for shard in range(3)]
    for shard, name in enumerate(names):
        mini_hub.write(folder / name, rows(shard * each, each), TYPES, group=GROUP)
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own folders, for whom much is what a test has."""
    for name in ("home", "data", "suites"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"SNELLEN_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("snellen.fetching.parts.MIN_BYTES_FOR_PART", 1_000_000)
    monkeypatch.setattr("snellen.fetching.download.MIN_PAUSE_SECONDS", 0.001)
    impatient = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    monkeypatch.setattr("huggingface_hub.utils._http.time", impatient)
    (tmp_path / "suites" / "large.toml").write_text(ENTRY.format(more=""))


@pytest.fixture
def hub(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer({NAME: Repo(files)}) as server:
        point_at(server, monkeypatch)
        yield server


def point_at(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
    )


def found(limit: int | None, where: str = "") -> Benchmark:
    [use] = find_benchmarks(["large"], where, limit)
    return use.benchmark


def sent(server: HubServer) -> int:
    """Bytes of files that were served."""
    return sum(one.sent for one in server.log if one.port == "store")


def asked(benchmark: Benchmark, limit: int) -> list[object]:
    return [(one.id, one.question, one.images) for one in benchmark.samples(Selection(limit=limit))]


def test_a_part_asks_what_the_whole_asks_and_reads_a_part_of_it(
    hub: HubServer, files: dict[str, bytes]
) -> None:
    part = found(4)
    total, read = sum(map(len, files.values())), sent(hub)
    assert part.folder == parts_folder() / "large" / "4" and part.manifest.build_info.limit == 4
    assert not part.manifest.warnings
    # Half of each file is a column that nobody asks for; of 24 row groups four are read, up to the image asked.
    assert 0 < read < total / 4
    assert not benchmark_folder("large").exists()
    asked_of_part = asked(part, 4)
    whole = found(None)
    assert whole.folder == benchmark_folder("large") and whole.manifest.counts.samples == ROWS
    assert asked(whole, 4) == asked_of_part and len(asked_of_part) == 4
    assert found(4).folder == whole.folder


def test_a_larger_part_serves_a_smaller_limit(hub: HubServer) -> None:
    large = found(6)
    before = len(hub.log)
    small_one = found(3)
    assert small_one.folder == large.folder and len(hub.log) == before
    assert found(7).folder != large.folder and len(hub.log) > before
    assert {one for one, *_ in asked(small_one, 3)} < {one for one, *_ in asked(large, 6)}


def test_a_part_of_a_benchmark_of_the_same_name_in_another_folder_does_not_serve(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = asked(found(4), 4)
    (tmp_path / "others").mkdir()
    text = ENTRY.format(more="").replace(
        'question = "{question}"', 'question = "{question} Say it aloud."'
    )
    (tmp_path / "others" / "large.toml").write_text(text)
    monkeypatch.setenv("SNELLEN_SUITES", str(tmp_path / "others"))
    assert [question for _, question, _ in asked(found(4), 4)] == [
        f"{text} Say it aloud." for _, text, _ in wanted
    ]


def test_a_run_with_a_limit_is_asked_scored_and_scored_again_beside_the_whole(
    hub: HubServer, tmp_path: Path
) -> None:
    lines: list[str] = []
    with using_callbacks(UserCallbacks(lines.append)):
        results = sn.evaluate(
            "snellen:oracle", "large", limit=5, runs=tmp_path / "runs", name="part"
        )
    assert any(
        "5 questions" in line and "digests are not checked" in line and "CC0" in line
        for line in lines
    )
    row = results.table().row(0, named=True)
    assert row["metric"] == "word_accuracy" and row["value"] == 1.0 and row["n"] == 5
    found(None)
    sn.score(tmp_path / "runs" / "part")


def test_a_small_dataset_is_fetched_whole(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snellen.fetching.parts.MIN_BYTES_FOR_PART", 1_000_000_000)
    assert found(4).folder == benchmark_folder("large")


def test_with_a_condition_the_whole_is_fetched(hub: HubServer) -> None:
    assert found(4, "benchmark == 'large'").folder == benchmark_folder("large")


def test_a_part_that_is_damaged_is_built_again(hub: HubServer) -> None:
    wanted = asked(found(4), 4)
    (parts_folder() / "large" / "4" / "benchmark.json").write_text("{}")
    assert asked(found(4), 4) == wanted


def test_what_is_left_out_of_the_whole_is_told_of_a_part_too(
    hub: HubServer, tmp_path: Path
) -> None:
    rule = '\n[[source.params.leave_out]]\nwhen = "key == \'q7\'"\nwhy = "nobody can read it"\n\n[[source.places]]'
    (tmp_path / "suites" / "large.toml").write_text(
        ENTRY.format(more="").replace("\n[[source.places]]", rule, 1)
    )
    assert "1 skipped: nobody can read it" in " ".join(found(4).manifest.warnings)


def test_what_is_in_the_cache_is_not_read_again(hub: HubServer) -> None:
    found(None)

    shutil.rmtree(benchmark_folder("large"))
    before = sent(hub)
    assert found(4).folder == benchmark_folder("large") and sent(hub) == before


UNDISTURBED: list[Any] = []
"""What a part asks that was fetched without a fault, once that was done."""


@pytest.mark.parametrize("seed", range(12))
def test_faults_on_the_way_give_the_part_or_one_line_and_nothing_half(
    seed: int, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    what = draw.choice(["cut", "reset", "error", "storm", "vanished"])
    fault = Faults(
        what, seed=seed, start=draw.randint(1, 12), times=draw.choice([1, 2, None]), where="files"
    )  # type: ignore[arg-type]
    if not UNDISTURBED:
        with HubServer({NAME: Repo(files)}) as right:
            point_at(right, monkeypatch)
            UNDISTURBED.append(asked(found(4), 4))
        for folder in parts_folder().iterdir():
            folder.rename(folder.with_name("kept"))
    with HubServer({NAME: Repo(files)}, faults=fault) as server:
        point_at(server, monkeypatch)
        try:
            part = found(4)
        except DataError as error:
            assert "\n" not in str(error) and "large" in str(error)
            assert not (parts_folder() / "large").exists() or not any(
                (parts_folder() / "large").iterdir()
            )
        else:
            assert [asked(part, 4)] == UNDISTURBED


def test_parts_are_listed_and_go_with_the_benchmarks_data(
    hub: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found(3)
    found(5)
    code, out, _ = small.command(capsys, "list", "data", "--json")
    listed = [row for row in map(json.loads, out.splitlines()) if row["kind"] == "part"]
    assert code == 0 and [row["name"] for row in listed] == [
        "3 questions of large",
        "5 questions of large",
    ]
    assert all(row["size"] > 1_000 for row in listed)
    assert small.command(capsys, "fetch", "--remove", "large")[0] == 0
    assert not list((parts_folder() / "large").glob("*/manifest.json"))


# --- carried to another machine ----------------------------------------------------------------------------------


def test_a_dataset_that_is_carried_is_built_as_it_was_fetched(
    hub: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stick, whole = tmp_path / "stick", found(None).manifest
    assert small.command(capsys, "fetch", "large", "--to", str(stick))[0] == 0
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "there"))
    assert small.command(capsys, "build", "large", "--source", str(stick), "--offline")[0] == 0
    there = Benchmark(benchmark_folder("large")).manifest
    assert (there.version, there.spec, there.build_info.origin) == (
        whole.version,
        whole.spec,
        whole.build_info.origin,
    )
    (stick / "large" / "snellen-source.json").write_text("{}")
    code, _, err = small.command(capsys, "build", "large", "--source", str(stick), "--force")
    assert code == 2 and "snellen-source.json (Expected `array`, got `object`)" in err


# --- terms -------------------------------------------------------------------------------------------------------


@pytest.fixture
def bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry's data are for some alone."""
    monkeypatch.delenv(terms.YES, raising=False)
    (tmp_path / "suites" / "large.toml").write_text(
        ENTRY.format(more='agreement = "research alone"')
    )


def test_terms_are_asked_for_once(bound: None, hub: HubServer) -> None:
    questions: list[str] = []

    def agree(question: str) -> bool:
        questions.append(question)
        return len(questions) > 1

    with using_callbacks(UserCallbacks(accept=agree)):
        with pytest.raises(
            NoSourceError,
            match=r"large is for research alone .*; set os\.environ\['SNELLEN_YES'\] = '1' to agree",
        ):
            found(4)
        assert not sent(hub)
        found(4)
        found(None)
    assert (
        len(questions) == 2 and questions[0] == "large is for research alone (CC0). Do you agree?"
    )


def test_without_anybody_to_ask_a_setting_agrees(
    bound: None, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for no in ("", "0", "no"):
        monkeypatch.setenv(terms.YES, no)
        with pytest.raises(NoSourceError, match="SNELLEN_YES"):
            found(None)
    monkeypatch.setenv(terms.YES, "1")
    assert found(None).manifest.counts.samples == ROWS


def test_what_was_agreed_to_is_damaged(bound: None, hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "home" / "agreed.json").write_text("{")
    with pytest.raises(
        DataError, match=r"cannot read .*agreed\.json .*; remove it to be asked again"
    ):
        found(4)
