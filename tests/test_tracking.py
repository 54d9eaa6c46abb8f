"""Runs in experiment trackers: MLflow by its own store, and what any tracker is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.errors import DataError, MissingExtraError, UnknownNameError
from snellen.interchange.exports.trackers import TrackedRun, Tracker, tracked_run
from snellen.registry import register


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def results() -> sn.Results:
    """Everything is taken for a cat, which two of eight questions ask for."""
    small.built(small.rows(8), Path("made"))
    model = sn.Scripted(lambda request: f"({'ABCD'[request.variant.order.index(0)]})")
    return sn.evaluate(model, "made", "circular?all_passes=true", name="eyes", report=True)


def test_a_tracker_is_told_settings_numbers_with_intervals_and_files(results: sn.Results) -> None:
    run = tracked_run(results.runs[0])
    assert run.name == "eyes"
    assert run.settings["model"] == "snellen:scripted" and run.settings["few_shot"] == "0"
    assert run.settings["benchmark/mine"] == results.runs[0].manifest.benchmarks[0].version
    [metric] = [one for one in run.metrics if one.name == "mine/circular_all_passes_true/accuracy"]
    [row] = [
        one
        for one in results.rows
        if (one.benchmark, one.metric, one.slice) == ("mine", "accuracy", "")
    ]
    assert (metric.value, metric.low, metric.high, metric.n) == (
        0.25,
        row.estimate.low,
        row.estimate.high,
        8,
    )
    assert {"accuracy": 0.25, "accuracy_n": 8.0}.items() <= {
        name.rpartition("/")[2]: value
        for name, value in run.values.items()
        if name.startswith(metric.name)
    }.items()
    assert [path.name for path in run.files] == ["results.json", "report.html"]


def test_a_run_is_in_mlflow_with_what_snellen_says_of_it(
    results: sn.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its store of files, which needs no database to be set up."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = Path("store").resolve().as_uri()
    [line] = results.track(f"mlflow:{store}#acuity")
    assert f" of experiment acuity in {store}" in line
    import mlflow

    client = mlflow.MlflowClient(store)
    [run] = client.search_runs([client.get_experiment_by_name("acuity").experiment_id])
    told = tracked_run(results.runs[0])
    assert (run.info.run_name, run.info.status) == ("eyes", "FINISHED")
    assert run.data.metrics == told.values and run.data.params == told.settings
    assert [one.path for one in client.list_artifacts(run.info.run_id)] == [
        "report.html",
        "results.json",
    ]


def test_each_run_is_logged_and_forms_are_written_only_where_they_are_asked_for(
    results: sn.Results, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []

    def log(run: TrackedRun, place: str) -> str:
        told.append((run.name, place))
        return f"[in {place}]"

    register("trackers", "notes", Tracker(title="notes", log=log))
    sn.evaluate("snellen:oracle", "made", name="other")
    code, out, _ = small.command(
        capsys, "export", "runs/eyes", "runs/other", "--track", "notes:a:b", "--track", "notes:"
    )
    assert code == 0 and out.splitlines() == ["[in a:b]", "[in a:b]", "[in ]", "[in ]"]
    assert told == [("eyes", "a:b"), ("other", "a:b"), ("eyes", ""), ("other", "")]
    _, out, _ = small.command(
        capsys, "export", "runs/eyes", "--track", "notes:x", "-o", "table.parquet"
    )
    assert out.splitlines() == ["[in x]", "table.parquet"]


def test_a_tracker_that_is_not_there_is_named_with_the_way_out(
    results: sn.Results, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UnknownNameError, match=r"^track\('mlflw:x'\): unknown tracker 'mlflw'; did you mean mlflow"
    ):
        results.track("mlflw:x")
    listed = small.command(capsys, "list", "trackers")[1]
    for name, package in (("mlflow", "mlflow"), ("wandb", "wandb"), ("trackio", "trackio")):
        assert name in listed
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(
            MissingExtraError, match=rf"^track\('{name}:'\) needs the package .*\[{name}\]"
        ):
            results.track(f"{name}:x")


def test_a_benchmark_is_no_run_to_track(
    results: sn.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = small.command(capsys, "export", "made", "--track", "mlflow:")
    assert code == 2 and "made is a benchmark, but --track logs runs" in err


def test_what_mlflow_refuses_is_one_line(results: sn.Results) -> None:
    with pytest.raises(DataError, match=r"^track\('mlflow:nothing://x'\): .*nothing") as refused:
        results.track("mlflow:nothing://x")
    assert "\n" not in str(refused.value)
