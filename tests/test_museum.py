"""Runs, benchmarks and databases that earlier revisions wrote are opened by every verb (tests/museum)."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import small
import snellen as sn
from museum.make_exhibit import MODEL, MUSEUM, PLACE, api
from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.models import openai
from snellen.runs.journal import read_exchanges
from snellen.runs.mending import mend_run
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest
from snellen.scoring.answers import open_answers
from snellen.viewing.library import RunLibrary

READ = ("97fa8f27", "5e5d5ff", "8a5a1dde")
REFUSED = "b1449eb"
MOST_BYTES = 1_000_000  # of all exhibits together
QUESTIONS = 4


def unpack(revision: str, folder: Path) -> Path:
    """Unpack an exhibit as if its commands had been given in `folder`."""
    with zipfile.ZipFile(MUSEUM / f"{revision}.zip") as archive:
        archive.extractall(folder)
    for path in folder.rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(PLACE.encode(), str(folder).encode()))
    return folder / "runs/run"


@pytest.fixture(params=READ)
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return unpack(request.param, tmp_path)


def values(run: Path) -> dict[tuple[str, str, str], Any]:
    """The values in a run's results that the revision printed, by metric, protocol and slice."""
    rows = json.loads((run / "results.json").read_bytes())
    named = {(row["metric"], row["protocol"], row.get("slice", "")): row for row in rows}
    return {key: (row["value"], row["n"]) for key, row in named.items()}


def test_exhibits_are_small_and_name_no_machine() -> None:
    paths = sorted(MUSEUM.glob("*.zip"))
    assert {path.stem for path in paths} == {*READ, REFUSED}
    assert sum(path.stat().st_size for path in paths) < MOST_BYTES
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            contents = b"".join(archive.read(name) for name in archive.namelist())
        assert not any(place in contents for place in (b"/tmp/", b"/home/", b"/root/"))


@pytest.mark.parametrize("verb", ["score", "report", "mend", "pack"])
def test_every_verb_opens_the_run(verb: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, error = small.command(capsys, verb, str(run))
    assert code == 0, error
    assert "Traceback" not in printed + error


def test_scoring_gives_the_same_values(run: Path) -> None:
    printed = values(run)
    assert printed[("accuracy", "vanilla", "")] == (0.5, QUESTIONS)
    sn.score(run)
    now = values(run)
    assert {key: now.get(key) for key in printed} == printed


@pytest.mark.parametrize(
    "flags", [["-o", "samples.parquet"], ["--as", "inspect", "-o", "log.json"]]
)
def test_export_writes_the_run(
    flags: list[str], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = small.command(capsys, "export", str(run), *flags)
    assert code == 0, error
    assert Path(flags[-1]).stat().st_size > 0


def test_compare_with_a_run_of_today(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sn.evaluate("snellen:uniform", str(run.parents[1] / "bench"), "vanilla", name="today")
    code, printed, error = small.command(capsys, "compare", str(run), "runs/today")
    assert code == 0, error
    assert "accuracy" in printed


def test_the_pages_show_the_run(run: Path) -> None:
    library = RunLibrary([run.parent], run.parent / "index.sqlite")
    [shown] = library.runs()
    assert shown.folder == run and not shown.fault


def test_options_of_another_adapter_are_refused(run: Path) -> None:
    """Options are scored otherwise since then; replies are the same."""
    adapter = read_manifest(run).fingerprint["adapter"]
    assert adapter != openai.ADAPTER
    before = (run / "journal-0.jsonl").read_bytes()
    with pytest.raises(sn.StoreError, match=f"adapter was {adapter}, is {openai.ADAPTER}"):
        sn.evaluate(MODEL, "./bench", "likelihood", name="run")
    assert (run / "journal-0.jsonl").read_bytes() == before


def test_the_run_goes_on_and_asks_nothing_twice(run: Path) -> None:
    before = (run / "journal-0.jsonl").read_bytes()
    with api():
        results = sn.evaluate(MODEL, "./bench", name="run")
        assert (run / "journal-0.jsonl").read_bytes() == before
        assert results.value("accuracy", benchmark="colours", protocol="vanilla") == 0.5

        # Other questions of the same benchmark are asked, and stored beside the old ones.
        sn.evaluate(MODEL, "./bench", "circular", name="run")
    exchanges = list(read_exchanges(run))
    assert (run / "journal-0.jsonl").read_bytes().startswith(before)
    assert {exchange.protocol for exchange in exchanges} == {"vanilla", "circular"}


def test_a_run_at_another_address_is_refused(run: Path) -> None:
    with pytest.raises(sn.StoreError, match="moved=True"):
        sn.evaluate(MODEL.replace("18710", "18711"), "./bench", name="run")


def test_the_built_benchmark_is_read_whole(run: Path) -> None:
    benchmark = Benchmark(run.parents[1] / "bench")
    samples = list(benchmark.samples())
    assert len(samples) == len(open_answers(benchmark.folder)) == QUESTIONS
    for sample in samples:
        for image in sample.images:
            assert benchmark.images.read(image)
    results = sn.evaluate("snellen:oracle", "./bench", "vanilla", name="oracle")
    assert results.value("accuracy", benchmark="colours") == 1.0


def test_a_run_is_read_by_what_it_carries(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its benchmark is gone: it cannot be scored, which is said, and everything else shows what was kept."""
    shutil.rmtree(run.parents[1] / "bench")
    printed = values(run)
    for command in (["report"], ["mend"], ["pack"], ["export", "-o", "samples.parquet"]):
        code, _, error = small.command(capsys, *command, str(run))
        assert code == 0, (command, error)
    assert values(run) == printed
    code, _, error = small.command(capsys, "score", str(run))
    assert code == 2 and "because the answers of colours" in error


def test_a_packed_run_with_answers_is_scored_elsewhere(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = values(run)
    code, _, error = small.command(
        capsys, "pack", str(run), "--answers", "--images", "-o", "packed.zip"
    )
    assert code == 0, error
    with zipfile.ZipFile("packed.zip") as archive:
        archive.extractall(tmp_path / "received")
    shutil.rmtree(run.parents[1] / "bench")
    sn.score(tmp_path / "received/run")
    now = values(tmp_path / "received/run")
    assert {key: now.get(key) for key in printed} == printed


def test_a_manifest_that_was_cut_off_is_made_again(run: Path) -> None:
    """These runs have no copy of it."""
    printed = values(run)
    manifest = run / RUN_MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:700])
    assert mend_run(run)
    sn.score(run)
    assert {key: values(run).get(key) for key in printed} == printed


@pytest.mark.parametrize("verb", ["score", "report", "mend", "pack", "export"])
def test_the_oldest_run_is_refused_in_one_line(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = unpack(REFUSED, tmp_path)
    flags = ["-o", str(tmp_path / "out.parquet")] if verb == "export" else []
    code, _, error = small.command(capsys, verb, str(run), *flags)
    assert code == 2 and error.count("\n") == 1
    assert f"{run} is a run of format 1, but this version of Snellen reads 3" in error
    assert (tmp_path / "bench" / MANIFEST).exists()
    with pytest.raises(
        sn.DataError, match=r"built in format .*this version of Snellen reads 2 to 5"
    ):
        Benchmark(tmp_path / "bench")
