"""VisDial's published candidates: ranked by likelihood after what people said, or listed as LVLM-eHub has them."""

from __future__ import annotations

import json
from fractions import Fraction
from math import log2, sqrt
from pathlib import Path
from typing import Any

import pytest

import mini_text
import small
from snellen.api import Results, evaluate, score
from snellen.building.benchmark import Benchmark, Selection
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.models.embedded import Scripted
from snellen.records import Estimate, Request
from snellen.reformulation.sampling import Sampling
from snellen.scoring.answers import open_answers
from snellen.scoring.resampling import draw_subset

FILE = "visdial_1.0_val.json"
DENSE = "visdial_1.0_val_dense_annotations.json"
GOLD_HISTORY = "dialogue?by=likelihood&history=gold"
MANY = 100


def official(to: Path) -> Path:
    """The miniature with a hundred candidates a question, the right one in a random place; in the first
    dialogue, round 4 is annotated: the right one 1.0, the next place 0.5, the one after that 0.25."""
    mini_text.visdial(to)
    content = json.loads((to / FILE).read_text())
    answers = content["data"]["answers"] = [
        *content["data"]["answers"],
        *(f"{n} of them" for n in range(120)),
    ]
    for dialog in content["data"]["dialogs"]:
        for number, turn in enumerate(dialog["dialog"]):
            rng = rng_for("candidates", dialog["image_id"], number)
            places = rng.sample([n for n in range(len(answers)) if n != turn["answer"]], MANY - 1)
            turn["gt_index"] = rng.randrange(MANY)
            turn["answer_options"] = [
                *places[: turn["gt_index"]],
                turn["answer"],
                *places[turn["gt_index"] :],
            ]
    (to / FILE).write_text(json.dumps(content))
    gold = content["data"]["dialogs"][0]["dialog"][4]["gt_index"]
    relevance = [0.0] * MANY
    for share, place in ((1.0, gold), (0.5, gold + 1), (0.25, gold + 2)):
        relevance[place % MANY] = share
    dense = [{"image_id": 185565, "round_id": 5, "gt_relevance": relevance}]
    (to / DENSE).write_text(json.dumps(dense))
    return to


def edited(folder: Path, edit: Any) -> Path:
    content = json.loads((folder / FILE).read_text())
    edit(content["data"], content["data"]["dialogs"][2]["dialog"][3])
    (folder / FILE).write_text(json.dumps(content))
    return folder


def made(tmp_path: Path, name: str = "visdial/candidates") -> Benchmark:
    return build_benchmark(
        entries()[name], source=official(tmp_path / "official"), to=tmp_path / "built"
    )


def rows(results: Results, name: str = "visdial/candidates") -> dict[str, Estimate]:
    return {
        row.metric: row.estimate for row in results.rows if row.benchmark == name and not row.slice
    }


def test_the_candidates_are_the_options_in_the_file_s_order_and_the_history_is_what_people_said(
    tmp_path: Path,
) -> None:
    benchmark = made(tmp_path)
    data = json.loads((tmp_path / "official" / FILE).read_text())["data"]
    golds, histories = open_answers(benchmark.folder), benchmark.histories()
    assert benchmark.manifest.counts.questions == 80
    for sample, dialog in zip(benchmark.samples(), data["dialogs"], strict=True):
        assert sample.context == dialog["caption"]
        for number, (turn, published) in enumerate(
            zip(sample.turns, dialog["dialog"], strict=True)
        ):
            assert turn.options == tuple(data["answers"][n] for n in published["answer_options"])
            assert golds[sample.id, number].options == (published["gt_index"],)
            assert histories[sample.id][number] == data["answers"][published["answer"]]
    annotated = [key for key, answer in golds.items() if answer.relevance]
    assert annotated == [("185565", 4)]
    gold = golds["185565", 4]
    assert gold.relevance[gold.options[0]] == 1.0 and sum(gold.relevance) == 1.75


