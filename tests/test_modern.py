"""The suite `modern`: every entry, built from a miniature of its dataset, asked, scored and looked through."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

import archived_tables
import modern_metric_tables
import modern_tables
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, entries, suite_facts
from snellen.catalogue.places import HubSource, UrlSource, known_dataset, locked_commit
from snellen.records import ImagePart
from snellen.scoring.answers import open_answers

ROOT = Path(__file__).parents[1]
SUITE = [spec for spec in entries().values() if spec.suite == "modern"]
SPECS = {spec.short: spec for spec in SUITE if spec.short in modern_tables.TABLES}
"""Those whose metrics are not tested apart (test_modern_metrics.py)."""
OPEN = {
    "mmmu": 1,
    "mmmu-test": 1,
    "realworldqa": 1,
    "mathverse": 2,
    "visualpuzzles": 1,
    "mme-cot": 3,
}
"""How many questions of a miniature have no options although most of its benchmark's do."""
HIDDEN = {
    "st-vqa",
    "docvqa-test",
    "infovqa-test",
    "mmmu-test",
    "textvqa-test",
    "vizwiz-test",
    "vqav2-test",
}
"""Benchmarks without answers."""
JUDGED = {"mia-bench", "mm-mt-bench"}
"""Benchmarks whose only score is a judge's."""
SECOND = {
    "charxiv-descriptive": "cat 2", "dynamath": "1.5", "gqa": "cow", "iconqa-choose-txt": "cow",
    "iconqa-fill-in-blank": "3", "logicvista": "B", "mirb": "B", "mmmu-pro": "No. 1", "pixmo-count": "3", "pope": "no", "slidevqa": "1",
    "zerobench": "1", "refspatial-location": "[(0.34375, 0.375)]", "refspatial-placement": "[(0.34375, 0.375)]",
    "refspatial-unseen": "[(0.34375, 0.375)]", "where2place": "[(0.34375, 0.375)]",
    "robospatial-context": "[(0.34375, 0.375)]", "robospatial-configuration": "no", "robospatial-compatibility": "no",
    "osworld-g": "[1.22321, 2.75]", "vlmsareblind": "4,5", "vlms-are-biased": "6", "mtvqa": "im Feld 0",
    "mm-mt-bench": "It eats.", "remi": "95", "tallyqa": "1",
    # Of 8 x 6 pixels: x times 125, y times 166.667.
    "odinw-13": '[{"bbox_2d": [125.0, 333.333, 625.0, 666.667], "label": "dog"}, '
    '{"bbox_2d": [500.0, 166.667, 1000.0, 1000.0], "label": "dog"}]',
    "sun-rgb-d": '[{"bbox_3d": [0.5, 0.25, 3.0, 1.0, 0.5, 0.75, 0.0, 0.0, 0.25], "label": "dog"}]',
}  # fmt: skip
"""The answer to the second question of a miniature, where it is not a dog."""
CERTAIN = {
    "exact_match", "contains_answer", "anls", "word_f1", "vqa_accuracy", "gqa_accuracy", "typed_match", "rouge_l",
    "pope_accuracy", "mean_relative_accuracy", "number_accuracy", "mask_accuracy", "mask_hit", "click_accuracy", "vlmsareblind",
    "vlms_are_biased", "dynamath", "mtvqa", "chartqapro", "text_f1", "moment_overlap", "remi", "detection_map", "space_map_15",
}  # fmt: skip
"""Rows that are 1 for a reply that is the reference, or what most annotators said."""


def built(name: str, folder: Path) -> Benchmark:
    """An entry's benchmark, built from its table in a folder as from the hub."""
    return build_benchmark(
        SPECS[name].from_hub(),
        source=modern_tables.write(name, folder / "hub"),
        to=folder / "built",
    )


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Benchmark]:
    return {name: built(name, tmp_path_factory.mktemp(name)) for name in SPECS}


def numbers(
    model: Any, benchmark: Benchmark, protocols: list[str], runs: Path, templates: str = ""
) -> dict[str, float | None]:
    """The values of all rows of a run, by metric; where several protocols give one, that of the last."""
    results = sn.evaluate(
        model,
        str(benchmark.folder),
        protocols,
        runs=runs,
        templates=templates,
        max_new_tokens=8,
    )
    return {
        row.metric: row.estimate.value
        for row in results.rows
        if row.benchmark == benchmark.name and not row.slice
    }


