"""Runs in the forms of other tools; what is written is read again by the readers of those tools' files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pandas
import polars as pl
import pytest
from PIL import Image

import small
import snellen as sn
from snellen import registry
from snellen.errors import DataError, UnknownNameError
from snellen.interchange.exports.base import Exporter, ExportJob
from snellen.records import Failure


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def results(tmp_path: Path) -> sn.Results:
    """Everything is taken for a cat, wherever that stands; one question is not answered."""
    benchmark = small.built(small.rows(8), tmp_path / "made")
    model = sn.Scripted(
        lambda request: (
            "who knows"
            if request.sample_id == "q007"
            else f"({'ABCD'[request.variant.order.index(0)]})"
        ),
        scores=lambda request: [-float(i) for i, _ in enumerate(request.continuations)],
    )
    return sn.evaluate(
        model, str(benchmark.folder), ["circular?all_passes=true", "likelihood"], name="run"
    )


@pytest.mark.parametrize("protocol", ["circular?all_passes=true", "likelihood"])
def test_a_log_of_inspect_says_what_the_run_says(
    results: sn.Results, tmp_path: Path, protocol: str
) -> None:
    logs = results.export("inspect", "logs")
    assert len(logs) == 2
    [log] = [path for path in logs if protocol.partition("?")[0] in path.name]
    with zipfile.ZipFile(log) as archive:
        header = json.loads(archive.read("header.json"))
        samples = [
            json.loads(archive.read(name))
            for name in archive.namelist()
            if name.startswith("samples/")
        ]
    assert header["version"] == 2 and header["eval"]["model"] == "snellen:scripted"
    own = {one["name"]: one["metrics"]["mean"]["value"] for one in header["results"]["scores"]}
    assert own["accuracy"] == results.value("accuracy", benchmark="mine", protocol=protocol)
    assert (
        header["results"]["total_samples"]
        == len(samples)
        == (32 if protocol != "likelihood" else 8)
    )
    turned = next(s for s in samples if s["id"] == "q001" and s["epoch"] == len(samples) // 8)
    assert turned["choices"]["ABCD".index(turned["target"][0])] == "dog"
    # Read back, joined to the same questions, it has the same accuracy.
    again = sn.score(sn.import_run(log, benchmark=str(tmp_path / "made"), to="back"))
    assert again.value("accuracy", benchmark="mine") == own["accuracy"]


def test_a_log_of_inspect_counts_as_completed_what_has_no_error(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(8), tmp_path / "made")
    late = sn.Response(error=Failure("timeout", "late"))
    model = sn.Scripted(
        lambda request: late if request.sample_id < "q003" else "(A)", answers_by_sample=True
    )
    results = sn.evaluate(model, str(benchmark.folder), "vanilla", name="late", error_budget=1.0)
    [log] = results.export("inspect", "logs")
    with zipfile.ZipFile(log) as archive:
        counts = json.loads(archive.read("header.json"))["results"]
    assert (counts["total_samples"], counts["completed_samples"]) == (8, 5)


def test_a_log_of_inspect_shows_pictures_where_they_are_asked_for(results: sn.Results) -> None:
    for pictures in (False, True):
        log = results.export("inspect", f"logs-{pictures}", images=pictures)[0]
        with zipfile.ZipFile(log) as archive:
            content = b"".join(
                archive.read(name) for name in archive.namelist() if name.startswith("samples/")
            )
        assert (b"data:image/png;base64," in content) == pictures


def test_results_of_lm_eval_hold_each_number_by_task_and_filter(results: sn.Results) -> None:
    [path] = results.export("lm-eval", "out")
    content = json.loads(path.read_text())
    numbers = content["results"]["mine"]
    for protocol in ("circular?all_passes=true", "likelihood"):
        label = sn.parse_protocol(protocol).label
        assert numbers[f"accuracy,{label}"] == results.value(
            "accuracy", benchmark="mine", protocol=protocol
        )
        assert numbers[f"accuracy_stderr,{label}"] > 0
    assert (
        content["higher_is_better"]["mine"]["accuracy"] is True
        and content["n-samples"]["mine"]["effective"] == 8
    )


def test_samples_of_lmms_eval_are_read_back_with_the_same_accuracy(results: sn.Results) -> None:
    *samples, numbers = results.export("lmms-eval", "out")
    assert numbers.name.endswith("_results.json")
    for path in samples:
        protocol = "likelihood" if "likelihood" in path.name else "circular?all_passes=true"
        again = sn.score(sn.import_run(path, to=f"back-{protocol[:4]}"))
        assert again.rows[0].model == "snellen:scripted"
        assert again.value("accuracy") == results.value(
            "accuracy", benchmark="mine", protocol=protocol
        )


def test_a_dataset_has_a_card_and_no_gold_unless_asked_for(results: sn.Results) -> None:
    data, card = results.export("dataset", "open")
    table = pl.read_parquet(data)
    assert table.height == 40 and {"reply", "score_accuracy"} <= set(table.columns)
    assert not {"gold", "gold_options", "right"} & set(table.columns)
    text = card.read_text("utf-8")
    assert text.startswith("---\npretty_name:") and "path: data/test-*.parquet" in text
    assert "Golds are left out." in text and results.runs[0].manifest.benchmarks[0].version in text
    whole, _ = results.export("dataset", "whole", answers=True)
    assert pl.read_parquet(whole)["gold"].to_list()[0] == ["cat"]


@pytest.mark.parametrize("suffix", [".csv", ".xlsx", ".jsonl", ".parquet"])
def test_replies_are_a_table_in_the_format_of_the_files_suffix(
    results: sn.Results, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name = f"samples{suffix}"
    assert small.command(capsys, "export", "runs/run", "-o", by_name)[:2] == (0, f"{by_name}\n")
    form = suffix.removeprefix(".")
    assert small.command(capsys, "export", "runs/run", "--as", form)[:2] == (0, f"run{suffix}\n")
    assert results.export(form) == [Path(f"run{suffix}")]

    read = {
        ".csv": pandas.read_csv,
        ".xlsx": pandas.read_excel,
        ".jsonl": lambda path: pandas.read_json(path, lines=True),
        ".parquet": pandas.read_parquet,
    }[suffix]
    for path in (by_name, f"run{suffix}"):
        table = read(path)
        assert len(table) == len(results.samples) == 40
        row = table[table["reply"].notna()].iloc[0]
        is_flat = suffix in (".csv", ".xlsx")
        options = json.loads(row["options"]) if is_flat else list(row["options"])
        gold = json.loads(row["gold"]) if is_flat else list(row["gold"])
        [image] = json.loads(row["image_paths"]) if is_flat else list(row["image_paths"])
        assert gold == ["cat"] and options[0] == "cat" and row["chosen_text"] == "cat"
        assert bool(row["correct"]) is True and row["question"]
        with Image.open(image) as picture:
            assert picture.format == "PNG"


def test_a_table_of_polars_is_written_to_csv_and_excel_with_its_lists(results: sn.Results) -> None:
    table = results.samples()
    table.write_csv("all.csv")
    table.filter(pl.col("correct")).sort("sample_id").select("gold", "reply").write_csv("some.csv")
    results.samples.write_csv(Path("by-attribute.csv"))
    results.to_csv("by-keyword.csv", samples=True)
    table.with_columns(length=pl.col("reply").str.len_chars()).drop("request").write_excel("a.xlsx")
    assert len(pandas.read_csv("all.csv")) == len(table) == len(pandas.read_excel("a.xlsx"))
    assert pl.read_csv("some.csv")["gold"].to_list() == ['["cat"]'] * table["correct"].sum()
    assert Path("by-attribute.csv").read_bytes() == Path("all.csv").read_bytes()
    assert len(pandas.read_csv("by-keyword.csv")) == len(table)
    assert isinstance(table, pl.DataFrame)


def test_a_sheet_refuses_a_text_that_excel_would_cut(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(1), tmp_path / "made")
    model = sn.Scripted(lambda request: "x" * 40_000)
    results = sn.evaluate(model, str(benchmark.folder), name="long")
    with pytest.raises(DataError, match="q000, reply: 40,000 characters, but a cell"):
        results.export("xlsx")
    assert not Path("long.xlsx").exists()


@pytest.mark.parametrize("name", ["odd.html", "odd.json", "odd"])
def test_a_file_that_ends_as_another_form_is_refused_in_one_line(
    results: sn.Results, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small.command(capsys, "export", "runs/run", "-o", name) == (
        2,
        "",
        f"snellen: {name}: the form samples is a file that ends in .csv, .jsonl, .xlsx or .parquet; name it so, choose "
        "another form with --as (csv, dataset, inspect, jsonl, lm-eval, lmms-eval, parquet, xlsx), or have "
        "`snellen report -o` write the numbers as .csv, .json, .md, .tex or .html\n",
    )
    assert not Path(name).exists()
    assert results.export("samples", "odd.PARQUET") == [Path("odd.PARQUET")]


def test_a_strangers_exporter_is_found_by_name(
    results: sn.Results, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(job: ExportJob) -> list[Path]:
        job.path.write_text(f"{len(job.runs)} {len(job.rows)}")
        return [job.path]

    monkeypatch.setitem(
        registry._NAMES["exporters"], "count", Exporter(title="a count", write=write, suffix=".txt")
    )
    code, out, _ = small.command(capsys, "export", "runs/run", "--as", "count")
    assert (code, out.strip()) == (0, "run-count.txt")
    assert Path("run-count.txt").read_text() == f"1 {len(results.rows)}"
    assert "a count" in small.command(capsys, "list", "exporters")[1]
    with pytest.raises(UnknownNameError, match="unknown exporter 'inspct'; did you mean inspect"):
        results.export("inspct")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "lmms-eval"])
@pytest.mark.parametrize("has_benchmark", [True, False], ids=["joined", "alone"])
@pytest.mark.parametrize("protocol", ["circular", "circular?all_passes=true", "instability?m=3"])
def test_presentations_of_an_export_are_read_back_as_those_of_their_questions(
    tmp_path: Path, form: str, has_benchmark: bool, protocol: str
) -> None:
    """Right values are the run's own: it knows how it presented its questions."""
    rows = [{**row, "id": str(20 - place)} for place, row in enumerate(small.rows(12, pictures=12))]
    for row in rows:
        row["question"] = "Which animal is it?"  # only the id tells the questions apart
    benchmark = small.built(rows, tmp_path / "made")
    model = sn.Scripted(
        lambda request: (
            "(A)"
            if int(request.sample_id) % 3 == 0
            else f"({'ABCD'[request.variant.order.index((20 - int(request.sample_id)) % 4)]})"
        )
    )
    results = sn.evaluate(model, str(benchmark.folder), protocol, name="run")
    path = results.export(form, "out" if form == "lmms-eval" else f"replies.{form}")[0]
    again = sn.score(sn.import_run(path, str(benchmark.folder) if has_benchmark else ""))
    metrics = ["accuracy", *(["circular_accuracy"] if protocol.startswith("circular") else [])]
    for metric in metrics:
        [own] = [row for row in results.rows if _is_whole(row, metric)]
        [read] = [row for row in again.rows if _is_whole(row, metric)]
        assert read.estimate.absent == 0  # what stopped early has no replies missing
        assert (read.protocol, read.value, read.n, read.ci) == (protocol, own.value, 12, own.ci)