def test_by_likelihood_a_run_that_names_no_protocol_takes_the_published_history(
    tmp_path: Path,
) -> None:
    benchmark, seen = made(tmp_path), {}

    def likelihoods(request: Request) -> list[float]:
        seen[request.sample_id, request.variant.turn] = [m.text for m in request.messages]
        return [0.0] * len(request.continuations)

    model = Scripted(lambda request: "", scores=likelihoods)
    results = evaluate(model, str(benchmark.folder), method="likelihood", runs=tmp_path, name="run")
    assert {row.protocol for row in results.rows if row.metric == "accuracy"} == {GOLD_HISTORY}
    first = next(benchmark.samples())
    said = benchmark.histories()[first.id]
    assert [text for text in seen[first.id, 9] if text in said] == list(said[:9])


def test_the_oracle_ranks_every_answer_first_and_the_guesser_lands_on_the_closed_form(
    tmp_path: Path,
) -> None:
    benchmark = made(tmp_path)
    evaluate("snellen:oracle", str(benchmark.folder), GOLD_HISTORY, runs=tmp_path, name="oracle")
    found = rows(score(tmp_path / "oracle", metrics=["ranking"], likelihood_rule="mean"))
    for name in ("mrr", "recall_at_1", "recall_at_5", "recall_at_10", "mean_rank"):
        assert (found[name].value, found[name].n) == (1.0, 80)
    # The other candidates are all alike: two thirds of NDCG's three places are left to their mean.
    rest = (1 / log2(3) + 1 / log2(4)) / 99 * 0.75
    assert found["ndcg"].value == pytest.approx((1 + rest) / (1 + 0.5 / log2(3) + 0.25 / log2(4)))
    assert (found["ndcg"].n, found["ndcg"].unscored) == (1, 0)

    evaluate("snellen:uniform", str(benchmark.folder), GOLD_HISTORY, runs=tmp_path, name="uniform")
    found = rows(score(tmp_path / "uniform", metrics=["ranking"], likelihood_rule="mean"))
    # One candidate is drawn; the others share the places 2 to 100, whose mean is 51.
    hits = found["recall_at_1"].value * 80
    assert hits == pytest.approx(round(hits)) and hits <= 5  # 4 sigma above 80 / 100
    assert found["mrr"].value == pytest.approx((hits + (80 - hits) / 51) / 80)


def test_random_likelihoods_have_the_harmonic_mean_reciprocal_rank(tmp_path: Path) -> None:
    def likelihoods(request: Request) -> list[float]:
        rng = rng_for("random", request.key)
        return [rng.random() for _ in request.continuations]

    benchmark = made(tmp_path)
    model = Scripted(lambda request: "", scores=likelihoods)
    evaluate(model, str(benchmark.folder), f"{GOLD_HISTORY}&m=6", runs=tmp_path, name="run")
    found = rows(score(tmp_path / "run", metrics=["ranking"]))
    ranks = range(1, MANY + 1)
    mean = float(sum(Fraction(1, rank) for rank in ranks) / MANY)
    spread = sqrt(sum(1 / rank**2 for rank in ranks) / MANY - mean**2)
    draws = 80 * 6  # each presentation has a template of its own, and so a draw of its own
    assert found["mrr"].value == pytest.approx(mean, abs=4 * spread / sqrt(draws))
    assert found["mean_rank"].value == pytest.approx(50.5, abs=4 * sqrt((MANY**2 - 1) / 12 / draws))
    for k in (1, 5, 10):
        assert found[f"recall_at_{k}"].value == pytest.approx(
            k / 100, abs=4 * sqrt(k / 100 * (1 - k / 100) / draws)
        )


def test_a_question_of_a_hundred_options_is_answered_by_number_too(tmp_path: Path) -> None:
    results = evaluate(
        "snellen:oracle", str(made(tmp_path).folder), "dialogue", runs=tmp_path, name="run"
    )
    assert rows(results)["accuracy"].value == 1.0
    assert rows(results)["hit_rate"].value == 1.0


