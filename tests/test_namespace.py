"""What users of pandas, scikit-learn and other harnesses try first: names, containers, frames, own metrics."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest
import sklearn.metrics
import torch
from PIL import Image

import snellen as sn
from snellen.api import EVALUATE_KEYWORDS
from snellen.errors import DataError, HookError, UnknownNameError
from snellen.extraction import find_extractor
from snellen.keyword_names import MODEL_OPTIONS, SYNONYMS
from snellen.metrics.declaration import find_metric
from snellen.models.hf.load import HfOptions
from snellen.models.openai_places import OpenAIOptions
from snellen.scoring.answers import open_answers


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> sn.Results:
    runs = tmp_path_factory.mktemp("runs")
    models = ["snellen:oracle", "snellen:always-a"]
    return sn.evaluate(models, ["eyechart/shape", "eyechart/count"], limit=40, runs=runs)


# --- benchmarks -------------------------------------------------------------------------------------------------------


def test_a_loaded_benchmark_is_a_sequence_of_questions_with_answers_and_images() -> None:
    benchmark = sn.load_benchmark("eyechart/shape")
    answers = open_answers(benchmark.folder)
    assert len(benchmark) == len(list(benchmark)) == len(benchmark[:]) == 300
    for question in benchmark[5:8]:
        [right] = answers[question.id, 0].options
        assert question.answer == question.options[right]
        assert question.answers == (question.answer,)
    assert benchmark[-1].id == benchmark[299].id
    assert benchmark[benchmark[3].id].question == benchmark[3].question
    assert benchmark[0].image.size == (256, 256)
    assert benchmark[0].question in benchmark[0]._repr_html_()
    with pytest.raises(IndexError):
        benchmark[300]
    with pytest.raises(UnknownNameError, match="eyechart/shape has no question 'nope'"):
        benchmark["nope"]


def test_parts_of_a_benchmark_are_evaluated_as_benchmarks() -> None:
    shapes = sn.load_benchmark("eyechart/shape")
    hard = shapes.filter(lambda question: question.tags["level"] == "hard")
    stars = [question for question in shapes if question.answer == "star"]
    parts = {
        "slice": shapes[5:10],
        "select": shapes.select(range(3)),
        "filter": hard.head(4),
        "shuffle": shapes.shuffle(seed=7)[:6],
        "list": stars[:2],
    }
    for how, part in parts.items():
        results = sn.evaluate("snellen:oracle", part, "vanilla", name=how)
        asked = {row["sample_id"] for row in results.samples().to_dicts()}
        assert asked == {question.id for question in part}, how
        assert results.value() == 1.0


def test_a_shuffle_is_the_same_for_its_seed_and_keeps_every_question() -> None:
    shapes = sn.load_benchmark("eyechart/shape")
    ids = [question.id for question in shapes]
    shuffled = [question.id for question in shapes.shuffle(seed=1)]
    assert shuffled != ids and sorted(shuffled) == sorted(ids)
    assert shuffled == [question.id for question in shapes.shuffle(seed=1)]
    assert shuffled != [question.id for question in shapes.shuffle(seed=2)]
    assert len(shapes.head()) == 5
    with pytest.raises(IndexError):
        shapes.select([300])


def test_no_question_and_questions_of_two_benchmarks_are_refused() -> None:
    shapes = sn.load_benchmark("eyechart/shape")
    with pytest.raises(DataError, match="no question of eyechart/shape is selected"):
        sn.evaluate("snellen:oracle", shapes[:0])
    mixed = [shapes[0], sn.load_benchmark("eyechart/count")[0]]
    with pytest.raises(DataError, match="a list of questions must be of one benchmark"):
        sn.evaluate("snellen:oracle", mixed)


def test_own_questions_are_loaded_like_a_benchmark() -> None:
    Image.new("RGB", (32, 32), "red").save("red.png")
    row = {"image": "red.png", "question": "Which?", "A": "red", "B": "blue", "answer": "A"}
    [question] = sn.load_benchmark([row])
    assert (question.answer, question.image.size) == ("red", (32, 32))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("missing.csv", "there is no file missing.csv; check the path"),
        ("MMBench", "unknown benchmark 'MMBench'; did you mean the suite mmbench, or one of it"),
        ("mmbench", "mmbench is 9 benchmarks; name one of them: mmbench/ccbench, "),
    ],
)
def test_a_name_of_no_benchmark_says_what_is_wrong(name: str, fault: str) -> None:
    with pytest.raises(sn.SnellenError, match=fault):
        sn.load_benchmark(name)
    if name != "mmbench":
        with pytest.raises(sn.SnellenError, match=fault):
            sn.evaluate("snellen:uniform", name)


# --- one question -----------------------------------------------------------------------------------------------------


def test_a_loaded_model_answers_a_question_about_an_image_in_any_form() -> None:
    model = sn.load_model("snellen:tiny")
    shape = sn.load_benchmark("eyechart/shape")[0]
    shape.image.save("shape.png")
    forms = [
        "shape.png",
        Path("shape.png"),
        shape.image,
        Path("shape.png").read_bytes(),
        np.asarray(shape.image),
        [shape.image],
    ]
    replies = {model.generate(form, shape.question) for form in forms}
    assert replies == {"star"}
    assert isinstance(model.generate(None, "What is red?"), str)
    [row] = sn.evaluate(model, "eyechart/shape", "vanilla", limit=4)
    assert row.model == "snellen:tiny"


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        ("What shape?", "there is no image What shape\\?; the image comes first"),
        (3, "int is not an image; give a path"),
        (np.zeros((3, 4, 4)), r"an array of float64 with shape \(3, 4, 4\) is not an image"),
        (b"text", "the image"),
    ],
)
def test_what_is_no_image_is_refused_in_one_line(image: Any, fault: str) -> None:
    with pytest.raises(DataError, match=fault) as raised:
        sn.load_model("snellen:uniform").generate(image, "What shape?")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("arguments", [("What shape?",), (b"picture",), ("shape.png", 3)])
def test_a_question_that_is_missing_is_asked_for_in_one_line(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(DataError, match="needs an image, or None, and the text of a question"):
        sn.load_model("snellen:uniform").generate(*arguments)


def test_a_loaded_model_can_be_copied() -> None:
    model = copy.copy(sn.load_model("snellen:tiny"))
    assert isinstance(model.generate(None, "What is red?"), str)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_a_benchmark_is_a_data_frame(form: str) -> None:
    benchmark = sn.load_benchmark("eyechart/shape")
    frame = getattr(benchmark, f"to_{form}")()
    assert isinstance(frame, pd.DataFrame if form == "pandas" else pl.DataFrame)
    assert len(frame) == 300
    [image] = frame["images"][0]
    with Image.open(image) as opened:
        assert opened.size == (256, 256)


def test_what_was_built_is_loaded_and_evaluated() -> None:
    built = sn.build("eyechart/shape", to="mine")
    loaded = sn.load_benchmark(built)
    assert loaded.folder == built.folder
    for benchmark in (built, loaded):
        assert sn.evaluate("snellen:oracle", benchmark, limit=4).value() == 1.0


ROWS = [
    {"image": "red.png", "question": "Colour?", "A": "red", "B": "blue", "answer": "A"},
    {"image": "blue.png", "question": "Colour?", "A": "green", "B": "blue", "answer": "B"},
]


@pytest.mark.parametrize("form", ["rows", "pandas", "polars", "dataset", "csv", "jsonl"])
def test_own_questions_of_any_form_are_evaluated(form: str) -> None:
    for colour in ("red", "blue"):
        Image.new("RGB", (8, 8), colour).save(f"{colour}.png")
    questions: Any = {
        "rows": lambda: ROWS,
        "pandas": lambda: pd.DataFrame(ROWS),
        "polars": lambda: pl.DataFrame(ROWS),
        "dataset": lambda: datasets.Dataset.from_list(ROWS),
        "csv": lambda: "mine.csv",
        "jsonl": lambda: Path("mine.jsonl"),
    }[form]()
    pd.DataFrame(ROWS).to_csv("mine.csv", index=False)
    pd.DataFrame(ROWS).to_json("mine.jsonl", orient="records", lines=True)

    results = sn.evaluate("snellen:always-a", questions, "vanilla")
    [row] = results
    assert row.estimate.value == 0.5
    assert row.estimate.n == 2


def test_equal_rows_are_one_benchmark_and_other_rows_another() -> None:
    for colour in ("red", "blue"):
        Image.new("RGB", (8, 8), colour).save(f"{colour}.png")
    names = [
        sn.evaluate("snellen:oracle", rows).benchmarks[0] for rows in (ROWS, [*ROWS], ROWS[::-1])
    ]
    assert names[0] == names[1] != names[2]


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_are_chosen_by_benchmark_and_model(results: sn.Results) -> None:
    assert results["shape"].benchmarks == ["eyechart/shape"]
    assert results["eyechart"].benchmarks == ["eyechart/shape", "eyechart/count"]
    oracle = results["snellen:oracle"]
    assert oracle.value() == 1.0 == float(oracle)
    shares = [results["snellen:always-a"][name].value() for name in ("shape", "count")]
    assert results["snellen:always-a"].value() == pytest.approx(sum(shares) / 2)
    with pytest.raises(
        UnknownNameError, match="unknown benchmark or model 'eyechart/shpe'; did you mean"
    ):
        results["eyechart/shpe"]


def test_iterating_yields_the_headline_of_each_model_and_benchmark(results: sn.Results) -> None:
    assert len(results) == 4
    found = [(row.benchmark, row.model, row.metric) for row in results]
    assert found == [
        (benchmark, model, "accuracy")
        for benchmark in ("eyechart/shape", "eyechart/count")
        for model in ("snellen:oracle", "snellen:always-a")
    ]
    assert results[0].estimate.value == 1.0
    assert results[:1] == [results[0]]


def test_printed_results_show_the_numbers(results: sn.Results) -> None:
    text = str(results)
    assert "eyechart/shape" in text
    assert "100.0%" in text
    assert "\x1b" not in text


def test_results_become_frames_files_and_a_chart(results: sn.Results, tmp_path: Path) -> None:
    assert len(results.to_pandas()) == len(results.to_polars()) == len(results.table())
    assert len(pd.read_csv(results.to_csv("numbers.csv"))) == len(results.rows)
    assert r"\begin{tabular}" in results.to_latex()
    chart = results.plot()
    assert chart._repr_svg_().startswith("<svg")
    assert chart.save("chart.svg").read_text().startswith("<svg")
    with pytest.raises(DataError, match="a chart is written as svg, png, pdf"):
        chart.save("chart.gif")


def test_a_file_alone_is_exported_as_a_table(results: sn.Results, tmp_path: Path) -> None:
    assert results.export(str(tmp_path / "replies.csv")) == [tmp_path / "replies.csv"]
    by_name = results.export("samples", tmp_path / "same.csv")[0]
    assert (tmp_path / "replies.csv").read_text() == by_name.read_text()


def test_runs_are_compared_however_they_are_held(results: sn.Results) -> None:
    first, second = results["snellen:oracle"], results["snellen:always-a"]
    folders = [run.folder for run in results.runs]
    for comparison in (sn.compare(first, second), sn.compare(*folders), results.compare()):
        overall = [each for each in comparison.differences if each.scope == "overall"]
        assert overall[0].first_value == 1.0


# --- names ------------------------------------------------------------------------------------------------------------


def test_lists_hold_names_that_work() -> None:
    assert "eyechart/shape" in sn.list_benchmarks()
    assert sn.list_benchmarks("mmstar") == ["modern/mmstar"]
    own = {"image": Image.new("RGB", (16, 16)), "question": "Which colour?", "answer": "black"}
    sn.build([own], name="black-squares")
    assert "black-squares" in sn.list_benchmarks()
    for pattern in ("squares", "black-*", "black-squares"):
        assert sn.list_benchmarks(pattern) == ["black-squares"]
    assert sn.list_benchmarks("mmstar", built=True) == []
    assert "black-squares" in sn.list_benchmarks(built=True)
    assert "modern/mmstar" not in sn.list_benchmarks(built=True)
    assert {"pope", "mmbench", "eyechart"} <= set(sn.list_suites())
    assert "circular" in sn.list_protocols()
    assert "accuracy" in sn.list_metrics()
    for name in ("snellen:tiny", "snellen:uniform"):
        assert name in sn.list_models()
        sn.load_model(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("simple_evaluate", "evaluate"),
        ("list_tasks", "list_benchmarks"),
        ("load_dataset", "load_benchmark"),
        ("evalute", "evaluate"),
    ],
)
def test_names_of_other_libraries_are_answered(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=rf"; did you mean sn\.{meant}\?$"):
        getattr(sn, name)


# --- own metrics and extractors ---------------------------------------------------------------------------------------


def same_first_letter(reply: str, references: list[str]) -> float:
    return float(reply[:1] == references[0][:1])


def test_a_function_is_a_metric() -> None:
    results = sn.evaluate("snellen:oracle", "eyechart/word", limit=6, metrics=same_first_letter)
    assert results.value("same_first_letter") == 1.0
    again = sn.score(results.runs[0].folder, metrics=(each for each in (same_first_letter, "anls")))
    assert again.value("same_first_letter") == 1.0


def test_a_decorated_metric_has_its_title_and_direction() -> None:
    @sn.metric(name="reply_length", title="length", unit="characters", better="lower")
    def length(reply: str, references: list[str]) -> float:
        return len(reply)

    results = sn.evaluate("snellen:oracle", "eyechart/word", limit=6, metrics="reply_length")
    assert results.value("reply_length") > 1
    assert find_metric("reply_length").rows[0].heading == "length (characters, lower is better)"


def equals_target(prediction: str, target: str) -> float:
    return float(prediction == target)


def far_from_target(prediction: str, target: str) -> float:
    return float(prediction != target)


def test_a_metric_of_one_reference_takes_the_best_of_all() -> None:
    rows = [{"question": "Which?", "answer": ["a cat", "cat"], "image": Image.new("RGB", (8, 8))}]
    reply = "cat"
    sn.metric(better="lower")(far_from_target)
    results = sn.evaluate(
        lambda question, images: reply, rows, metrics=[equals_target, far_from_target]
    )
    assert (results.value("equals_target"), results.value("far_from_target")) == (1.0, 0.0)
    assert "equals target" in str(results)


def test_a_metric_says_which_references_it_takes() -> None:
    def odd(reply: str, other: str) -> float:
        return 1.0

    with pytest.raises(DataError, match=r"`reference` .* or `references` .*; rename 'other'"):
        sn.evaluate("snellen:oracle", "eyechart/word", limit=2, metrics=odd)


def test_a_metric_that_is_always_reported_may_be_named() -> None:
    results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, metrics=["accuracy"])
    assert results.value("accuracy") == 1.0
    with pytest.raises(UnknownNameError, match=r"accuracy is a metric; write value\('accuracy'\)"):
        results["accuracy"]


def last_letter_of(reply: str) -> str:
    return reply[-1:]


def second_option(reply: str, options: list[str], labels: list[str]) -> int:
    return 1


def test_a_function_is_an_extractor() -> None:
    benchmark = sn.load_benchmark("eyechart/shape")
    golds = [question.options.index(question.answer) for question in benchmark[:8]]

    def reply(question: str, images: list[Image.Image]) -> str:
        return "Neither A nor C, so it must be, I suppose: B"

    for extractor in (last_letter_of, second_option):
        results = sn.evaluate(reply, benchmark[:8], extractor=extractor)
        assert results.value() == golds.count(1) / 8
    assert sn.score(results.runs[0].folder, extractor=last_letter_of).value() == golds.count(1) / 8
    by_lambda = sn.evaluate(reply, benchmark[:8], extractor=lambda text: text.split()[-1])
    assert by_lambda.value() == golds.count(1) / 8
    with pytest.raises(DataError, match="a function of the reply or of"):
        sn.evaluate(reply, benchmark[:8], extractor=3)


def test_a_file_of_predictions_is_scored_as_on_the_command_line() -> None:
    rows = {"question": ["a?", "b?"], "answer": ["A", "B"], "A": ["x", "y"], "B": ["u", "v"]}
    pd.DataFrame({**rows, "prediction": ["A", "A"]}).to_csv("preds.csv", index=False)
    told: list[str] = []
    assert sn.score("preds.csv", announce=told.append).value() == 0.5
    assert "preds.csv is the run" in told[0]
    with pytest.raises(UnknownNameError, match="did you mean eyechart/shape"):
        sn.score("preds.csv", "eyechart/shap")
    run = sn.evaluate("snellen:oracle", "eyechart/shape", limit=2).runs[0].folder
    with pytest.raises(DataError, match="not a file of predictions"):
        sn.score(run, "eyechart/shape")


def test_a_cache_is_a_folder_or_nothing() -> None:
    assert sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, cache=False).value() == 1.0
    with pytest.raises(DataError, match="cache is a folder"):
        sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, cache=True)


@pytest.mark.parametrize(
    ("metric", "error", "line"),
    [
        ({"mine": "exact_match"}, DataError, "give functions by name"),
        ({"not a name": len}, DataError, "'not a name' is not a name of a metric"),
        (lambda a, b, c: 1.0, DataError, r"own_metric\(a, b, c\): the names of the parameters"),
        (3, DataError, "3 is not a metric"),
        ("nowhere.py:mine", UnknownNameError, "there is no file nowhere.py"),
        ("own.py:anls", DataError, "another metric is called anls"),
    ],
)
def test_what_is_no_metric_is_refused(metric: Any, error: type[Exception], line: str) -> None:
    Path("own.py").write_text("def anls(reply, references):\n    return 1.0\n")
    with pytest.raises(error, match=line):
        sn.evaluate("snellen:oracle", "eyechart/word", limit=2, metrics=metric)


def test_a_decorated_metric_in_a_file_is_named_on_the_command_line() -> None:
    Path("my_metrics.py").write_text(
        "import snellen as sn\n\n"
        '@sn.metric(title="equally long")\n'
        "def same_length(reply, reference):\n"
        "    return float(len(reply) == len(reference))\n"
    )
    snellen = ("-m", "snellen")
    metric = ("--metric", "my_metrics.py:same_length")
    run = (*snellen, "run", "snellen:oracle", "eyechart/word", "--limit", "2", "--name", "r")
    assert "equally long" in python(*run, *metric)
    assert "equally long" in python(*snellen, "score", "runs/r", *metric)


OWN_CODE = """
def last_letter(reply, references):
    return float(reply[-1:] == references[0][-1:])

