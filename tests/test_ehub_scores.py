"""LVLM-eHub's replies scored by both conventions: word matching (legacy) and typed answers (standard)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import mini_ehub
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.metrics.declaration import CorpusCountMetric, class_mean
from snellen.metrics.numbers import COUNTING, LEGACY_COUNTING, legacy_read_count, read_count
from snellen.metrics.ocr import contains_answer
from snellen.metrics.vqa import typed_match
from snellen.registry import register
from snellen.scoring.answers import open_answers
from snellen.suites.lvlm_ehub.extraction import class_match, vqa_match

WRONG, RIGHT = 0.0, 1.0
EDGES = [
    # reply, gold, by VQA's normaliser: legacy, standard
    ("Yes, there is no doubt", "no", RIGHT, WRONG),
    ("17.1%", "17.1%", WRONG, RIGHT),
    ("$5.00", "$5.00", WRONG, RIGHT),
    ("any reply", "a", RIGHT, DataError),
    ("any reply", "The", RIGHT, DataError),
    ("any reply", "...", RIGHT, DataError),
    ("none of these", "0", RIGHT, WRONG),
    ("1.5 metres", "1", RIGHT, WRONG),
    ("not a dog", "dog", RIGHT, WRONG),
    ("two cats", "cat", WRONG, RIGHT),
    ("C++", "C", RIGHT, WRONG),
    ("Options: Yes No", "Yes", RIGHT, WRONG),
    ("Options: Yes No", "No", RIGHT, WRONG),
    ("any reply", "?!", RIGHT, DataError),
]


@pytest.mark.parametrize(("reply", "gold", "legacy", "standard"), EDGES)
def test_the_edge_cases_of_word_matching_in_both_columns(
    reply: str, gold: str, legacy: float, standard: float | type[DataError]
) -> None:
    assert vqa_match(reply, [gold]) == legacy
    if isinstance(standard, float):
        assert typed_match(reply, [gold]) == standard
    else:
        with pytest.raises(standard):
            typed_match(reply, [gold])


def test_the_edge_cases_of_text_in_pictures_in_both_columns() -> None:
    assert (
        class_match("It says café", ["café"]) == contains_answer("It says café", ["café"]) == RIGHT
    )
    # As caf: the sign is deleted on both sides.
    assert class_match("caf", ["café"]) == RIGHT and contains_answer("caf", ["café"]) == WRONG
    assert class_match("any reply", ["?!"]) == RIGHT
    with pytest.raises(DataError, match="no letter or digit"):
        contains_answer("any reply", ["?!"])


def test_among_other_golds_an_article_counts_as_the_whole_reply_only() -> None:
    assert typed_match("The", ["the", "cat"]) == typed_match("a cat", ["the", "cat"]) == RIGHT
    assert typed_match("the dog", ["the", "cat"]) == WRONG
    assert typed_match("$", ["$", "dollar"]) == RIGHT


class Says:
    """A model that gives each question the reply of a function of the sample's number within its benchmark."""

    name = "says"

    def __init__(self, reply: Callable[[sn.Request], str]) -> None:
        self.reply = reply

    def generate(self, requests: Sequence[sn.Request], images: object) -> list[str]:
        return [self.reply(request) for request in requests]


def made(name: str, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(to / "home"))
    monkeypatch.chdir(to)
    build_benchmark(
        entries()[f"lvlm-ehub/{name}"], source=mini_ehub.official(name, to / "files" / name)
    )


def values(results: sn.Results, benchmark: str, slice_name: str = "") -> dict[str, float | None]:
    return {
        r.metric: r.estimate.value
        for r in results.rows
        if (r.benchmark, r.slice) == (benchmark, slice_name)
    }


# --- counting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "standard", "legacy"),
    [
        ("There are three dogs", 3, 3),
        ("3 (three)", 3, 3),
        ("2 or 3", None, 2),
        ("I see some", None, 0),
        ("nine", 9, 0),  # the script says nive
        ("someone", None, 1),
        ("Two", 2, 0),
        ("12 cats", 12, 12),
        ("1.5", 1.5, 1),
    ],
)
def test_a_count_is_the_only_number_of_a_reply(
    reply: str, standard: float | None, legacy: float
) -> None:
    assert read_count(reply) == standard
    assert legacy_read_count(reply) == legacy