def test_an_annotated_round_without_a_right_candidate_has_no_ndcg_and_says_so(
    tmp_path: Path,
) -> None:
    source = official(tmp_path / "official")
    (source / DENSE).write_text(
        json.dumps([{"image_id": 185565, "round_id": 5, "gt_relevance": [0.0] * MANY}])
    )
    benchmark = build_benchmark(
        entries()["visdial/candidates"], source=source, to=tmp_path / "built"
    )
    evaluate("snellen:oracle", str(benchmark.folder), GOLD_HISTORY, runs=tmp_path, name="run")
    results = score(tmp_path / "run", metrics=["ranking"])
    assert (rows(results)["ndcg"].value, rows(results)["ndcg"].unscored) == (None, 1)
    [(reason, detail)] = {
        (s.reason, s.detail) for s in results.runs[0].benchmarks[0].scores if s.metric == "ndcg"
    }
    assert reason == "metric undefined" and "at least one above 0" in detail
    assert rows(results)["mrr"].value == 1.0


def test_candidates_that_are_the_same_but_for_blanks_are_one_and_counted(tmp_path: Path) -> None:
    def twice(data: Any, turn: Any) -> None:
        gold, other = turn["gt_index"], (turn["gt_index"] + 1) % MANY
        data["answers"] += [f" {data['answers'][turn['answer_options'][gold]]} ", " "]
        turn["answer_options"][other] = len(data["answers"]) - 2
        turn["answer_options"][(other + 1) % MANY] = len(data["answers"]) - 1

    source = edited(official(tmp_path / "official"), twice)
    benchmark = build_benchmark(
        entries()["visdial/candidates"], source=source, to=tmp_path / "built"
    )
    assert len([*benchmark.samples()][2].turns[3].options) == MANY - 2
    [note] = [line for line in benchmark.manifest.warnings if "left out" in line]
    assert note.endswith(
        "data.dialogs[2]: 2 candidates left out: empty, or the same as another but for blanks"
    )


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (
            lambda data, turn: turn.update(gt_index=(turn["gt_index"] + 1) % MANY),
            "round 3: gt_index .* not the place",
        ),
        (
            lambda data, turn: turn["answer_options"].remove(turn["answer"]),
            "round 3: .* none of the 99 candidates",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused_with_its_place(
    edit: Any, fault: str, tmp_path: Path
) -> None:
    source = edited(official(tmp_path / "official"), edit)
    with pytest.raises(DataError, match=fault):
        build_benchmark(entries()["visdial/candidates"], source=source, to=tmp_path / "built")


def test_the_published_rule_takes_the_first_candidate_of_the_file_that_stands_in_the_reply(
    tmp_path: Path,
) -> None:
    benchmark = made(tmp_path, "visdial/listed")
    golds = open_answers(benchmark.folder)
    assert benchmark.count(Selection()) == 80
    first = next(benchmark.samples())
    assert (first.id, first.context, first.options, first.turns) == ("185565-1", None, (), ())
    assert first.question.endswith("?") and len(golds[first.id, 0].candidates) == MANY
    [gold] = golds[first.id, 0].texts
    assert gold in golds[first.id, 0].candidates
    unlike = [
        text
        for text in golds[first.id, 0].candidates
        if text.endswith("of them") and text[0].isdigit()
    ]
    replies = {first.id: f"perhaps {unlike[1]}"}
    model = Scripted(lambda request: replies.get(request.sample_id, "zzz"))
    results = evaluate(model, str(benchmark.folder), runs=tmp_path, name="run")
    assert {row.metric for row in results.rows if not row.slice} == {
        "headline",
        "contains_answer",
        "typed_match",
        "legacy_visdial_reciprocal_rank",
    }
    # Round 5 asks the same about the same image, so it has the same reply.
    again = golds["185565-6", 0].candidates
    places = [
        texts.index(unlike[1]) + 1
        for texts in (golds[first.id, 0].candidates, again)
        if unlike[1] in texts
    ]
    found = rows(results, "visdial/listed")["legacy_visdial_reciprocal_rank"]
    assert found.value == pytest.approx(sum(1 / place for place in places) / 80)
    assert found.value > 0


def test_what_people_answered_is_right_whatever_other_candidates_there_are(tmp_path: Path) -> None:
    benchmark = made(tmp_path, "visdial/listed")
    golds = open_answers(benchmark.folder)
    right = rows(
        evaluate("snellen:oracle", str(benchmark.folder), runs=tmp_path, name="oracle"),
        "visdial/listed",
    )
    assert right["contains_answer"].value == right["typed_match"].value == 1.0
    other = {
        key[0]: next(t for t in golds[key].candidates if t != golds[key].texts[0]) for key in golds
    }
    model = Scripted(lambda request: other[request.sample_id])
    wrong = rows(
        evaluate(model, str(benchmark.folder), runs=tmp_path, name="other"), "visdial/listed"
    )
    assert wrong["typed_match"].value == 0.0
    assert (wrong["legacy_visdial_reciprocal_rank"].value or 0) > 0.5  # any early candidate will do


# --- own questions -----------------------------------------------------------------------------------------------

OWN = {"id": "q0", "question": "Which?", "options": ["cat", "dog", "cow"], "answer": "cat"}


def test_relevance_of_own_questions_gives_ndcg(tmp_path: Path) -> None:
    table = [{**OWN, "relevance": [1, 0.5, 0]}, {**OWN, "id": "q1"}]
    made = small.built(table, tmp_path / "made", name="mine")
    assert [answer.relevance for answer in open_answers(made.folder).values()] == [
        (1.0, 0.5, 0.0),
        (),
    ]
    model = Scripted(lambda request: "", scores=lambda request: [-2.0, -3.0, -1.0])
    evaluate(model, str(made.folder), "likelihood", runs=tmp_path, name="run")
    found = rows(score(tmp_path / "run", metrics=["ranking"]), "mine")
    assert found["ndcg"].value == pytest.approx((1 / log2(3)) / (1 + 0.5 / log2(3)))
    assert (found["ndcg"].n, found["ndcg"].unscored, found["mrr"].n) == (1, 0, 2)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"relevance": [1, 0]}, "2 relevance values for 3 options"),
        (
            {"relevance": [1, 0, -0.5]},
            "the relevance of an option is -0.5; use numbers of at least 0",
        ),
        ({"relevance": "1, 0, 0"}, "relevance must be a list of numbers, one per option, in JSONL"),
        ({"relevance": [1, True, 0]}, "relevance must be a list of numbers"),
        (
            {"relevance": [1, 0, 0], "answer": None},
            "the question has relevance values but no answer",
        ),
        ({"relevance": [1], "options": None, "answer": "cat"}, "1 relevance values for 0 options"),
    ],
)
def test_relevance_that_cannot_be_is_refused(
    fields: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=rf"table.jsonl:1: .*{fault}"):
        small.built([{**OWN, **fields}], tmp_path / "made")


def test_a_part_of_a_benchmark_keeps_the_relevance(tmp_path: Path) -> None:
    source = official(tmp_path / "official")
    whole = build_benchmark(entries()["visdial/candidates"], source=source, to=tmp_path / "whole")
    part = draw_subset(whole, Sampling("random", count=7), name="part", to=tmp_path / "part")
    kept = {key: answer.relevance for key, answer in open_answers(whole.folder).items()}
    taken = {key: answer.relevance for key, answer in open_answers(part.folder).items()}
    assert len(taken) == 70 and taken.items() <= kept.items() and any(taken.values())
