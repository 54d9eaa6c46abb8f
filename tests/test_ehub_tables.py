"""LVLM-eHub's tables by task, in one report with both conventions and the published models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mini_ehub
import small
import snellen as sn
from snellen.analysis.aggregate import results_of_all
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.experiments.scored_folders import score_folders
from snellen.report.reported_runs import prepare_reported_runs
from snellen.report.table import NumberCell, Table
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.suites.lvlm_ehub.task_tables import task_tables, task_titles

SETS = ("coco-oc", "coco-mci", "iiit5k", "pope-random", "pope-popular", "pope-adversarial")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The oracle and a guesser on six small sets of three capabilities."""
    folder = tmp_path_factory.mktemp("ehub")
    built = [
        build_benchmark(
            entries()[f"lvlm-ehub/{name}"],
            source=mini_ehub.official(name, folder / name),
            to=folder / f"built-{name}",
        )
        for name in SETS
    ]
    models = ["snellen:oracle", "snellen:uniform"]
    results = sn.evaluate(
        models, [str(one.folder) for one in built], runs=folder / "runs", allow_same_requests=True
    )
    return [run.folder for run in results.runs]


@pytest.fixture(scope="module")
def tables(runs: list[Path]) -> list[Table]:
    scored = score_folders(runs, ScoringSpec(), JudgeSpec())
    return task_tables(prepare_reported_runs(scored, results_of_all(scored)))


def row(table: Table, *labels: str) -> tuple[object, ...]:
    [found] = [cells for cells in table.rows if cells[: len(labels)] == labels]
    return found[table.label_columns :]


def test_every_task_has_the_papers_words() -> None:
    assert set(task_titles()) == {
        spec.task for spec in entries().values() if spec.suite == "lvlm-ehub"
    }


def test_the_table_by_task_has_the_mean_of_each_tasks_benchmarks(tables: list[Table]) -> None:
    [by_task] = tables
    assert [cells[1] for cells in by_task.rows] == [
        "object counting",
        "multi-class identification",
        "text recognition",
        "object hallucination",
    ]
    oracle, _ = row(by_task, "object hallucination", "object hallucination")
    assert isinstance(oracle, NumberCell) and oracle.estimate.value == 1.0


def test_a_report_has_both_conventions_radar_tasks_and_the_published_models(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, text = tmp_path / "r.html", tmp_path / "r.md"
    words = (
        "report",
        *map(str, runs),
        "--as-published",
        "--with-standard",
        "-o",
        str(page),
        "-o",
        str(text),
    )
    assert small.command(capsys, *words)[0] == 0
    html, markdown = page.read_text("utf-8"), text.read_text("utf-8")
    assert "By task" in html
    assert (
        "snellen:oracle as published, generation" in markdown
        and "snellen:oracle, generation" in markdown
    )
    for convention in ("as-published", "standard"):
        assert re.search(f"### Paired differences: .* minus .*, {convention}\n", markdown)
    pytest.importorskip("snellen_lab", reason="published models wait for snellen-lab")
    assert "LVLM-eHub, Table A.2" in html
    assert "| Popular, Accuracy | 100.00" in markdown and "1 of 9" in markdown


def test_standard_numbers_are_only_added_to_published_ones(runs: list[Path]) -> None:
    from snellen.cli.verbs.results import report_command

    with pytest.raises(DataError, match="--with-standard needs --as-published"):
        report_command.main([str(runs[0]), "--with-standard"], standalone_mode=False)
