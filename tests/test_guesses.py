"""What users of pandas, matplotlib and other harnesses write before they read: on results, rows, comparisons, plots."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

import snellen as sn
from snellen.cli import main
from snellen.errors import DataError, UnknownNameError


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> sn.Results:
    runs = tmp_path_factory.mktemp("runs")
    models = ["snellen:oracle", "snellen:always-a"]
    return sn.evaluate(models, ["eyechart/shape", "eyechart/count"], limit=20, runs=runs)


# --- the table of replies ---------------------------------------------------------------------------------------------


def test_samples_are_a_table_with_and_without_brackets(results: sn.Results) -> None:
    shapes = results["snellen:always-a"]["shape"]
    table = shapes.samples.to_pandas()
    assert len(table) == len(shapes.samples) == len(shapes.samples()) == 20
    assert table["correct"].mean() == shapes.value()
    assert shapes.samples["reply"].to_list() == table["reply"].to_list()
    assert [row["sample_id"] for row in shapes.samples] == table["sample_id"].to_list()
    assert shapes.samples[3]["sample_id"] == table["sample_id"][3]
    assert shapes.samples.head(2).equals(shapes.samples().head(2))
    assert shapes.samples.to_polars().equals(shapes.samples())
    written = pd.read_csv(shapes.samples.to_csv("samples.csv", index=False))
    assert written["sample_id"].to_list() == table["sample_id"].to_list()
    assert "to_pandas()" in shapes.samples._repr_html_()


@pytest.mark.parametrize(
    ("look", "line"),
    [
        (lambda results: results.to_pandas()["question"], r"results\.samples\.to_pandas\(\)"),
        (lambda results: results.to_pandas().correct, r"results\.samples\.to_pandas\(\)"),
        (lambda results: results.to_pandas()["accuracy"], "metrics are rows, of which query"),
        (lambda results: results.samples["prediction"], "reply is the text"),
        (lambda results: results.samples.to_pandas()["answer"], "gold has the correct texts"),
        (lambda results: results.samples.to_pandas().level, "it is tag_level"),
        (lambda results: results.samples.query("correct"), r"samples\.to_pandas\(\) is one of"),
        (lambda results: results.runs[0].to_pandas(), r"sn\.Results\(\[run\]\)"),
    ],
)
def test_a_missing_column_says_where_it_is(look: Any, line: str, results: sn.Results) -> None:
    with pytest.raises((KeyError, AttributeError), match=line):
        look(results)


def test_a_table_of_numbers_is_an_ordinary_data_frame(results: sn.Results) -> None:
    frame = results.to_pandas()
    accuracy = frame.query("metric == 'accuracy' and benchmark == 'eyechart/shape'")
    values = accuracy.groupby("model")["value"].mean()
    assert values["snellen:always-a"] == results["snellen:always-a"]["shape"].value()
    assert type(frame.head()) is pd.DataFrame
    assert pickle.loads(pickle.dumps(frame)).equals(frame)
    assert len(pd.concat([frame, frame])) == 2 * len(frame)
    with pytest.raises(KeyError):
        _ = frame[["value", "nothing"]]


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_results_and_their_rows_have_the_numbers_of_the_headline(results: sn.Results) -> None:
    shapes = results["snellen:always-a"]["shape"]
    row = shapes[0]
    assert shapes.ci == (shapes.low, shapes.high) == pytest.approx(row.ci)
    assert row.ci == (row.estimate.low, row.estimate.high) == (row.low, row.high)
    assert shapes.stderr == pytest.approx(row.stderr)
    assert row.stderr == row.estimate.stderr
    assert shapes.n == row.n == 20
    assert row.value == shapes.value()
    assert f"{shapes:.3f}" == f"{shapes.value():.3f}"
    assert round(shapes, 2) == round(shapes.value() or 0, 2)
    assert 0 <= shapes < 1 and shapes > -1 and shapes <= 1
    assert results["snellen:oracle"]["shape"].stderr is None  # all values are equal
    with pytest.raises(TypeError, match=r"first\.compare\(second\) tests their difference"):
        _ = shapes > results["snellen:oracle"]
    with pytest.raises(DataError, match="2 values match headline"):
        _ = results.ci


def test_metrics_are_a_mapping_of_numbers(results: sn.Results) -> None:
    shapes = results["snellen:always-a"]["shape"]
    accuracy = shapes.metrics["accuracy"]
    assert accuracy.value == float(accuracy) == shapes.accuracy
    assert accuracy.ci == (accuracy.low, accuracy.high) == shapes.ci
    assert "accuracy" in shapes.metrics
    assert set(shapes.metrics) == {row.metric for row in shapes.rows if not row.slice}
    with pytest.raises(UnknownNameError, match="did you mean accuracy"):
        _ = shapes.metrics["acuracy"]
    with pytest.raises(DataError, match="values match accuracy"):
        _ = results.metrics["accuracy"]


def test_wrong_replies_are_filtered_by_a_function(results: sn.Results) -> None:
    shapes = results["snellen:always-a"]["shape"]
    table = shapes.samples.to_pandas()
    wrong = table.query("correct == False")["sample_id"].to_list()
    assert 0 < len(wrong) < len(table)
    for filtered in (
        shapes.wrong(),
        shapes.samples[~shapes.samples["correct"]],
        shapes.samples[shapes.samples["correct"] == False],  # noqa: E712
        shapes.filter(lambda row: not row.correct),
        shapes.samples.filter(lambda row: not row["correct"]),
        shapes.samples.filter(correct=False),
    ):
        assert filtered["sample_id"].to_list() == wrong
    with pytest.raises(AttributeError, match="gold has the correct texts"):
        shapes.filter(lambda row: row.answer == "star")
    with pytest.raises(DataError, match="only\\(where="):
        shapes.filter("correct == False")  # pyrefly: ignore[bad-argument-type]


@pytest.mark.parametrize("name", ["callbacks", "callback", "SnellenCallback"])
def test_callbacks_of_other_libraries_are_answered(name: str) -> None:
    with pytest.raises(AttributeError, match=r"sn\.EvaluationCallback"):
        getattr(sn, name)


def test_a_processor_belongs_to_a_model_in_memory() -> None:
    with pytest.raises(DataError, match="a model string loads its own processor"):
        evaluated(processor=object())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("score", "it is value"),
        ("p_value", r"sn\.compare\(first, second\) has p-values"),
        ("std", "stderr is the standard error"),
        ("accuracy", "this row is of that metric: value, ci"),
        ("reply", "samples of the results"),
    ],
)
def test_a_row_says_what_a_number_is_called(name: str, hint: str, results: sn.Results) -> None:
    with pytest.raises(AttributeError, match=f"'Result' object has no attribute '{name}'; {hint}"):
        getattr(results[0], name)


def test_the_keys_of_other_harnesses_are_answered(results: sn.Results) -> None:
    with pytest.raises(UnknownNameError, match=r"results\['eyechart/shape'\]\.value\(\)"):
        _ = results["results"]["eyechart/shape"]


def test_a_number_is_found_by_model_and_benchmark(results: sn.Results) -> None:
    shapes = results["snellen:always-a", "shape"]
    assert shapes.benchmarks == ["eyechart/shape"]
    assert [run.manifest.model for run in shapes.runs] == ["snellen:always-a"]
    always = results["snellen:always-a"]
    assert always.value("accuracy", "shape") == shapes.value() == always.value(benchmark="shape")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: sn.load_benchmark("eyechart/shape", limit=4), r"load_benchmark\(NAME\)\[:n\]"),
        (lambda: sn.load_benchmark("eyechart/shape")["question"], r"to_pandas\(\)\['question'\]"),
        (lambda: sn.load_benchmark("eyechart/shape").describe(), r"to_pandas\(\) has the methods"),
        (lambda: sn.confusion_matrix, "gold and chosen_text"),
        (lambda: evaluated(bootstrap_iters=100), r"results\.ci is the 95% interval"),
        (lambda: evaluated(average="macro"), r"results\.by\('TAG'\)"),
        (lambda: evaluated(apply_chat_template="x"), "always applied"),
        (lambda: evaluated().compare("runs/other"), r"sn\.compare\(results, 'runs/other'\)"),
        (lambda: evaluated().classification_report(), r"print\(results\)"),
    ],
)
def test_lines_of_other_libraries_are_answered(call: Any, line: str) -> None:
    with pytest.raises((AttributeError, TypeError, sn.SnellenError), match=line):
        call()


def evaluated(**fields: Any) -> sn.Results:
    return sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, **fields)


def test_keywords_that_ask_for_what_happens_anyway_are_taken() -> None:
    usual = evaluated().runs[0].folder
    others = {"apply_chat_template": True, "log_samples": True, "write_out": True}
    assert evaluated(**others).runs[0].folder == usual
    sampled = evaluated(gen_kwargs="temperature=0.5,max_new_tokens=8").runs[0].manifest
    assert (sampled.decoding.temperature, sampled.decoding.max_new_tokens) == (0.5, 8)
    batched = sn.evaluate("snellen:tiny", "eyechart/shape", limit=2, model_args="batch_size=4")
    assert batched.runs[0].manifest.model == "snellen:tiny?batch_size=4"
    with pytest.raises(UnknownNameError, match=r"the first argument: 'hf:org/name'"):
        evaluated(model_args="pretrained=org/name")


def test_a_comparison_is_a_sequence_of_differences(results: sn.Results) -> None:
    comparison = sn.compare(results["snellen:oracle"], results["snellen:always-a"])
    assert len(comparison) == len(list(comparison)) == len(comparison.to_pandas())
    assert comparison[0] == comparison.rows[0]
    overall = comparison.overall
    assert overall.scope == "overall"
    assert overall.ci == (overall.difference.low, overall.difference.high)
    assert overall.ci == (overall.low, overall.high)
    assert (overall.stderr, overall.n) == (overall.difference.stderr, overall.difference.n)
    assert overall.significant
    shape = comparison["shape"]
    assert {row.benchmark for row in shape} == {"eyechart/shape"}
    assert {flip.benchmark for flip in shape.flips} == {"eyechart/shape"}
    assert shape.overall == shape.differences[0]
    written = pd.read_csv(comparison.to_csv("comparison.csv", index=False))
    assert len(written) == len(comparison)
    assert written["difference"][0] == comparison[0].difference.value
    with pytest.raises(UnknownNameError, match="did you mean eyechart/shape"):
        _ = comparison["shpe"]
    same = sn.compare(
        results["snellen:oracle"], results["snellen:oracle"].only(where="level == 'hard'")
    )
    assert not any(row.significant for row in same)


@pytest.mark.parametrize(
    ("look", "hint"),
    [
        (lambda comparison: comparison.p, r"comparison\[0\]\.p, .*comparison\.overall\.p"),
        (lambda comparison: comparison.ci, r"comparison\[0\]\.ci"),
        (lambda comparison: comparison.winner, r"comparison\.overall\.significant"),
        (lambda comparison: comparison.samples, r"flip_table\(\)"),
        (lambda comparison: comparison[0].p_value, "it is p; p_adjusted is corrected"),
        (lambda comparison: comparison[0].delta, r"difference\.value"),
        (lambda comparison: comparison[0].std, "stderr"),
    ],
)
def test_a_comparison_says_what_a_number_is_called(
    look: Any, hint: str, results: sn.Results
) -> None:
    comparison = sn.compare(results["snellen:oracle"], results["snellen:always-a"])
    with pytest.raises(AttributeError, match=hint):
        look(comparison)


def test_a_folder_of_runs_stands_for_them() -> None:
    for name, model in (("right", "snellen:oracle"), ("a", "snellen:always-a")):
        sn.evaluate(model, "eyechart/shape", limit=8, name=name)
    labels = {"snellen:oracle", "snellen:always-a"}
    assert set(sn.compare("runs").labels) == labels
    for results in (sn.load_run("runs"), sn.score("runs"), sn.load_run(["runs"])):
        assert {row.model for row in results} == labels
    with pytest.raises(sn.StoreError, match="there is no folder nothing"):
        sn.compare("nothing", "runs/a")


# --- plots ------------------------------------------------------------------------------------------------------------


def test_a_plot_has_the_methods_of_a_figure(
    results: sn.Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = results.plot()
    assert plot.savefig("chart.svg").read_text() == plot.svg == plot._repr_svg_()
    assert plot.savefig(Path("chart.png"), bbox_inches="tight").read_bytes()[:4] == b"\x89PNG"
    assert plot.svg in plot.to_html() == plot._repr_html_()
    opened: list[str] = []

    def open_page(address: str) -> bool:
        opened.append(address)
        return len(opened) == 1

    monkeypatch.setattr(webbrowser, "open", open_page)
    plot.show()
    assert Path(opened[0].removeprefix("file://")).read_text() == plot.svg
    assert capsys.readouterr().err == ""
    plot.show()
    assert capsys.readouterr().err.strip() == opened[1].removeprefix("file://")
    with pytest.raises(TypeError, match="'dpi'; the suffix of the path says the format"):
        plot.savefig("chart.png", dpi=300)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("set_title", r"results\.to_pandas\(\)"),
        ("axes", r"results\.to_pandas\(\)"),
        ("write_image", r"savefig\(path\)"),
        ("savefigg", "did you mean savefig"),
    ],
)
def test_a_plot_knows_the_names_of_matplotlib(name: str, hint: str, results: sn.Results) -> None:
    with pytest.raises(AttributeError, match=f"'Plot' object has no attribute '{name}'; .*{hint}"):
        getattr(results.plot(), name)


# --- own questions ----------------------------------------------------------------------------------------------------


def own_rows(**changes: Any) -> list[dict[str, Any]]:
    """Return eight questions about coloured images with usual columns of categories."""
    colours = ["red", "blue", "green", "pink"]
    rows = []
    for number in range(8):
        colour = colours[number % 4]
        Image.new("RGB", (16, 16), colour).save(f"{colour}.png")
        row = {"image": f"{colour}.png", "question": f"Which colour is image {number}?"}
        row |= dict(zip("ABCD", colours, strict=True))
        row |= {"answer": "ABCD"[number % 4], "category": ["warm", "cold"][number % 2]}
        row |= {"l2-category": ["x", "y"][number // 4], "subject": "art", "split": "test"}
        rows.append(row | changes)
    return rows


@pytest.mark.parametrize("form", ["frame", "rows", "csv", "tsv", "jsonl"])
def test_columns_of_categories_are_tags(form: str) -> None:
    rows = own_rows()
    frame = pd.DataFrame(rows)
    questions: Any = {"frame": frame, "rows": rows}.get(form, f"mine.{form}")
    if form == "jsonl":
        frame.to_json("mine.jsonl", orient="records", lines=True)
    else:
        frame.to_csv(f"mine.{form}", index=False, sep="\t" if form == "tsv" else ",")
    lines: list[str] = []
    results = sn.evaluate("snellen:always-a", questions, "vanilla", announce=lines.append)
    assert "tag  `category` `l2-category` `subject` `split`" in "\n".join(lines)
    accuracies = results.by("category").filter(metric="accuracy")
    assert dict(zip(accuracies["category"], accuracies["value"], strict=True)) == {
        "warm": 0.5,
        "cold": 0.0,
    }
    warm = sn.evaluate("snellen:always-a", questions, "vanilla", where="category == 'warm'")
    assert warm.n == 4


def test_tags_that_the_user_names_are_the_only_ones() -> None:
    results = sn.evaluate("snellen:always-a", own_rows(), columns={"tag": "subject"})
    with pytest.raises(UnknownNameError, match="unknown tag 'category'"):
        results.by("category")


def test_a_column_of_long_or_many_values_is_no_tag() -> None:
    rows = [row | {"category": f"kind {number}"} for number, row in enumerate(own_rows())]
    with pytest.raises(UnknownNameError, match="unknown tag 'category'"):
        sn.evaluate("snellen:always-a", rows).by("category")


def test_columns_are_named_in_evaluate() -> None:
    frame = pd.DataFrame(own_rows()).rename(columns={"answer": "wahr", "image": "bild"})
    columns = {"answer": "wahr", "image": "bild"}
    assert sn.evaluate("snellen:always-a", frame, columns=columns).value() == 0.25
    frame.to_csv("mine.csv", index=False)
    assert sn.evaluate("snellen:always-a", "mine.csv", columns=columns).value() == 0.25
    with pytest.raises(DataError, match=r"columns=\.\.\. is for your own rows and files"):
        sn.evaluate("snellen:always-a", "eyechart/shape", columns=columns)


def test_equal_rows_and_columns_are_one_benchmark_and_one_run() -> None:
    columns = {"tag": "category"}
    built = [sn.build(pd.DataFrame(own_rows()), columns=columns) for _ in range(2)]
    assert built[0].folder == built[1].folder
    runs = [sn.evaluate("snellen:always-a", each).runs[0].folder for each in built]
    assert runs[0] == runs[1]
    other = sn.build(pd.DataFrame(own_rows()), columns={"tag": "subject"})
    assert other.folder != built[0].folder


def test_an_edited_file_is_asked_in_a_run_of_its_own() -> None:
    frame = pd.DataFrame(own_rows())
    frame.to_csv("mine.csv", index=False)
    first = sn.evaluate("snellen:always-a", "mine.csv").runs[0]
    frame.assign(question="Which colour?").to_csv("mine.csv", index=False)
    lines: list[str] = []
    second = sn.evaluate("snellen:always-a", "mine.csv", announce=lines.append).runs[0]
    assert second.folder != first.folder
    assert f"{first.folder} contains replies to an earlier build of mine; new replies go to " in (
        "\n".join(lines)
    )
    assert sn.evaluate("snellen:always-a", "mine.csv").runs[0].folder == second.folder
    with pytest.raises(sn.StoreError, match="the current build is version"):
        sn.evaluate("snellen:always-a", "mine.csv", name=first.folder.name)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (
            "export runs/x --format csv --output x.csv",
            "writes a row for each reply; numbers are written by `snellen report runs/x -o x.csv`",
        ),
        ("export runs/x --format inspect", "use `--as NAME`"),
        (
            "run snellen:oracle eyechart/shape --limit 4 --output runs/b",
            "`snellen run snellen:oracle eyechart/shape --limit 4 --runs runs/b`",
        ),
        (
            "run --model snellen:tiny --tasks eyechart/shape --log_samples --output_path out",
            "`snellen run snellen:tiny eyechart/shape --runs out` (left out: --log_samples (every reply is stored))",
        ),
        ("score runs/x --judge snellen:oracle", "the oracle knows answers of benchmarks"),
    ],
)
def test_lines_of_other_commands_are_answered(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="x")
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    assert stopped.value.code
    assert answer in " ".join(capsys.readouterr().err.split())


def test_a_folder_with_one_run_stands_for_it() -> None:
    for folder, model in (("first", "snellen:oracle"), ("second", "snellen:always-a")):
        sn.evaluate(model, "eyechart/shape", limit=8, runs=folder)
    for line in (
        "score first",
        "compare first second -o comparison.csv",
        "export first -o samples.parquet",
        "card first",
    ):
        with pytest.raises(SystemExit) as stopped:
            main(line.split())
        assert stopped.value.code == 0, line
    assert len(pd.read_parquet("samples.parquet")) == 8
    assert Path("comparison.csv").exists()


def test_the_oracle_is_no_judge() -> None:
    with pytest.raises(DataError, match="the oracle knows answers of benchmarks and cannot judge"):
        evaluated(judge="snellen:oracle")


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("callbacks", "sn.EvaluationCallback"),
        ("trainer", "sn.EvaluationCallback"),
        ("datasets", "sn.load_benchmark"),
        ("tasks", "sn.list_benchmarks"),
        ("evaluator", "sn.evaluate"),
        ("utils", "snellen.plugin_api"),
        ("judges", "judge=..."),
        ("results", "sn.load_run"),
        ("nothing_like_it", "dir(snellen)"),
    ],
)
def test_a_module_of_other_libraries_is_answered_by_what_is_here(module: str, hint: str) -> None:
    for line in (f"from snellen.{module} import anything", f"import snellen.{module}"):
        with pytest.raises(ModuleNotFoundError) as told:
            exec(line)  # as a user writes it
        assert hint in str(told.value) and "from snellen import NAME" in str(told.value)


def test_modules_that_are_there_and_those_of_others_are_left_alone() -> None:
    exec("from snellen.plugin_api import register")
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'snellenly'$"):
        exec("import snellenly")
    exec("from snellen.metrics import vqa")
    assert not hasattr(sn.metrics, "accuracy")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("from snellen import simple_evaluate", "did you mean sn.evaluate?"),
        ("from snellen import leaderboard", "has a column for each model"),
        ("from snellen.metrics import accuracy", "results.value('accuracy')"),
        ("from snellen.metrics import f1_score", "metrics=..."),
        ("from snellen.models import HFModel", "did you mean sn.hf?"),
        ("from snellen.protocols import protocols", "did you mean sn.list_protocols?"),
        ("from snellen.report import report", "results.report('report.html')"),
        ("from snellen.runs import load_results", "did you mean sn.load_run?"),
        ("import snellen.scoring.scorer", "did you mean sn.metric?"),
    ],
)
def test_a_name_that_is_not_there_is_answered_by_the_public_one(line: str, hint: str) -> None:
    with pytest.raises(ImportError) as told:
        exec(line)  # as a user writes it
    assert hint in str(told.value) and "from snellen import NAME" in str(told.value)


def test_the_answer_about_a_module_is_no_finder_of_the_whole_process() -> None:
    finders = [getattr(finder, "__module__", "") for finder in sys.meta_path]
    assert not any(module.startswith("snellen") for module in finders)
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError, match=r"sn\.EvaluationCallback"):
        exec("import snellen.callbacks")
    found = {module.name for module in pkgutil.iter_modules(sn.__path__)}
    assert {"api", "metrics"} <= found and "callbacks" not in found
