"""Headlines: unparsed is not right, the order of passes does not matter, and numbers as the papers printed them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import snellen as sn
from small import command
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.metrics.captions import cider
from snellen.records import Answer, Failure, Prediction, Request, Variant
from snellen.scoring import choice_metrics


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- unparsed is not right -----------------------------------------------------------------------------------------


def right_or_unparsed(request: Request) -> str:
    """Right on four questions of ten, unparsedable on six; the first option is always right."""
    if int(request.sample_id[1:]) % 10 >= 4:
        return "Well, who can say."
    return f"({request.variant.labels[request.variant.order.index(0)]})"


def test_the_head_of_a_report_counts_each_reply_once_and_the_benchmarks_that_were_asked(
    make: Callable[..., Benchmark],
) -> None:
    """The first order of CircularEval is the request of vanilla; of open questions CircularEval asks none."""
    texts = [
        {**{k: v for k, v in row.items() if k != "options"}, "answer": "cat"}
        for row in small.rows(4)
    ]
    choice = make(small.rows(10), name="choice")
    words = make(texts, name="words", formulation="text")
    folders = [str(choice.folder), str(words.folder)]
    results = sn.evaluate(
        sn.Scripted(lambda _: "Well, who can say."), folders, ["vanilla", "circular"], name="both"
    )
    head = (
        results.report("both.html").read_text("utf-8").split('class="kicker"')[1].split("</p>")[0]
    )
    assert "<b>10</b> of 10 replies to multiple-choice questions could not be parsed" in head
    assert (
        "<b>2</b> benchmarks evaluated" in head
        and "<b>14</b> requests" in head
        and "<b>0</b> requests failed" in head
    )
    results = sn.evaluate(sn.Scripted(lambda _: "(A)"), folders, "circular", name="turned")
    head = (
        results.report("turned.html").read_text("utf-8").split('class="kicker"')[1].split("</p>")[0]
    )
    assert "<b>1</b> of 2 benchmarks evaluated" in head and "<b>0</b> of 20 replies" in head


def test_a_model_that_is_right_on_40_and_unparsedable_on_60_percent_prints_40(
    make: Callable[..., Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(make([{**row, "answer": 0} for row in small.rows(20)], dimension="CG").folder)
    sn.evaluate(sn.Scripted(right_or_unparsed), folder, ["circular", "instability?m=3"], name="r")
    code, out, _ = command(capsys, "score", "runs/r", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    for metric in ("accuracy", "circular_accuracy", "capability", "headline"):
        assert {
            round(row["value"], 9) for row in rows if row["metric"] == metric and not row["slice"]
        } == {0.4}, metric
    assert {
        round(row["value"], 9)
        for row in rows
        if row["metric"] == "unparsed_rate" and not row["slice"]
    } == {0.6}
    assert {
        row["value"] for row in rows if row["metric"] == "accuracy_of_parsed" and not row["slice"]
    } == {1.0}
    assert all(row["value"] <= 0.5 for row in rows if row["metric"] == "accuracy" and row["slice"])
    _, out, _ = command(capsys, "score", "runs/r")
    first_line = next(line for line in out.splitlines() if "snellen:scripted" in line)
    assert "40.0%" in first_line and "100.0%" not in first_line
    assert "60.0%" in out
    text = sn.score("runs/r").report("r.md").read_text("utf-8")
    assert "| 40.0% [" in text and "; of parsed 100.0% [" in text and "; at most 100.0% [" in text


def test_a_failed_request_stays_out_of_the_headline_and_is_counted(
    make: Callable[..., Benchmark],
) -> None:
    folder = str(make([{**row, "answer": 0} for row in small.rows(10)]).folder)

    def reply(request: Request) -> str | sn.Response:
        return (
            sn.Response(error=Failure("timeout", "late"))
            if request.sample_id == "q000"
            else right_or_unparsed(request)
        )

    results = sn.evaluate(sn.Scripted(reply), folder, "vanilla", error_budget=1.0)
    [row] = [
        r for r in results.rows if (r.metric, r.benchmark, r.slice) == ("accuracy", "mine", "")
    ]
    assert (row.estimate.value, row.estimate.n, row.estimate.errors) == (pytest.approx(3 / 9), 9, 1)


@pytest.mark.parametrize("extractor", registry.names("extractors"))
def test_no_row_vanishes_whatever_reads_the_replies(
    extractor: str, questions: Benchmark, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sn.evaluate(
        sn.Scripted(lambda request: "It is the cat."),
        str(questions.folder),
        ["circular", "instability?m=2"],
        name="r",
    )
    plain, other = sn.score("runs/r"), sn.score("runs/r", extractor=extractor)

    def headlines(results: sn.Results) -> set[tuple[str, str, str, str]]:
        return {
            (row.benchmark, row.protocol, row.metric, row.slice)
            for row in results.rows
            if row.estimate.value is not None and not row.metric.endswith("_of_parsed")
        }

    assert {row[2] for row in headlines(other)} == {row[2] for row in headlines(plain)}


# --- passes in any order -----------------------------------------------------------------------------------------


def presented(choices: tuple[int | None, ...]) -> list[Prediction]:
    return [
        Prediction("p", "generation", "b", "s", Variant(test=i), "k", choice=c)
        for i, c in enumerate(choices)
    ]


@given(st.lists(st.sampled_from([0, 1, 2, None]), min_size=1, max_size=5), st.integers(0, 1))
def test_no_verdict_of_circular_eval_depends_on_the_order_of_the_passes(
    choices: list[int | None], more: int
) -> None:
    answer, rotations = Answer("s", options=(0,)), len(choices) + more
    orders = {tuple(order) for order in itertools.permutations(choices)}
    for verdict in (
        choice_metrics.circular,
        choice_metrics.circular_of_parsed,
        choice_metrics.circular_upper,
    ):
        assert len({verdict(presented(order), answer, rotations) for order in orders}) == 1
    assert len({choice_metrics.consistency(presented(order), rotations) for order in orders}) == 1


def test_a_rotation_that_is_parsed_and_wrong_fails_the_question_even_if_another_was_unparsed() -> (
    None
):
    answer = Answer("s", options=(0,))
    for order in ((None, 1), (1, None)):
        assert choice_metrics.circular_of_parsed(presented(order), answer, 2) == 0.0
        assert choice_metrics.circular_upper(presented(order), answer, 2) == 0.0
    # Unparsed and right: not right, of those parsed unsettled, at most right.
    assert choice_metrics.circular(presented((0, None)), answer, 2) == 0.0
    assert choice_metrics.circular_of_parsed(presented((0, None)), answer, 2) is None
    assert choice_metrics.circular_upper(presented((0, None)), answer, 2) == 1.0
    lost = [
        *presented((0, None)),
        Prediction("p", "generation", "b", "s", Variant(test=2), "k", error=Failure("timeout", "")),
    ]
    assert choice_metrics.circular_upper(lost, answer, 3) is None  # the lost one could still decide


# --- as published ------------------------------------------------------------------------------------------------


CAPTIONS = {
    "q0": "A dog runs on the wet grass.",
    "q1": "Two cats sit on a red sofa",
    "q2": "a man rides a horse",
}
REFERENCES = [
    ["a dog runs on the wet grass", "A dog is running."],
    ["Two cats sit on a red couch", "Two cats sit there."],
    ["A man rides a brown horse.", "a man rides a horse"],
]


def caption_run(make: Callable[..., Benchmark]) -> None:
    rows = [
        {"id": name, "question": "Describe it.", "answer": golds, "image": small.cell(i)}
        for i, (name, golds) in enumerate(zip(CAPTIONS, REFERENCES, strict=True))
    ]
    facts: dict[str, Any] = {
        "suite": "reform-eval",
        "task": "caption",
        "dimension": "Desc",
        "formulation": "text",
    }
    made = make(rows, name="captions", metrics=("cider",), **facts)
    sn.evaluate(sn.Scripted(CAPTIONS), str(made.folder), "vanilla", name="captions")


def test_the_description_of_reform_eval_is_the_legacy_cider_of_a_hundred_as_published(
    make: Callable[..., Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    caption_run(make)
    replies = list(CAPTIONS.values())
    standard, legacy = (
        cider(replies, REFERENCES, tokens=tokens).value for tokens in ("standard", "legacy")
    )
    assert standard > legacy + 0.1
    plain = sn.score("runs/captions")
    assert plain.value() == pytest.approx(standard)
    results = sn.score("runs/captions", as_published=True)
    [row] = [row for row in results.rows if (row.metric, row.dimension) == ("capability", "Desc")]
    assert row.estimate.value == pytest.approx(100 * legacy)
    assert (row.unit, row.convention) == ("CIDEr x 100", "as-published")
    assert f"| {100 * legacy:.2f} [" in results.report("r.md").read_text("utf-8")
    assert f"{100 * legacy:.2f} [" in results.report("r.html").read_text("utf-8")
    # Both by name in one file.
    [run] = results.runs
    assert run.stored_in is not None
    kept = json.loads((run.stored_in / "results.json").read_text())
    by_convention = {
        one["convention"]: one["value"]
        for one in kept
        if (one["metric"], one["dimension"]) == ("capability", "Desc")
    }
    assert by_convention == {
        "standard": pytest.approx(standard),
        "as-published": pytest.approx(100 * legacy),
    }
    code, out, _ = command(capsys, "score", "runs/captions", "--as-published", "--details")
    assert code == 0 and f"{100 * legacy:.2f}" in out and "legacy BLEU-4" in out


def test_over_all_dimensions_reform_eval_averages_what_it_prints_cider_in_hundredths_with_the_rest(
    make: Callable[..., Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    facts: dict[str, Any] = {"suite": "reform-eval", "task": "vqa", "dimension": "VGR"}
    choices = make(
        [{**row, "answer": n % 2} for n, row in enumerate(small.rows(4))], name="choices", **facts
    )
    rows = [
        {"id": name, "question": "Describe it.", "answer": golds, "image": small.cell(40 + i)}
        for i, (name, golds) in enumerate(zip(CAPTIONS, REFERENCES, strict=True))
    ]
    facts = {"suite": "reform-eval", "task": "caption", "dimension": "Desc", "formulation": "text"}
    captions = make(rows, name="captions", metrics=("cider",), **facts)

    def reply(request: Request) -> str:
        return "(A)" if request.variant.labels else CAPTIONS[request.sample_id]

    sn.evaluate(
        sn.Scripted(reply), [str(choices.folder), str(captions.folder)], "vanilla", name="both"
    )
    [standard] = [
        r for r in sn.score("runs/both").rows if (r.metric, r.dimension) == ("headline", "*")
    ]
    assert (standard.estimate.value, standard.reason) == (None, "scales differ")
    published = sn.score("runs/both", as_published=True)
    [row] = [r for r in published.rows if (r.metric, r.dimension) == ("headline", "*")]
    right = published.value("accuracy", benchmark="choices")
    described = 100 * (cider(list(CAPTIONS.values()), REFERENCES, tokens="legacy").value or 0)
    assert row.estimate.value == pytest.approx((right + described) / 2)
    assert (row.reason, row.unit, row.detail) == (
        None,
        "score x 100",
        "mean of figures in CIDEr x 100, share x 100",
    )
    pytest.importorskip("snellen_lab", reason="the verb `paper` waits for snellen-lab")
    _, shown, _ = command(capsys, "paper", "reform-eval", "28", "runs/both", "--markdown")
    assert "no mean beside theirs: theirs are over reform-eval/a-okvqa" in shown
    assert "and 53 others too; the run's is over captions, choices too (Complete)" in shown


def test_a_capability_of_lvlm_ehub_as_published_is_the_mean_of_what_is_printed(
    make: Callable[..., Benchmark],
) -> None:
    tasks: dict[str, list[tuple[str, list[str]]]] = {
        "caption": [(CAPTIONS[f"q{i}"], golds) for i, golds in enumerate(REFERENCES)],
        "ocr": [("It says EXIT.", ["exit"]), ("nothing", ["way in"])],
        "candidates": [("no", ["yes"]), ("yes, two", ["yes"])],
    }
    said, folders = {}, []
    for start, (task, questions) in enumerate(tasks.items()):
        rows = []
        for i, (reply, golds) in enumerate(questions):
            said[f"{task}{i}"] = reply
            place = {"id": f"{task}{i}", "image": small.cell(20 * start + i)}
            rows.append({**place, "question": f"What {task} {i}?", "answer": golds})
        facts = {
            "suite": "lvlm-ehub",
            "task": task,
            "dimension": "Knowledge",
            "formulation": "text",
        }
        folders.append(str(make(rows, name=task, metrics=("exact_match",), **facts).folder))
    sn.evaluate(sn.Scripted(said), folders, "vanilla", name="axis")
    published = sn.score("runs/axis", as_published=True)
    [row] = [r for r in published.rows if (r.metric, r.dimension) == ("capability", "Knowledge")]
    described = 100 * (cider(list(CAPTIONS.values()), REFERENCES, tokens="legacy").value or 0)
    # Half of the words are read; of the candidates, which are the golds here, one stands in one of two replies.
    assert row.estimate.value == pytest.approx((described + 50 + 50) / 3)
    assert row.unit == "score x 100" and row.reason is None


def test_choices_as_published_are_read_by_the_first_label_and_each_unparsed_text_is_a_kind_of_its_own(
    make: Callable[..., Benchmark],
) -> None:
    facts = {"suite": "reform-eval", "task": "vqa", "dimension": "VGR"}
    folder = str(make([{**row, "answer": 0} for row in small.rows(6)], **facts).folder)

    def reply(request: Request) -> str:
        # The first rule reads a label in parentheses wherever it stands; the standard one reads the last sentence.
        place = request.variant.labels[request.variant.order.index(0)]
        return f"({place})" if request.variant.test < 2 else f"hm {request.variant.test}"

    results = sn.evaluate(sn.Scripted(reply), folder, "instability?m=4", name="r")
    kinds = [0.5, 0.5]
    assert results.value("instability") == pytest.approx(-sum(p * math.log(p) for p in kinds))
    published = sn.score("runs/r", as_published=True)
    # Two right, and two unparsed texts: 1/2, 1/4, 1/4.
    assert published.value("legacy_instability") == pytest.approx(
        0.5 * math.log(2) + 0.5 * math.log(4)
    )
    assert published.value("accuracy") == pytest.approx(50.0)
    assert {p.extractor_version for b in published.runs[0].benchmarks for p in b.predictions} == {
        "reform-eval-first-label"
    }
    text = published.report("r.md").read_text("utf-8")
    assert (
        "As published: replies are parsed with legacy:reform-eval; instability is legacy instability."
        in text
    )
    assert "| 50.00 [" in text and f"| {0.5 * math.log(2) + 0.5 * math.log(4):.3f} [" in text
    assert "NaN" not in published.report("r.html").read_text("utf-8")


def test_the_capability_of_mmbench_as_published_is_its_circular_accuracy(
    make: Callable[..., Benchmark],
) -> None:
    folder = str(make(small.rows(8), suite="mmbench", dimension="FG").folder)
    sn.evaluate("snellen:always-a", folder, "circular", name="r")
    assert sn.score("runs/r").value() == 0.25
    assert sn.score("runs/r", as_published=True).value() == 0.0


def test_a_run_as_published_prints_and_reports_those_numbers(
    make: Callable[..., Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(make(small.rows(8), suite="mmbench", dimension="FG").folder)
    spec = sn.ScoringSpec(as_published=True)
    assert (
        sn.evaluate("snellen:always-a", folder, "circular", name="r", scoring=spec).value(
            "accuracy"
        )
        == 25.0
    )
    Path("exam.toml").write_text(
        f'models = ["snellen:always-a"]\nbenchmarks = ["{folder}"]\nprotocols = ["circular"]\nname = "e"\n'
        "[scoring]\nas_published = true\n"
    )
    for words, name in (
        (["exam.toml"], "e"),
        (["exam.toml", "--no-as-published", "--name", "s"], "s"),
    ):
        code, out, _ = command(capsys, "run", *words, "--json")
        assert code == 0
        shown = {json.loads(line)["convention"] for line in out.splitlines()}
        [kept] = Path(f"runs/{name}/scores").glob("*") if name == "e" else [Path("runs/s")]
        stored = {row["convention"] for row in json.loads((kept / "results.json").read_text())}
        assert shown == ({"as-published"} if name == "e" else {"standard"})
        assert stored == {"standard", *shown}
    [page] = Path("runs/e").glob("scores/*/report.html")
    assert "25.00 [" in page.read_text("utf-8")


def test_what_no_suite_published_is_the_same_as_published(questions: Benchmark) -> None:
    plain = sn.evaluate("snellen:always-a", str(questions.folder), "vanilla", name="r")
    published = sn.score("runs/r", as_published=True)
    assert [row.estimate for row in published.rows] == [row.estimate for row in plain.rows]