def first_letters(benchmark: Benchmark) -> Iterator[bool]:
    """Of each question with options, whether the first one is right."""
    answers = open_answers(benchmark.folder)
    return (
        answers[sample.id, 0].options == (0,) for sample in benchmark.samples() if sample.options
    )


def shows_no_letters(spec: BenchmarkSpec) -> bool:
    """Whether the makers list the options without letters, as A-OKVQA's do, so that a model by rule can name none."""
    if spec.published is None or not spec.published.prompt:
        return False
    return spec.prompts[spec.published.prompt].layout.get("label") == ""


def holds_together(benchmark: Benchmark, runs: Path) -> None:
    """Assert that the oracle is perfect, and that guessing and always answering A come out as they must."""
    hidden, protocol = benchmark.spec.short in HIDDEN, ["vanilla"]
    if hidden:
        found = numbers(sn.Scripted(lambda request: "a cat"), benchmark, protocol, runs / "any")
        scores = CERTAIN | {"accuracy", "circular_accuracy"}
        assert all(value is None for row, value in found.items() if row in scores)
        assert scores & found.keys() or benchmark.spec.formulation == "text"
        return
    oracle = numbers("snellen:oracle", benchmark, protocol, runs / "oracle")
    if benchmark.spec.short in JUDGED:
        assert all(value is None for value in oracle.values())
        return
    certain = CERTAIN & oracle.keys() | ({"accuracy"} & oracle.keys())
    assert certain and {row: oracle[row] for row in certain} == dict.fromkeys(certain, 1.0)
    if benchmark.spec.formulation == "choice":
        templates = "snellen" if shows_no_letters(benchmark.spec) else ""
        always_a = numbers("snellen:always-a", benchmark, protocol, runs / "a", templates)
        assert (
            always_a["accuracy"] == pytest.approx(mean(first_letters(benchmark)))
            and always_a["accuracy"] < 1
        )
        uniform = numbers("snellen:uniform", benchmark, protocol, runs / "uniform", templates)
        assert uniform["unparsed_rate"] == 0 and uniform["hit_rate"] == 1
    else:
        blind_models_are_not_right(benchmark, dict.fromkeys(certain, 1.0), runs)


def blind_models_are_not_right(
    benchmark: Benchmark, oracle: Mapping[str, float], runs: Path
) -> None:
    """Assert that models which do not look at the questions do not have all values that the oracle has.

    They may have some: a miniature has few questions with options, all of which a guess may get right.
    """
    for model in ("uniform", "always-a"):
        found = numbers(f"snellen:{model}", benchmark, ["vanilla"], runs / model)
        assert any(found[row] != value for row, value in oracle.items()), (model, found)


def test_every_entry_is_asked_by_the_oracle_and_by_models_that_do_not_look() -> None:
    """In this file, test_modern_metrics.py, test_video.py, test_long_documents.py and test_spatialsense.py."""
    asked = {
        *SPECS,
        *modern_metric_tables.TABLES,
        *archived_tables.MAKERS,
        "mmlongbench-doc",
        "spatialsense",
    }
    assert {spec.short for spec in SUITE} == asked


@pytest.mark.parametrize("name", SPECS)
def test_it_is_built_asked_and_looked_through(
    name: str, benchmarks: dict[str, Benchmark], tmp_path: Path
) -> None:
    benchmark, spec = benchmarks[name], SPECS[name]
    samples = list(benchmark.samples())
    assert len({sample.id for sample in samples}) == len(samples) > 1
    without = [sample for sample in samples if not sample.options]
    assert len(without) == (OPEN.get(name, 0) if spec.formulation == "choice" else len(samples))
    assert all(sample.images for sample in samples) or name == "mathverse"
    holds_together(benchmark, tmp_path)


@pytest.mark.parametrize("name", SPECS)
def test_lint_finds_no_fault_in_the_questions(name: str, benchmarks: dict[str, Benchmark]) -> None:
    lab = pytest.importorskip("snellen_lab", reason="waits for snellen-lab")
    found = {finding.check: finding for finding in lab.lint(benchmarks[name])}
    faults = {check for check, finding in found.items() if finding.severity != "note"}
    assert faults <= {"counts", "tiny-images", *(["no-image"] if name == "mathverse" else [])}
    assert ("hidden-answers" in found) == (name in HIDDEN)