def test_an_export_under_two_protocols_keeps_that_of_several_presentations(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(12, pictures=12), tmp_path / "made")
    model = sn.Scripted(lambda request: "(A)")  # CircularEval stops early at nearly all questions
    protocols = ["vanilla", "circular"]
    results = sn.evaluate(model, str(benchmark.folder), protocols, name="run")
    again = sn.score(results.export("csv", "replies.csv")[0])
    [own] = [row for row in results.rows if _is_whole(row, "circular_accuracy")]
    [read] = [row for row in again.rows if _is_whole(row, "circular_accuracy")]
    assert (read.protocol, read.value, read.ci) == (own.protocol, own.value, own.ci)
    assert read.estimate.absent == own.estimate.absent == 0


def test_an_export_without_the_orders_of_options_is_refused(tmp_path: Path) -> None:
    """The replies name the labels of options in orders that are not in the file."""
    benchmark = small.built(small.rows(12, pictures=12), tmp_path / "made")
    results = sn.evaluate("snellen:oracle", str(benchmark.folder), "circular", name="run")
    written = results.export("jsonl", "replies.jsonl")[0]
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    for row in rows:
        del row["order"]
    Path("without.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match="rows of one question say different things"):
        sn.score("without.jsonl")


def _is_whole(row: sn.Result, metric: str) -> bool:
    """Whether a row is the metric of all questions of the benchmark."""
    return row.metric == metric and not row.slice and row.benchmark != "*"