def always_second(reply, options, labels):
    return 1
"""


def python(*words: str) -> str:
    command = [sys.executable, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metrics_and_extractors_are_named_by_their_file_and_loading_does_without_it() -> None:
    Path("own.py").write_text(OWN_CODE)
    command = ["-m", "snellen", "run", "snellen:oracle", "eyechart/word", "eyechart/shape"]
    own_code = ["--metric", "own.py:last_letter", "--extractor", "own.py:always_second"]
    python(*command, "--limit", "8", "--name", "mine", *own_code)

    Path("own.py").unlink()
    load = "import snellen as sn; results = sn.load_run('runs/mine')"
    show = "print(results['word'].value('last_letter'), results['shape'].value())"
    letters, accuracy = python("-c", f"{load}; {show}").split()
    assert float(letters) == 1.0
    assert float(accuracy) < 1.0  # the oracle does not always choose the second option


def test_code_that_a_run_from_elsewhere_names_is_never_imported() -> None:
    Path("evil.py").write_text("open('marker', 'w')\ndef it(*arguments):\n    return 1.0\n")
    metric = find_metric("evil.py:it")
    assert metric.names == ("it",)
    with pytest.raises(HookError, match=r"add metrics='evil\.py:it'"):
        metric("a", ["a"])
    find_extractor("evil.py:it")
    assert not Path("marker").exists()


# --- what users try, and what they are told ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("score", r"value\(\) is the headline"),
        ("to_dataframe", r"to_pandas\(\) has the numbers"),
        ("groupby", r"by\('NAME'\) has the numbers by a tag"),
        ("leaderboard", r"print\(results\) has a column for each model"),
        ("p_value", r"compare\(\) has p-values"),
        ("conf_int", r"ci is the 95% interval"),
        ("mistakes", r"wrong\(\) has the replies that are wrong"),
        ("replies", r"samples has a row for each reply"),
        ("to_dict", r"table\(\)\.to_dicts\(\)"),
        ("save", r"sn\.load_run\(results\.runs"),
        ("to_html", r"report\('report\.html'\)"),
        ("comparee", r"did you mean compare\?"),
    ],
)
def test_results_say_where_a_number_is(name: str, hint: str, results: sn.Results) -> None:
    with pytest.raises(
        AttributeError, match=f"'Results' object has no attribute '{name}'; .*{hint}"
    ):
        getattr(results, name)


def test_the_name_of_a_metric_is_its_value(results: sn.Results) -> None:
    for model in results.runs:
        one = results[model.manifest.model]
        assert one["shape"].accuracy == one["shape"].value("accuracy")
    with pytest.raises(DataError, match=r"as in value\('accuracy', model='snellen:oracle'\)"):
        _ = results.accuracy
    words = sn.evaluate(red, "eyechart/word", limit=4)
    assert words.exact_match == words.value("exact_match")
    with pytest.raises(AttributeError, match=r"the metrics of eyechart/word are .*exact_match"):
        _ = words.accuracy
    with pytest.raises(UnknownNameError, match="is called 'df'; there are eyechart/word, red"):
        _ = words["df"]


def test_wrong_replies_to_open_questions_are_in_the_table_of_samples() -> None:
    benchmark = sn.load_benchmark("eyechart/word")[:20]
    is_red = {question.id: question.answer == "red" for question in benchmark}
    table = sn.evaluate(red, benchmark).samples().to_pandas()
    assert dict(zip(table["sample_id"], table["correct"], strict=True)) == is_red
    wrong = table.query("correct == False").iloc[0]
    assert sn.load_benchmark(wrong["benchmark"])[wrong["sample_id"]].image.size == (256, 256)


def test_runs_are_listed_and_suggested_by_their_names() -> None:
    assert sn.list_runs() == []
    sn.evaluate(red, "eyechart/word", limit=2, name="mine")
    sn.evaluate_step(red, 3, "eyechart/word", limit=2, name="trained")
    assert sorted(sn.list_runs()) == ["runs/mine", "runs/trained/step-000003"]
    assert sn.load_run(sn.list_runs()).runs[0].manifest.model == "red"
    with pytest.raises(sn.StoreError, match=r"did you mean runs/mine\?"):
        sn.load_run("mine")


def test_predictions_in_memory_are_scored() -> None:
    frame = pd.DataFrame(
        {
            "question": ["2 + 2?", "2 + 3?"],
            "prediction": ["It is 4.", "6"],
            "answer": ["4", "5"],
        }
    )
    assert sn.score(frame).value() == 0.5
    assert sn.score(frame.to_dict("records")).value() == 0.5
    pairs = sn.score(predictions=list(frame["prediction"]), references=[["4", "four"], "5"])
    assert pairs.value() == 0.5
    with pytest.raises(DataError, match="2 predictions and 1 references"):
        sn.score(predictions=["4", "5"], references=["4"])
    with pytest.raises(DataError, match="predictions together with references"):
        sn.score(predictions=["4", "5"])
    with pytest.raises(DataError, match="score needs the folder of a run"):
        sn.score()


def test_what_python_prints_names_no_flags(results: sn.Results) -> None:
    oracle, always = results["snellen:oracle"], results["snellen:always-a"]
    comparison = sn.compare(oracle, always)
    for text in (str(results), str(comparison), results._repr_html_(), comparison._repr_html_()):
        assert " --" not in text and "(--" not in text, text


def test_two_lists_are_predictions_and_references() -> None:
    assert sn.score(pd.Series(["4", "6"]), pd.Series(["4", "5"])).value() == 0.5
    with pytest.raises(UnknownNameError, match="it finds columns by their names"):
        sn.score([{"mine": "4", "answer": "4"}], prediction_column="mine")


def test_rows_come_as_a_generator_a_dict_of_columns_an_arrow_table_and_arrays() -> None:
    pixels = [np.full((8, 8, 3), level, np.uint8) for level in (0, 120, 250)]
    rows = [
        {"question": "How bright is it?", "answer": str(array[0, 0, 0]), "image": array}
        for array in pixels
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    pictures = {**columns, "image": [Image.fromarray(array) for array in pixels]}
    encoded = [{**row, "image": png_of(row["image"])} for row in rows]
    folders = {
        sn.load_benchmark(given).folder
        for given in (rows, columns, pictures, pyarrow.Table.from_pylist(encoded))
    }
    assert len(folders) == 1
    results = sn.evaluate("snellen:oracle", (row for row in rows))
    assert results.value() == 1.0
    assert len(results.samples()) == 3
    with pytest.raises(DataError, match="a list of the same length for each"):
        sn.evaluate("snellen:oracle", {"question": ["a?", "b?"], "answer": ["c"]})


def png_of(pixels: Any) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def test_functions_are_named_by_a_dict() -> None:
    functions = {"base": red, "tuned": lambda question, images: "blue"}
    results = sn.evaluate(functions, "eyechart/word", limit=3)
    assert [run.manifest.model for run in results.runs] == ["base", "tuned"]
    with pytest.raises(DataError, match="give a list of models"):
        sn.evaluate({"base": "snellen:oracle"}, "eyechart/word", limit=3)


@pytest.mark.parametrize(
    ("call", "error", "line"),
    [
        (
            lambda: sn.evaluate(red, "eyechart/word[:5]"),
            DataError,
            r"add limit=5, or give sn\.load_benchmark\('eyechart/word'\)\[:5\]",
        ),
        (lambda: sn.evaluate(red), DataError, r"sn\.score\(rows\) scores predictions"),
        (lambda: sn.hf("org/name"), sn.ModelError, r"sn\.evaluate\('hf:org/name', \.\.\.\) loads"),
        (
            lambda: sn.evaluate(red, "eyechart/word", label_column="gold"),
            UnknownNameError,
            r"columns=\{'answer': COLUMN\}",
        ),
        (
            lambda: sn.evaluate(red, "eyechart/word", metrics=sklearn.metrics.accuracy_score),
            DataError,
            "accuracy_score of sklearn compares lists",
        ),
        (lambda: sn.load_benchmark("eyechart/word").features, AttributeError, r"as_row\(\)"),
        (
            lambda: sn.load_benchmark("eyechart/word")["test"],
            UnknownNameError,
            "a benchmark is one split",
        ),
        (lambda: sn.leaderboard, AttributeError, "has a column for each model"),
        (lambda: sn.load, AttributeError, r"sn\.load_run\(FOLDER\) loads a run"),
    ],
)
def test_what_other_libraries_have_is_answered_with_the_line_to_write(
    call: Any, error: type[Exception], line: str
) -> None:
    with pytest.raises(error, match=line):
        call()


def test_one_number_says_where_its_replies_are(results: sn.Results) -> None:
    with pytest.raises(AttributeError, match=r"samples of the results has a row"):
        _ = results[0].reply
    oracle, always = results["snellen:oracle"], results["snellen:always-a"]
    assert oracle.compare(always).differences == sn.compare(oracle, always).differences


def test_a_printed_comparison_has_values_interval_and_p(results: sn.Results) -> None:
    oracle, always = results["snellen:oracle"], results["snellen:always-a"]
    comparison = sn.compare([oracle["shape"], always["shape"]])
    [line] = [line for line in str(comparison).splitlines() if "eyechart/shape" in line]
    second = always["shape"].value()
    assert (
        f": snellen:oracle against snellen:always-a: 1 - {second:.4g} = +{1 - second:.4g} [" in line
    )
    difference = comparison.differences[0]
    assert line.split("p = ")[1] == f"{difference.p_adjusted:.3g}"
    assert f"[{difference.low_corrected:+.4g}, {difference.high_corrected:+.4g}]" in line
    assert "corrected (holm)" in str(comparison).splitlines()[-1]
    assert len(comparison.to_pandas()) == len(comparison.table())
    assert comparison.p_value == comparison.overall.p
    with pytest.raises(AttributeError, match=r"comparison\.overall\.p"):
        _ = comparison.p


def test_a_question_is_read_like_a_dict_and_a_benchmark_says_how_to_choose() -> None:
    benchmark = sn.load_benchmark("eyechart/shape")
    assert benchmark[0]["question"] == benchmark[0].question
    with pytest.raises(KeyError):
        benchmark[0]["nothing"]
    with pytest.raises(AttributeError, match="they are `options`"):
        _ = benchmark[0].choices
    with pytest.raises(AttributeError, match="head\\(n\\) has the first n questions"):
        _ = benchmark.take


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"tokenizer": 1}, r"evaluate sn\.hf\(model, processor\)"),
        ({"api_key": "x"}, "unless api_key_env='OPENAI_API_KEY' names its variable"),
        ({"subset": "easy"}, "limit=N"),
        ({"split": "test"}, "give the split itself"),
        ({"distractors": "pool"}, r"sn\.build\(questions, distractors="),
        ({"limt": 8}, "did you mean limit"),
    ],
)
def test_keywords_of_other_libraries_are_answered(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(UnknownNameError, match=hint):
        sn.evaluate("snellen:oracle", "eyechart/shape", **fields)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"resume": False}, "resume=False: the same call resumes"),
        ({"overwrite": True}, "overwrite=True: the same call resumes"),
        ({"limit": 2, "max_samples": 3}, "limit=... and max_samples=... are the same; keep one"),
        ({"generation_kwargs": 3}, "generation_kwargs: expected a dict"),
        ({"progress": 3}, "progress: expected True, False or a function, got 3"),
        ({"num_workers": 0}, "workers: expected a whole number >= 1"),
    ],
)
def test_values_that_cannot_be_meant_are_told(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(DataError, match=line):
        sn.evaluate(red, "eyechart/word", **fields)


def red(question: str, images: list[Image.Image]) -> str:
    return "red"


@pytest.mark.parametrize(
    "fields",
    [
        {"tasks": ["eyechart/word"], "max_samples": 4},
        {"benchmark": "eyechart/word", "num_samples": 4, "progress": False, "verbose": False},
        {"data": "eyechart/word", "n_samples": 4, "random_state": 0, "temp": 0},
        {
            "dataset": "eyechart/word",
            "n": 4,
            "resume": True,
            "overwrite": False,
            "use_cache": False,
        },
    ],
)
def test_usual_names_of_keywords_ask_for_the_same_run(fields: dict[str, Any]) -> None:
    by_own_names = sn.evaluate(red, "eyechart/word", limit=4)
    by_other_names = sn.evaluate(red, **fields)
    assert by_other_names.runs[0].folder == by_own_names.runs[0].folder


def test_settings_of_generation_come_in_a_table_or_one_by_one() -> None:
    given = {"max_tokens": 7, "temperature": 0.5, "do_sample": False}
    results = sn.evaluate(red, "eyechart/word", limit=2, generation_kwargs=given, output_dir="out")
    [run] = results.runs
    assert run.folder.parent == Path("out")
    decoding = run.manifest.decoding
    assert (decoding.max_new_tokens, decoding.temperature) == (7, 0.5)


def test_options_of_a_model_string_are_keywords() -> None:
    checkpoint = f"hf:{sn.tiny_checkpoint()}"
    options = {"device": "cpu", "torch_dtype": torch.float32, "system_prompt": "Be brief."}
    results = sn.evaluate(checkpoint, "eyechart/shape", limit=1, batch_size=2, **options)
    name = results.runs[0].manifest.model
    assert name == f"{checkpoint}?batch_size=2&device=cpu&dtype=float32&system=Be+brief."
    with pytest.raises(sn.ModelError, match="unknown option 'device'"):
        sn.evaluate("openai:none@http://127.0.0.1:9/v1", "eyechart/shape", device="cpu")
    with pytest.raises(UnknownNameError, match="device: options of model strings do not apply"):
        sn.evaluate(red, "eyechart/shape", device="cpu")
    with pytest.raises(UnknownNameError, match="device: such an option belongs to a model string"):
        sn.evaluate(sn.Scripted(lambda request: "A"), "eyechart/shape", device="cpu")


def test_every_option_that_is_a_keyword_is_one_of_model_strings() -> None:
    options = {*HfOptions.__struct_fields__, *OpenAIOptions.__struct_fields__}
    assert set(MODEL_OPTIONS) <= options
    taken = {other for others in (*SYNONYMS.values(), *MODEL_OPTIONS.values()) for other in others}
    assert taken.isdisjoint([*EVALUATE_KEYWORDS, *options - {"max_tokens"}])
    assert set(SYNONYMS) <= set(EVALUATE_KEYWORDS)


def test_workers_call_a_function_from_threads() -> None:
    threads: set[int] = set()
    together = threading.Barrier(4, timeout=30)

    def slow(question: str, images: list[Image.Image]) -> str:
        together.wait()  # until four calls are under way
        threads.add(threading.get_ident())
        return question

    sn.evaluate(slow, "eyechart/word", limit=8, workers=4)
    assert len(threads) == 4
    calls: list[int] = []

    def in_parts(questions: list[str], images: list[list[Image.Image]]) -> list[str]:
        calls.append(len(questions))
        return questions

    results = sn.evaluate(in_parts, "eyechart/word", limit=7, batch_size=3)
    assert sorted(calls) == [1, 3, 3]
    questions, replies = results.samples()["question"], results.samples()["reply"]
    assert all(map(str.__contains__, replies, questions))


def test_the_error_of_a_thread_is_that_of_the_function() -> None:
    def fails(question: str, images: list[Image.Image]) -> str:
        raise ValueError("no server")

    with pytest.raises(
        HookError, match=r"the model fails failed on question word-test-\d+: .*no server"
    ):
        sn.evaluate(fails, "eyechart/word", limit=8, workers=4)


def test_a_function_judges_replies_to_open_and_closed_questions() -> None:
    def same_length(question: str, response: str, reference: str) -> bool:
        assert question.startswith("What")
        return len(response) == len(reference)

    benchmark = sn.load_benchmark("eyechart/word")[:10]
    lengths = [len(question.answer) == 3 for question in benchmark]
    results = sn.evaluate(red, benchmark, judge=same_length)
    assert results.value("same_length") == pytest.approx(sum(lengths) / 10)

    shapes = sn.load_benchmark("eyechart/shape")[:10]
    stars = [question.answer == "star" for question in shapes]
    by_lambda = sn.evaluate(
        lambda question, images: "It is a star, I think.",
        shapes,
        judge=lambda question, answer, reference: np.bool_(reference in answer),
    )
    assert by_lambda.value("judge") == pytest.approx(sum(stars) / 10)
    folder = by_lambda.runs[0].folder
    never = sn.score(folder, judge=lambda prompt, prediction, labels: 0.0)
    assert never.value("judge") == 0.0


def test_judges_of_two_kinds_are_refused() -> None:
    with pytest.raises(DataError, match="are different judges"):
        judges = ["snellen:uniform", lambda question, reply, reference: True]
        sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, judge=judges)


def test_a_metric_may_be_a_lambda_of_any_order() -> None:
    benchmark = sn.load_benchmark("eyechart/word")[:10]
    shares = {
        "forward": lambda prediction, target: float(prediction == target),
        "backward": lambda target, prediction: float(prediction == target),
        "asked": lambda question, prediction, targets: float(prediction in targets),
    }
    results = sn.evaluate("snellen:oracle", benchmark, metrics=shares)
    assert [results.value(name) for name in shares] == [1.0, 1.0, 1.0]
    listed = sn.evaluate(red, benchmark, metrics=[shares["forward"], lambda reply, gold: 0.25])
    assert listed.value("own_metric_2") == 0.25


def test_swapped_arguments_and_metrics_without_effect_are_told() -> None:
    with pytest.raises(
        sn.ModelError, match=r"eyechart/shape is a benchmark; the model comes first"
    ):
        sn.evaluate("eyechart/shape", "snellen:oracle")
    with pytest.warns(UserWarning, match="the metric exact_match has no number"):
        metrics = (name for name in ["exact_match"])
        sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, metrics=metrics)


def test_a_path_is_a_transformers_model() -> None:
    [run] = sn.evaluate(sn.tiny_checkpoint("tiny-xs"), "eyechart/shape", limit=2).runs
    assert run.manifest.model.startswith("hf:")


def test_a_file_called_like_a_suite_does_not_hide_it() -> None:
    Path("eyechart").write_text("notes\n")
    results = sn.evaluate("snellen:uniform", "eyechart", limit=1)
    assert "eyechart/shape" in results.benchmarks


def test_the_benchmark_of_predictions_may_be_a_folder(tmp_path: Path) -> None:
    questions = [{"id": "1", "question": "2 + 2?", "options": ["4", "5"], "answer": "A"}]
    benchmark = sn.build(questions, name="sums", no_images=True)
    file = tmp_path / "replies.jsonl"
    file.write_text('{"id": "1", "prediction": "A"}\n')
    folder = Path(benchmark.folder)
    assert sn.score(file, folder).value() == sn.score(file, "sums").value() == 1.0


def test_names_between_commas_are_taken_one_by_one() -> None:
    results = sn.evaluate(
        "snellen:oracle,snellen:always-a",
        "eyechart/shape, eyechart/count",
        protocol="vanilla,circular",
        limit=2,
    )
    assert [run.manifest.model for run in results.runs] == ["snellen:oracle", "snellen:always-a"]
    assert results.benchmarks == ["eyechart/shape", "eyechart/count"]
    protocols = {row["protocol"] for row in results.samples().to_dicts()}
    assert protocols == {"vanilla", "circular"}


@pytest.mark.parametrize(
    ("model", "benchmarks", "protocols", "line"),
    [
        (
            "snellen:oracle",
            "eyechart/shape,nope",
            "vanilla",
            "'nope'.*give several benchmarks as a",
        ),
        ("snellen:oracle", "eyechart/shape", "vanilla,nope", "'nope'.*give several protocols as a"),
        (
            "snellen:oracle,tiny",
            "eyechart/shape",
            "vanilla",
            r"\['snellen:oracle', 'snellen:tiny'\]",
        ),
    ],
)
def test_a_part_between_commas_that_is_no_name_is_told(
    model: str, benchmarks: str, protocols: str, line: str
) -> None:
    with pytest.raises(UnknownNameError, match=line):
        sn.evaluate(model, benchmarks, protocols, limit=1)


def test_each_table_has_the_samples_on_request(results: sn.Results) -> None:
    samples = results.samples()
    assert results.to_polars(samples=True).equals(samples)
    assert results.to_pandas(samples=True)["sample_id"].to_list() == samples["sample_id"].to_list()
    written = pd.read_csv(results.to_csv("samples.csv", samples=True))
    assert written["reply"].to_list() == samples["reply"].to_list()
    assert written["options"][0] == '["' + '","'.join(samples["options"][0]) + '"]'


def test_the_numbers_of_a_tag_are_a_table(results: sn.Results) -> None:
    table = results.by("level")
    samples = results.to_pandas(samples=True)
    by_hand = samples.groupby(["model", "benchmark", "tag_level"])["correct"].mean()
    for row in table.filter(pl.col("protocol") == "vanilla").to_dicts():
        assert row["value"] == by_hand[row["model"], row["benchmark"], row["level"]]
    with pytest.raises(UnknownNameError, match="unknown tag 'levle'; did you mean level"):
        results.by("levle")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda results: results.to_csv("a.csv", per_sample=True),
            r"'per_sample'; samples=True writes",
        ),
        (lambda results: results.to_pandas(by="level"), r"'by'; samples=True .* by\('NAME'\)"),
        (lambda results: results.plot(kind="bar"), r"'kind'; it draws the headline numbers"),
        (lambda results: results.value(slice="easy"), r"'slice'; by\('TAG'\)"),
    ],
)
def test_keywords_of_other_tables_are_answered(call: Any, line: str, results: sn.Results) -> None:
    with pytest.raises(TypeError, match=line):
        call(results)


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("openai/gpt-4o-mini", "openai:gpt-4o-mini"),
        ("gpt-4o-mini", "openai:gpt-4o-mini"),
        ("Qwen/Qwen2-VL-2B-Instruct", "openai:Qwen/Qwen2-VL-2B-Instruct"),
    ],
)
def test_a_name_at_an_address_needs_its_scheme(model: str, meant: str) -> None:
    with pytest.raises(sn.ModelError, match=f"is asked by '{meant}'$"):
        sn.evaluate(model, "eyechart/shape", base_url="http://localhost:1/v1", limit=1)


def test_predictions_without_ground_truth_and_single_texts_are_refused() -> None:
    with pytest.raises(DataError, match=r"references\[1\] is None"):
        sn.score(["a", "None"], ["a", None])
    with pytest.raises(DataError, match="lists of texts"):
        sn.score("abc", ["a", "b", "c"])
    # A reply that was not given is not the word for it.
    assert sn.score(["wren", None], ["wren", "none"]).value() == 0.5


def test_no_model_is_an_error_and_not_an_empty_result() -> None:
    for models in ([], {}):
        with pytest.raises(DataError, match="this list is empty"):
            sn.evaluate(models, "eyechart/shape", limit=1)


def test_splits_and_arrays_that_are_no_images_are_refused_in_one_line() -> None:
    rows = [{"question": "What?", "answer": "a wren"}] * 2
    with pytest.raises(DataError, match=r"\(train, test\); give one, such as rows\['train'\]"):
        sn.build({"train": rows, "test": rows}, name="of_splits")
    for shape in ((3, 20, 20), (20, 20, 1), (0, 0, 3)):
        pixels = np.zeros(shape, dtype=np.uint8)
        with pytest.raises(DataError, match="height, width and 3 colours"):
            sn.build([{**row, "image": pixels} for row in rows], name="of_arrays")


def test_a_prompt_places_the_options_and_says_how() -> None:
    prompt = "{question} Choose: {options}"
    results = sn.evaluate("snellen:oracle", "eyechart/shape", prompt=prompt, limit=1)
    [sample] = results.samples().to_dicts()
    [asked] = [message["text"] for message in sample["request"] if message["role"] == "user"]
    assert asked.count(sample["options"][0]) == 1 and "Choose: (A) " in asked
    with pytest.raises(DataError, match=r"unknown field \{choices\}; the fields are \{question\}"):
        sn.evaluate("snellen:oracle", "eyechart/shape", prompt="{question} {choices}", limit=1)


def test_a_metric_on_questions_with_options_is_told_to_be_a_judge() -> None:
    seen = []

    def same(prediction: str, answer: str) -> float:
        seen.append((prediction, answer))
        return float(prediction == answer)

    with pytest.warns(UserWarning, match="same has no number: .* judge=same also calls it with"):
        sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, metrics=same)
    assert not seen
    results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=2, judge=same)
    golds = [gold for [gold] in results.samples()["gold"].to_list()]
    assert results.value("same") == 1.0
    assert seen == [(gold, gold) for gold in golds]