@pytest.mark.parametrize("name", [name for name in SPECS if name not in HIDDEN])
def test_the_answer_is_the_one_of_the_row(name: str, benchmarks: dict[str, Benchmark]) -> None:
    _, second, *_ = benchmarks[name].samples()
    gold = open_answers(benchmarks[name].folder)[second.id, 0]
    answer = second.options[gold.options[0]] if second.options else gold.texts[0]
    assert answer == SECOND[name] if name in SECOND else "dog" in answer


@pytest.mark.parametrize(
    "name", ["mmstar", "mmmu-pro", "blink", "mmt-bench", "scienceqa", "realworldqa"]
)
def test_questions_with_options_are_asked_by_every_protocol(
    name: str, benchmarks: dict[str, Benchmark], tmp_path: Path
) -> None:
    protocols = ["circular", "instability?m=2", *([] if name in OPEN else ["likelihood"])]
    oracle = numbers("snellen:oracle", benchmarks[name], protocols, tmp_path / "oracle")
    assert oracle["circular_accuracy"] == oracle["accuracy"] == 1 and oracle["instability"] == 0
    always_a = numbers("snellen:always-a", benchmarks[name], ["circular"], tmp_path / "a")
    assert always_a["circular_accuracy"] == 0


@pytest.mark.parametrize(
    ("name", "sample", "question", "options", "answer"),
    [
        (
            "mmmu",
            "validation_Art_5",
            "Which animal is number 5? <image 1> <image 2> <image 3>",
            0,
            ("12", "twelve"),
        ),
        ("realworldqa", "0", "Which animal is number 0? By J. A. Doe?", 4, "cat"),
        ("realworldqa", "5", "How many are there?", 0, ("3",)),
        ("seed-bench", "0", "Which animal is number 0?", 3, "cat"),
        ("seed-bench-2-plus", "2", "Which animal is number 2?", 4, "cow"),
        ("mmt-bench", "5", "Which animal is number 5?", 5, "horse"),
        ("wemath", "4", "Which animal is number 4?", 5, "No correct answer"),
        ("mathverse", "0", "Which animal is number 0? At A: 5?", 4, "cat"),
        (
            "mathverse",
            "4",
            "According to the question shown in the image, please answer it.",
            0,
            ("A",),
        ),
        ("muirbench", "2", "<image 1> Which animal is number 2?", 3, "None"),
        ("muirbench", "5", "<image 1> Which animal is number 5?", 3, "None"),
        ("erqa", "ERQA_1", "Which animal is number 1?", 4, "dog"),
        ("iconqa-choose-txt", "0", "Which animal is number 0?", 3, "dog"),
        ("docvqa", "0", "Which animal is number 0?", 0, ("cat", "a cat")),
        ("textvqa", "0", "Which animal is number 0?", 0, ("cat",) * 7 + ("cats",) * 2),
        ("mp-docvqa", "1", "Which animal is number 1?", 0, ("dog", "a dog")),
        ("chartqapro", "0", "And dogs?", 0, ("4",)),
        (
            "charxiv-descriptive",
            "0-3",
            "For the current plot, what is the leftmost labeled tick on the x-axis?\n    * Your final answer should be the tick value on the x-axis that is explicitly "
            "written, including the case when x-axis is shared across multiple subplots. When the x-axis is present on both "
            "the top and bottom of the plot, answer based on the axis at the bottom. Ignore units or scales that are "
            "written separately from the tick, such as units and scales from the axis label or the corner of the plot.",
            0,
            ("cat 3",),
        ),
        (
            "charxiv-descriptive",
            "4-2",
            "What is the number of subplots?\n    * Your final answer should be the total number of subplots in the plot.\n    * If the plot does "
            'not contain subplots, answer "1".',
            0,
            ("sheep 2",),
        ),
        (
            "charxiv-descriptive",
            "5-2",
            "For the left one, what is the leftmost labeled tick on the x-axis?\n    * Your final answer should be the tick value on the x-axis that is explicitly "
            "written, including the case when x-axis is shared across multiple subplots. When the x-axis is present on both "
            "the top and bottom of the plot, answer based on the axis at the bottom. Ignore units or scales that are "
            "written separately from the tick, such as units and scales from the axis label or the corner of the plot.",
            0,
            ("goat 2",),
        ),
    ],
)
def test_what_the_edges_of_the_tables_become(
    name: str,
    sample: str,
    question: str,
    options: int,
    answer: str | tuple[str, ...],
    benchmarks: dict[str, Benchmark],
) -> None:
    asked = {sample.id: sample for sample in benchmarks[name].samples()}[sample]
    gold = open_answers(benchmarks[name].folder)[sample, 0]
    assert asked.question == question and len(asked.options) == options
    assert (asked.options[gold.options[0]] if options else gold.texts) == answer