REPLIES, GOLDS = ["1", "three", "5 or 6", "9", "4"], ["1", "2", "3", "4", "4"]


def pooled(metric: CorpusCountMetric, replies: list[str]) -> dict[str, float | None]:
    counts = [
        one for one in metric.count(replies, [[gold] for gold in GOLDS]) if not isinstance(one, str)
    ]
    sums = tuple(sum(column) for column in zip(*counts, strict=True))
    return dict(zip(metric.names, metric.compute(sums), strict=True))


def test_counting_errors_are_those_of_numpy_over_the_replies_that_were_read() -> None:
    found = pooled(COUNTING, REPLIES)
    error = np.array([1, 3, 9, 4]) - np.array([1, 2, 4, 4])
    assert found["count_accuracy"] == pytest.approx(2 / 5)
    assert found["count_within_1"] == pytest.approx(3 / 5)
    assert found["count_mae"] == pytest.approx(np.abs(error).mean())
    assert found["count_rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert found["count_unparsed_rate"] == pytest.approx(1 / 5)
    legacy = pooled(LEGACY_COUNTING, REPLIES)
    error = np.array([1, 3, 5, 9, 4]) - np.array([1, 2, 3, 4, 4])
    assert legacy["legacy_count_rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert legacy["legacy_count_unparsed_rate"] == 0


def test_a_count_that_is_no_number_is_unscored_and_errors_without_a_number_have_no_value() -> None:
    assert COUNTING.count(["3"], [["many"]]) == ["gold 'many' is not a number"]
    assert COUNTING.compute((2, 0, 0, 0, 0, 0)) == (0, 0, None, None, 1)


def test_counting_is_given_by_gold_count_with_intervals_in_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("coco-oc", tmp_path, monkeypatch)  # 1 red, 2 green, 3 blue, 4 white
    results = sn.evaluate(Says(lambda request: "I count 2"), "lvlm-ehub/coco-oc", name="two")
    whole = values(results, "lvlm-ehub/coco-oc")
    assert whole["count_mae"] == 1.0 and whole["count_rmse"] == pytest.approx(math.sqrt(6 / 4))
    assert {
        n: values(results, "lvlm-ehub/coco-oc", f"answer={n}")["count_mae"] for n in "1234"
    } == {"1": 1, "2": 0, "3": 1, "4": 2}
    [row] = [
        r for r in results.rows if r.metric == "count_mae" and not r.slice and r.benchmark != "*"
    ]
    assert row.unit == "objects" and row.better == "lower" and row.estimate.groups == 2


# --- classes -------------------------------------------------------------------------------------------------------


def test_mean_per_class_accuracy_is_scikit_learn_s_macro_recall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.metrics import recall_score

    made("cifar10", tmp_path, monkeypatch)
    results = sn.evaluate(Says(lambda request: "An airplane."), "lvlm-ehub/cifar10", name="plane")
    golds = [answer.texts[0] for answer in results.runs[0].benchmarks[0].answers.values()]
    expected = recall_score(golds, ["airplane"] * len(golds), average="macro", zero_division=0)
    found = values(results, "lvlm-ehub/cifar10")
    assert found["mean_class_accuracy"] == pytest.approx(expected)
    assert values(results, "lvlm-ehub/cifar10", "answer=airplane")["mean_class_accuracy"] == 1.0
    published = sn.score("runs/plane", as_published=True)
    assert values(published, "lvlm-ehub/cifar10")["legacy_class_match_mean"] == pytest.approx(
        100 * expected
    )


def test_a_rare_class_counts_as_much_as_a_common_one_in_their_mean(tmp_path: Path) -> None:
    register(
        "metrics",
        "mean_of_mine",
        class_mean(contains_answer, name="mean_of_mine", title="mean of mine"),
    )
    answers = ["cat"] * 6 + ["dog"] * 2
    rows = [
        {"id": str(n), "question": f"What is {n}?", "answer": gold, "image": small.cell(n)}
        for n, gold in enumerate(answers)
    ]
    benchmark = small.built(rows, tmp_path / "made", name="mine")
    runs = sn.evaluate(
        Says(lambda request: "cat"), str(benchmark.folder), runs=tmp_path, name="run"
    )
    results = sn.score(tmp_path / "run", metrics=["mean_of_mine", "contains_answer"])
    assert values(results, "mine")["contains_answer"] == 6 / 8
    assert values(results, "mine")["mean_of_mine"] == statistics.mean([1.0, 0.0])
    [row] = [
        r for r in results.rows if (r.benchmark, r.metric, r.slice) == ("mine", "mean_of_mine", "")
    ]
    assert (row.estimate.n, row.estimate.groups) == (8, 8) and runs.runs


# --- annotators ----------------------------------------------------------------------------------------------------


def test_where_ten_annotators_answered_their_votes_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("vizwiz", tmp_path, monkeypatch)  # six say the animal, four say beast
    results = sn.evaluate(Says(lambda request: "beast"), "lvlm-ehub/vizwiz", name="beast")
    # Four others of ten: leaving one of the six out leaves four, one of the four three; both are full marks.
    assert values(results, "lvlm-ehub/vizwiz")["vqa_accuracy"] == 1.0
    made("textvqa", tmp_path, monkeypatch)
    results = sn.evaluate(Says(lambda request: "no"), "lvlm-ehub/textvqa", name="no")
    # One annotator said no in ten of twelve questions: (9 x 1/3 + 1 x 0) / 10.
    assert values(results, "lvlm-ehub/textvqa")["vqa_accuracy"] == pytest.approx(0.3 * 10 / 12)


# --- POPE ----------------------------------------------------------------------------------------------------------

SCRIPTS: dict[str, Callable[[str, str], str]] = {
    "yes": lambda text, label: "Yes, there is.",
    "no": lambda text, label: "No.",
    "refuses": lambda text, label: "I am sorry, I cannot say.",
    "perfect": lambda text, label: f"{label}.",
    "mixed": lambda text, label: ("Yes", "no", "Hm.")[len(text) % 3],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_pope_by_sampling_and_pooled_agrees_with_scikit_learn(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.metrics import precision_recall_fscore_support

    labels: dict[str, list[tuple[str, str]]] = {}
    for name in mini_ehub.POPE:
        made(name, tmp_path, monkeypatch)
        file = next((tmp_path / "files" / name).glob("coco_pope_*.json"))
        labels[name] = [
            (row["text"], row["label"]) for row in map(json.loads, file.read_text().splitlines())
        ]
    known = {pair[0]: pair[1] for pairs in labels.values() for pair in pairs}

    def reply(request: sn.Request) -> str:
        text = request.messages[0].text.splitlines()[-1]
        return SCRIPTS[script](text, known[text])

    results = sn.evaluate(Says(reply), "lvlm-ehub:Hallucination", name=script)
    everything = [pair for pairs in labels.values() for pair in pairs]
    for name, pairs in {**labels, "pope": everything}.items():
        found = values(results, f"lvlm-ehub/{name}")
        said = [SCRIPTS[script](text, label).lower().strip(".")[:3] for text, label in pairs]
        read = ["yes" if one == "yes" else "no" if one == "no" else "other" for one in said]
        golds = [label for _, label in pairs]
        precision, recall, f1, _ = precision_recall_fscore_support(
            golds, read, labels=["yes"], average=None, zero_division=np.nan
        )
        assert found["pope_accuracy"] == pytest.approx(
            np.mean([a == b for a, b in zip(golds, read, strict=True)])
        )
        assert found["pope_precision"] == (
            None if np.isnan(precision[0]) else pytest.approx(precision[0])
        )
        assert found["pope_recall"] == pytest.approx(recall[0])
        assert found["pope_f1"] == pytest.approx(0.0 if np.isnan(f1[0]) else f1[0])
        assert found["pope_yes_rate"] == pytest.approx(read.count("yes") / len(read))
        assert found["pope_unparsed_rate"] == pytest.approx(read.count("other") / len(read))
    [pooled] = [
        r
        for r in results.rows
        if (r.benchmark, r.metric, r.slice) == ("lvlm-ehub/pope", "pope_f1", "")
    ]
    # The same two images in all three: 36 questions, two groups.
    assert (pooled.estimate.n, pooled.estimate.groups) == (36, 2)


def test_part_of_a_pool_is_no_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in mini_ehub.POPE[:2]:
        made(name, tmp_path, monkeypatch)
    results = sn.evaluate(
        Says(lambda request: "yes"), ["lvlm-ehub/pope-random", "lvlm-ehub/pope-popular"], name="two"
    )
    assert not [row for row in results.rows if row.benchmark == "lvlm-ehub/pope"]


# --- both conventions ----------------------------------------------------------------------------------------------


def test_a_set_without_a_match_is_part_of_its_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sroie", "funsd"):
        made(name, tmp_path, monkeypatch)
    names = ["lvlm-ehub/sroie", "lvlm-ehub/funsd"]
    golds = {
        (spec, answer.sample_id): answer.texts[0]
        for spec in names[:1]
        for answer in open_answers(tmp_path / "home" / "benchmarks" / spec).values()
    }
    sn.evaluate(
        Says(lambda request: golds.get((request.benchmark, request.sample_id), "zzz")),
        names,
        name="half",
    )
    results = sn.score("runs/half", as_published=True)
    assert values(results, "lvlm-ehub/sroie")["legacy_kie_word_f1"] == 100.0
    assert values(results, "lvlm-ehub/funsd")["legacy_kie_word_f1"] == 0.0
    assert values(results, "*")["legacy_kie_word_f1"] == 50.0


def test_one_results_file_and_one_table_have_both_conventions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (*mini_ehub.POPE, "vsr", "coco-oc", "sroie"):
        made(name, tmp_path, monkeypatch)
    names = ["lvlm-ehub:Hallucination", "lvlm-ehub/vsr", "lvlm-ehub/coco-oc", "lvlm-ehub/sroie"]
    # Says both yes and no, and counts nothing.
    sn.evaluate(Says(lambda request: "Options: Yes No"), names, name="both")
    published = sn.score("runs/both", as_published=True)
    [run] = published.runs
    stored = json.loads((tmp_path / (run.stored_in or "") / "results.json").read_text())
    one = {
        (r["convention"], r["benchmark"], r["metric"]): r["value"] for r in stored if not r["slice"]
    }
    assert one["standard", "lvlm-ehub/pope-random", "pope_accuracy"] == 0.0
    assert one["as-published", "lvlm-ehub/pope-random", "legacy_vqa_match"] == 100.0
    assert one["as-published", "lvlm-ehub/pope", "legacy_vqa_match"] == 100.0
    # A reply that repeats both options: unparsed, or right whatever the answer is.
    assert one["standard", "lvlm-ehub/vsr", "accuracy"] == 0.0
    assert one["standard", "lvlm-ehub/vsr", "unparsed_rate"] == 1.0
    assert one["as-published", "lvlm-ehub/vsr", "legacy_option_match"] == 100.0
    assert one["standard", "lvlm-ehub/sroie", "entity_f1"] == 0.0
    assert one["as-published", "lvlm-ehub/sroie", "legacy_kie_word_f1"] == 0.0
    code, shown, _ = small.command(capsys, "score", "runs/both", "--as-published")
    assert code == 0
    table = shown.partition("Standard and as published")[2]
    [line] = [line for line in table.splitlines() if "lvlm-ehub/vsr" in line]
    assert "0.0%" in line and "100.00" in line
    assert "Standard and as published" in published.report("report.md").read_text()
    assert "Standard and as published" not in sn.score("runs/both").report("other.md").read_text()