def test_rows_that_are_no_questions_stay_out(benchmarks: dict[str, Benchmark]) -> None:
    assert "3" not in {sample.id for sample in benchmarks["seed-bench"].samples()}
    assert [sample.id for sample in benchmarks["logicvista"].samples()] == ["0", "1", "2", "3", "4"]
    kinds = {
        name: {sample.id for sample in benchmarks[f"iconqa-{name}"].samples()}
        for name in ("choose-txt", "fill-in-blank")
    }
    assert kinds == {"choose-txt": {"0", "1"}, "fill-in-blank": {"2", "3"}}


def test_options_that_are_pictures_differ_and_stand_where_they_are_turned_to(
    benchmarks: dict[str, Benchmark], tmp_path: Path
) -> None:
    sample = {sample.id: sample for sample in benchmarks["muirbench"].samples()}["2"]
    assert sample.options == ("<image 2>", "<image 3>", "None")
    orders = []

    def model(request: Any) -> str:
        if request.sample_id == "2":
            parts = [part for message in request.messages for part in message.content]
            orders.append([part.image.digest for part in parts if isinstance(part, ImagePart)])
        return "A"

    sn.evaluate(
        sn.Scripted(model),
        str(benchmarks["muirbench"].folder),
        "circular?all_passes=true",
        runs=tmp_path,
    )
    first, second, third = (image.digest for image in sample.images)
    assert sorted(orders) == sorted(
        [[first, second, third], [first, third, second], [first, second, third]]
    )


def test_what_stands_before_a_question_and_how_many_pictures_it_has(
    benchmarks: dict[str, Benchmark],
) -> None:
    talk, paragraph, *_ = benchmarks["chartqapro"].samples()
    assert (talk.context, paragraph.context) == ("Q1: How many cats?\nA1: 3", "Of pets.")
    assert [sample.context for sample in benchmarks["scienceqa"].samples()] == ["Look.", None] * 3
    for name in ("mmmu", "muirbench", "mirb", "erqa", "mp-docvqa", "slidevqa", "zerobench"):
        assert [len(sample.images) for sample in benchmarks[name].samples()] == [1, 2, 3] * 2
    assert benchmarks["blink"].manifest.tags["task"] == {"Art_Style": 3, "Counting": 3}
    assert benchmarks["pope"].manifest.tags["kind"] == {"random": 2, "popular": 2, "adversarial": 2}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_an_entry_says_what_it_is_and_where_its_data_are(spec: BenchmarkSpec) -> None:
    assert spec.dimension in suite_facts()["modern"].dimensions
    assert spec.licence and spec.citation and spec.url.startswith("https://") and spec.origins
    hub, *others = spec.source.places
    assert isinstance(hub, HubSource) and all(isinstance(place, UrlSource) for place in others)
    assert len(locked_commit(hub)) == 40 or "no full commit known" in known_dataset(hub).rests_on


def test_every_entry_of_the_suite_is_tested() -> None:
    assert {spec.short for spec in SUITE} == {
        *SPECS,
        *modern_metric_tables.TABLES,
        *archived_tables.MAKERS,
        "mmlongbench-doc",  # test_long_documents.py: pages are made by hand
        "spatialsense",  # test_spatialsense.py: no dataset on the hub
    }


@pytest.mark.parametrize("page", ["README.md", "docs/modern.md"])
def test_a_page_counts_the_entries_of_the_suite(page: str) -> None:
    counts = re.findall(
        r"(\d+) benchmarks (?:of today's|that) model cards", (ROOT / page).read_text("utf-8")
    )
    assert counts == [str(len(SUITE))]


def test_the_page_has_the_table_of_the_rows_of_cards() -> None:
    command = [sys.executable, str(ROOT / "bench/card_rows.py")]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert table in (ROOT / "docs/evidence/modern.md").read_text("utf-8")
