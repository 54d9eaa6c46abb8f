"""Published scores of today's benchmarks that a judge gives: what it is shown, and means by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

import archived_tables
import modern_metric_tables
import modern_tables
import small
import snellen as sn
from snellen import registry
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue.published_number import OWN_JUDGE_WORDING
from snellen.metrics.declaration import find_metric
from snellen.metrics.questions import Unscored
from snellen.protocols.verdict import (
    JudgedMarking,
    Verdict,
    mark_behind,
    read_mark,
    read_mark_word,
    read_number,
)
from snellen.records import Request, Variant
from snellen.suites.modern.reasoning_quality import marked_steps

PARTS = re.compile(
    r"^(?:Reference|First answer): (.+?)$.*<words>(.+?)</words>",
    re.MULTILINE | re.DOTALL,
)
Mark = Callable[[str, str, str], str]
"""A judge's mark, from the prompt, the reference and the reply in it."""


class Asked(Struct, frozen=True):
    """What came of a judged score: the value of each row, and the judge's prompts."""

    values: dict[str, float | None]
    prompts: list[str]


def judged(name: str, metric: str, replies: dict[str, str], mark: Mark, folder: Path) -> Asked:
    """The score of replies to an entry's miniature, by sample id; to any other question the reply is `a pet`."""
    prompts: list[str] = []

    def judge(request: Request) -> str:
        text = request.messages[0].text
        if (
            parts := PARTS.search(text)
        ) is None:  # the call at the start, or a question with options
            return "X"
        prompts.append(text)
        return mark(text, json.loads(parts[1]), json.loads(parts[2]))

    tables = modern_metric_tables if name in modern_metric_tables.TABLES else modern_tables
    spec = entries()[f"modern/{name}"]
    benchmark = build_benchmark(
        spec.from_hub(), source=tables.write(name, folder / "hub"), to=folder / "built"
    )
    model = sn.Scripted(lambda request: replies.get(request.sample_id, "a pet"))
    sn.evaluate(model, str(benchmark.folder), "vanilla", runs=folder, name="asked")
    results = sn.score(
        str(folder / "asked"), metrics=[metric], judge=sn.Scripted(judge, name="judge")
    )
    rows = {
        row.metric: row.estimate.value
        for row in results.rows
        if row.metric.startswith(metric) and not row.slice
    }
    return Asked(rows, prompts)


def same(prompt: str, reference: str, reply: str) -> str:
    return "1" if reply == reference else "0"


def grade(prompt: str, reference: str, reply: str) -> str:
    """Of a short fact: 2 correct, 1 not attempted, 0 incorrect."""
    return "1" if reply == "No idea." else "2" if reply == reference else "0"


def published(
    name: str,
    form: str,
    replies: dict[str, str],
    mark: Callable[[re.Match[str]], str],
    folder: Path,
) -> Asked:
    """The score of replies to a miniature by a judge with a published prompt, which `form` takes apart."""
    prompts: list[str] = []

    def judge(request: Request) -> str:
        text = request.messages[0].text
        parts = re.search(form, text, re.MULTILINE)
        if parts is None:  # the call at the start
            return "X"
        prompts.append(text)
        return mark(parts)

    source = modern_tables.write(name, folder / "hub")
    spec = entries()[f"modern/{name}"]
    benchmark = build_benchmark(spec.from_hub(), source=source, to=folder / "built")
    model = sn.Scripted(lambda request: replies.get(request.sample_id, "a pet"))
    sn.evaluate(model, str(benchmark.folder), "vanilla", runs=folder, name="asked")
    metric = name.replace("-", "_")
    results = sn.score(
        str(folder / "asked"), metrics=[metric], judge=sn.Scripted(judge, name="judge")
    )
    rows = [row for row in results.rows if row.metric.startswith(metric) and not row.slice]
    return Asked({row.metric: row.estimate.value for row in rows}, prompts)


def test_mm_vets_judge_completes_the_last_row_of_the_published_table(tmp_path: Path) -> None:
    asked = published(
        "mm-vet",
        r"^(.+) \| (.+) \| (.*) \| \Z",
        {"v1_0": "a cat and a pet"},
        lambda parts: "1.0" if parts[3] == "a cat and a pet" else " 0.5 |",
        tmp_path,
    )
    assert asked.values == {"mm_vet": pytest.approx((1.0 + 5 * 0.5) / 6)}
    rows = [prompt.splitlines()[-1] for prompt in asked.prompts]
    assert "Which animal is number 0? | cat <AND> a pet | a cat and a pet | " in rows
    assert "What is x in the equation? | -1 <AND> -5 | x = 3 | 0.0\n" in asked.prompts[0]


def test_simplevqas_judge_replies_in_chinese_to_the_published_prompt(tmp_path: Path) -> None:
    def mark(parts: re.Match[str]) -> str:
        grades = {parts[1]: "正确", "No idea.": "未尝试"}
        return f'```json\n{{"预测答案0": "{grades.get(parts[2], "错误")}"}}\n```'

    asked = published(
        "simplevqa",
        r"^正确答案: (.*)\n预测答案:\s*\[预测答案0\]：(.*)$",
        {"0": "cat", "1": "dog", "2": "No idea."},
        mark,
        tmp_path,
    )
    shares = {"simplevqa": 2 / 6, "simplevqa_incorrect": 3 / 6, "simplevqa_not_attempted": 1 / 6}
    assert asked.values == pytest.approx(shares)


def test_vibe_evals_judge_explains_and_then_rates(tmp_path: Path) -> None:
    # Of evaluate.py of the makers: 25 points for each mark above 1.
    marks = {
        "a cat": "Explanation: it is 1 of 2.\nRating: 4",
        "a pet": "Explanation: no.\nRating: 2",
    }
    asked = published(
        "vibe-eval",
        r"^\[Question\]\n(.+)\n\n\[Assistant Response\]\n(.+)\n\n\[Ground Truth Response\]\n(.+)\n\n\[System\]$",
        {"hard-0": "a cat"},
        lambda parts: marks[parts[2]],
        tmp_path,
    )
    assert asked.values == {"vibe_eval": pytest.approx((0.75 + 5 * 0.25) / 6)}
    assert "[Ground Truth Response]\nIt is a cat at home.\n" in asked.prompts[0]


def test_mia_benchs_judge_weighs_the_components_in_the_makers_words(tmp_path: Path) -> None:
    said = {
        "a": "score of component 1: 10/10, total score: 10/10. It names a cat.",
        "a pet": "score of component 1: 2/7, score of component 2: 2/3, total score: 4/10. No cat.",
    }
    asked = published(
        "mia-bench",
        r"The response is:' (.+)' You need to score",
        {"0": "a"},
        lambda parts: said[parts[1]],
        tmp_path,
    )
    assert asked.values == {"mia_bench": pytest.approx((1.0 + 5 * 0.4) / 6)}
    # evaluation.ipynb of the makers, generate_prompt, of one and of two components, with its signs.
    one, two = (
        next(prompt for prompt in asked.prompts if f"number {number}?" in prompt)
        for number in (0, 1)
    )
    assert one == (
        "Here is an instruction for a multimodal LLM: ' Which animal is number 0? You need to grade if the response "
        "from the model follows each component of the instruction. The first component is:' Names a cat.' The "
        "response is:' a' You need to score the response and be strict. The total score ranges from 0 to 10, depending "
        "on if the response follows the instruction. The first component is worth 10 scores. List scores of each "
        "component, and the total score in one sentence in this format: score of component 1: x/2, score of component "
        "2: y/8, total score: z/10. Then explain your reasons.'"
    )
    assert (
        "The first component is:' Names a dog.', and the second component is:' Counts to 1.' The"
        in two
    )
    assert " The first and second component is each worth 7 and 3 scores. List scores" in two


def test_a_benchmark_without_weights_has_no_score_of_mia_bench(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("question,answer\nName the animal.,Names a cat.\n")
    own = sn.build(table, to=tmp_path / "own", no_images=True)
    sn.evaluate(sn.Scripted(lambda request: "a cat"), own, runs=tmp_path, name="asked")
    judge = sn.Scripted(lambda request: "X", name="judge")
    with pytest.raises(
        sn.SnellenError, match=r"0 components and 0 weights; build modern/mia-bench again"
    ):
        sn.score(str(tmp_path / "asked"), metrics=["mia_bench"], judge=judge)


def step(kind: str, judgment: str) -> dict[str, str]:
    return {"step_type": kind, "premise": "x", "conclusion": "y", "judgment": judgment}


INFERENCE = "logical inference"
PRECISE = [
    step("image description", "Wrong"),  # not counted, as by the makers' code
    step(INFERENCE, "Match"),
    step(INFERENCE, "Reasonable"),
    step(INFERENCE, "Wrong"),
    step("background information", "N/A"),
]


def test_mme_cots_judge_marks_the_steps_of_reasoning(tmp_path: Path) -> None:
    def judge(text: str) -> str:
        if "Key steps:" in text:
            n_steps = text.count('"step_index"') - 1
            judgments = ["Matched", *["Unmatched"] * (n_steps - 1)]
            if "number 1?" in text:  # of two solutions, the second one has one step
                judgments = ["Matched", "Unmatched", "Matched"]
            steps = [
                {"step_index": index, "judgment": judgment}
                for index, judgment in enumerate(judgments)
            ]
            return json.dumps(steps)[:-2] + ",}]"  # with a comma too many
        return f"```json\n{json.dumps(PRECISE)}\n```"

    prompts: list[str] = []

    def answer(request: Request) -> str:
        text = request.messages[0].text
        if "Ground truth:" not in text and "Key steps:" not in text:
            return "X"
        prompts.append(text)
        return judge(text)

    source = modern_tables.write("mme-cot", tmp_path / "hub")
    built = build_benchmark(
        entries()["modern/mme-cot"].from_hub(), source=source, to=tmp_path / "built"
    )
    model = sn.Scripted(lambda request: "<think>It barks.</think> It is a dog.")
    sn.evaluate(model, str(built.folder), "vanilla", runs=tmp_path, name="asked")
    scored = sn.score(
        str(tmp_path / "asked"), metrics=["mme_cot"], judge=sn.Scripted(answer, name="judge")
    )
    # Of three inferences two are good; of the four questions of reasoning three have one of two key steps.
    precision, recall = 2 / 3, (0.5 + 1.0 + 0.5 + 0.5) / 4
    assert scored.value("mme_cot_precision") == pytest.approx(precision)
    assert scored.value("mme_cot_recall") == pytest.approx(recall)
    f1 = 2 * precision * recall / (precision + recall)
    assert scored.value("mme_cot") == pytest.approx(f1)
    assert scored.value("overall_accuracy") is not None
    assert len(prompts) == 8 and all("\nIt is a dog.\n" in prompt for prompt in prompts)
    assert not any(kept in prompt for prompt in prompts for kept in ("number 4?", "number 5?"))
    precise = next(text for text in prompts if "number 1?" in text and "Ground truth:" in text)
    # The makers' code shows the descriptions of images twice, and key steps of images not at all.
    truth = ["It is a dog.", "It barks.", "Image 1: an animal.", "Image 1: an animal."]
    assert f"Ground truth:\n{json.dumps(truth)}" in precise


@pytest.mark.parametrize(
    ("reply", "steps"),
    [
        ('[{"judgment": "Match",},]', 1),
        ('Steps:\n[{"conclusion": "\\frac{1}{2} is in [0, 1]", "judgment": "Match"}] Done.', 1),
        ("[1, 2]", 0),
        ('[{"judgment": "Match"', 0),
        ("none", 0),
        ("[" * 5000, 0),
    ],
)
def test_the_steps_in_a_judges_reply(reply: str, steps: int) -> None:
    assert len(marked_steps(reply)) == steps


def test_charxivs_judge_has_a_published_prompt_for_each_kind_of_answer(tmp_path: Path) -> None:
    asked = published(
        "charxiv-reasoning",
        r"Your Turn ###\n    \* Question: (.*)\n    \* Ground Truth: (.*)\n    \* Response: (.*)",
        {"0": "cat", "1": "dog", "2": "cat"},
        lambda parts: json.dumps(
            {"extracted_answer": parts[3], "score": int(parts[2] == parts[3])}
        ),
        tmp_path,
    )
    assert asked.values == {"charxiv_reasoning": pytest.approx(2 / 6)}
    # The miniature's rows are of the kinds 1, 2, 3, 4, 1, 2 (src/constants.py: 3 and 4 have the same rules).
    rules = ["referring to the same term", "same semantic meaning", "exactly equal in values"]
    used = [[rule in prompt for rule in rules].index(True) for prompt in asked.prompts]
    assert sorted(used) == [0, 0, 1, 1, 2, 2]


def test_charxivs_judge_grades_descriptions_by_the_rules_of_their_kind(tmp_path: Path) -> None:
    asked = published(
        "charxiv-descriptive",
        r"T1:\nResponse 1: (.*)\nGround Truth 1: (.*)\n\n\Z",
        {"0-1": "cat 1", "1-2": "dog 2", "1-3": "dog 2", "2-4": "cat 4"},
        lambda parts: f'{{"extract_answer_T1": "x", "score_T1": {int(parts[1] == parts[2])}}}',
        tmp_path,
    )
    assert asked.values == {"charxiv_descriptive": pytest.approx(2 / 24)}
    overarching = [re.search("Overarching Question: (.*)", text) for text in asked.prompts]
    # The plot is not named in what the judge sees, nor what to answer where there is nothing.
    questions = [found[1] for found in overarching if found]
    assert len(questions) == 24
    assert "What is the label of the x-axis?" in questions
    trend = next(
        text for text in asked.prompts if "general trend of data" in text.split("Rubric")[0]
    )
    assert "share the same general trend" in trend


def test_a_question_without_a_kind_is_no_question_of_charxiv(tmp_path: Path) -> None:
    table = tmp_path / "charts.csv"
    table.write_text("question,answer\nWhich curve is highest?,red\n")
    charts = sn.build(table, to=tmp_path / "charts", no_images=True)
    sn.evaluate(sn.Scripted(lambda request: "red"), charts, runs=tmp_path, name="asked")
    with pytest.raises(
        sn.SnellenError, match=r"a tag kind \(a column tag_kind\) with one of 1, 2, 3, 4"
    ):
        sn.score(
            str(tmp_path / "asked"),
            metrics=["charxiv_reasoning"],
            judge=sn.Scripted(lambda request: "X", name="judge"),
        )


def test_a_table_of_ones_own_names_the_kind_of_charxivs_descriptions(tmp_path: Path) -> None:
    # A column `question` has the question itself, so the kind has a column of its own.
    table = tmp_path / "charts.csv"
    table.write_text("question,answer,tag_kind\nWhat is the title?,Rain,1\n")
    charts = sn.build(table, to=tmp_path / "charts", no_images=True)
    sn.evaluate(sn.Scripted(lambda request: "Rain"), charts, runs=tmp_path, name="asked")
    judge = sn.Scripted(
        lambda request: '{"extract_answer_T1": "Rain", "score_T1": 1}', name="judge"
    )
    scored = sn.score(str(tmp_path / "asked"), metrics=["charxiv_descriptive"], judge=judge)
    assert scored.value("charxiv_descriptive") == 1.0


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ('{"extracted_answer": "b", "score": 1}', 1),
        ('```json\n{"extracted_answer": "b",\n "score": 0}\n```', 0),
        ('<think>{"score": 0}?</think>{"score": 1}', 1),
        ('{"extracted_answer": "\\\\boxed{0}", "score": "1"}', 1),
        ('{"score": 1.0}', 1),
        ('{"score": true}', None),
        ('{"score": 0.5}', None),
        ('{"verdict": "0"}', 0),  # a server that was held to the verdicts
        ('{"extracted_answer": "b"}', None),
        ('{"extracted_answer": "b", "score"', None),
        ("1", None),
    ],
)
def test_a_mark_in_a_field_of_json(reply: str, mark: int | None) -> None:
    verdict = read_mark(reply, {"1": 1, "0": 0}, "score")
    assert (verdict.value if verdict else None) == mark


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ("Explanation: 3 of 4 are named.\nRating: 4", 4),
        ("Explanation: none.\nRating:\n1", 1),
        ("Rating: 4/5", 4),
        ("Rating: 3 (good)\nRating: 2", 3),
        ("4", 4),  # a server that was held to the marks
        ("**Rating:** 4", 4),
        ("rating: 4", 4),
        ("Its rating: 3 would be high.\nRating: 2", 2),
        ("Rating: 45", None),
        ("Rating: 3.5", None),
        ("Rating: 4/10", None),
        ("Rating: none", None),
        ("Explanation: 3 of 4 are named.", None),
    ],
)
def test_a_mark_behind_its_explanation(reply: str, mark: int | None) -> None:
    verdict = read_number(mark_behind(reply, "Rating:"), 1, 5)
    assert (verdict.value if verdict else None) == mark


@pytest.mark.parametrize(
    ("version", "tokens"),
    [
        ("charxiv-reasoning-published-1", 1024),  # src/reasoning_utils.py: 256, then up to 1024
        ("simplevqa-published-1", 64),  # some 20 tokens of JSON in a fence of code
        ("chartmuseum-published-1", 16),
    ],
)
def test_a_judge_may_write_as_much_as_its_prompt_asks_for(version: str, tokens: int) -> None:
    task = JudgedMarking(
        benchmark="b",
        sample_id="1",
        variant=Variant(),
        question="Which?",
        reply="red",
        reference_answers=("red",),
        version=version,
        scale=(0, 2),
    )
    [request] = next(task.start())
    assert request.decoding.max_new_tokens == tokens


def test_mathvistas_judge_finds_the_answer_of_open_questions_alone(tmp_path: Path) -> None:
    replies = {"2": "14", "3": "1.45", "4": "[2007, 2009]"}  # of 8 questions two have options
    asked = judged("mathvista", "mathvista", replies, same, tmp_path)
    assert asked.values == {"mathvista": pytest.approx(2 / 6)}
    assert len(asked.prompts) == 6 and all(
        "as its final answer" in prompt for prompt in asked.prompts
    )


def test_a_short_fact_is_correct_incorrect_or_not_attempted(tmp_path: Path) -> None:
    name = "worldvqa"
    replies = {"0": "cat", "1": "dog", "2": "No idea."}
    asked = judged(name, name, replies, grade, tmp_path)
    shares = {name: 2 / 6, f"{name}_incorrect": 3 / 6, f"{name}_not_attempted": 1 / 6}
    assert asked.values == pytest.approx(shares)
    assert len(asked.prompts) == 6 and all("not attempted" in prompt for prompt in asked.prompts)


def test_llava_benchs_judge_marks_the_reply_and_the_reference(tmp_path: Path) -> None:
    def mark(prompt: str, reference: str, reply: str) -> str:
        if "Mark the first answer" in prompt:
            return "9" if "cat" in reference else "8"
        return "10" if reply == "A cat, asleep." else "4.5"

    asked = judged("llava-bench", "llava_bench", {"0": "A cat, asleep."}, mark, tmp_path)
    reply_mean = (10 + 5 * 4.5) / 6
    reference_mean = (9 + 5 * 8) / 6
    means = {
        "llava_bench": reply_mean,
        "llava_bench_reference": reference_mean,
        "llava_bench_relative": 100 * reply_mean / reference_mean,
    }
    assert asked.values == pytest.approx(means)
    assert len(asked.prompts) == 12


def test_a_mark_of_the_reply_alone_is_no_score_of_llava_bench() -> None:
    def verdicts(*marks: int | None) -> list[list[Verdict]]:
        return [[Verdict("malformed" if mark is None else "given", mark) for mark in marks]]

    metric = find_metric("llava_bench")
    two_judges = verdicts(6, 4, 9, 8)
    assert metric.count(two_judges) == (1, 5, 1, 8.5)
    assert (
        metric.count(verdicts(6, None))
        == metric.count(verdicts(None, 9))
        == Unscored("no verdict", "malformed")
    )
    assert metric.count(verdicts(6, None, None, 8)) == (1, 6, 1, 8)
    assert metric.compute((2, 12, 1, 8)) == (6, 8, 75)
    assert metric.compute((1, 1, 0, 0)) == (1, None, None)  # a reply that never came


def test_chartmuseums_judge_is_asked_with_the_published_prompt(tmp_path: Path) -> None:
    spec = entries()["modern/chartmuseum"]
    source = archived_tables.write("chartmuseum", tmp_path / "hub")
    benchmark = build_benchmark(spec.from_hub(), source=source, to=tmp_path / "built")
    replies = {
        "h0": "<think>It says 1999 or so.</think>\n<answer>2000</answer>",
        "h1": "<answer> 2001.0 </answer>",
    }
    prompts: list[str] = []

    def judge(request: Request) -> str:
        text = request.messages[0].text
        found = re.search(r"^Answer 1: (.*)\nAnswer 2: (.*)$", text, re.MULTILINE)
        if found is None:  # the call at the start
            return "Yes"
        prompts.append(text)
        return "Yes" if float(found[1]) == float(found[2]) else "No."

    model = sn.Scripted(lambda request: replies.get(request.sample_id, "7"))
    sn.evaluate(model, str(benchmark.folder), "vanilla", runs=tmp_path, name="asked")
    results = sn.score(
        str(tmp_path / "asked"), metrics=["chartmuseum"], judge=sn.Scripted(judge, name="judge")
    )
    assert results.value("chartmuseum", benchmark="modern/chartmuseum") == pytest.approx(2 / 6)
    assert "Question: Which animal is number 0?\nAnswer 1: 2000\nAnswer 2: 2000\n" in prompts[0]


@pytest.mark.parametrize(
    ("reply", "mark"),
    [("Yes", 1), ('"No"', 0), ("No, they differ.", 0), ("yes or no", None), ("Nothing", None)],
)
def test_a_word_stands_for_a_mark(reply: str, mark: int | None) -> None:
    verdict = read_mark_word(reply, {"yes": 1, "no": 0})
    assert (verdict.value if verdict else None) == mark


@pytest.mark.parametrize(
    ("reply", "mark"), [("0.5", 5), ("0.5.", 5), ("1.0", 10), ("0 or 1.0", None), ("0.55", None)]
)
def test_a_word_for_a_mark_may_have_a_decimal(reply: str, mark: int | None) -> None:
    verdict = read_mark_word(reply, {"0": 0, "0.5": 5, "1.0": 10})
    assert (verdict.value if verdict else None) == mark


def test_mm_mt_benchs_judge_sees_the_conversation_before_a_question(tmp_path: Path) -> None:
    marks = {"It eats.": "9", "a pet": "4"}
    asked = judged(
        "mm-mt-bench",
        "mm_mt_bench",
        {"0-1": "It eats."},
        lambda prompt, reference, reply: marks[reply],
        tmp_path,
    )
    assert asked.values == {"mm_mt_bench": pytest.approx((9 + 11 * 4) / 12)}
    assert "User: Which animal is number 0?\n\nAssistant: A cat.\n\nUser: What" in asked.prompts[1]


def test_a_judge_in_snellens_words_is_never_taken_for_the_published_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged("worldvqa", "worldvqa", {"0": "cat"}, grade, tmp_path)
    run = str(tmp_path / "asked")
    report, card = str(tmp_path / "report.md"), str(tmp_path / "card.md")
    small.command(capsys, "report", run, "--scoring", "latest", "-o", report)
    small.command(capsys, "card", run, "--scoring", "latest", "-o", card)
    note = f"{OWN_JUDGE_WORDING}, so not the published score: modern/worldvqa (worldvqa)."
    assert note in Path(report).read_text()
    assert f"judged by judge, in {OWN_JUDGE_WORDING}" in Path(card).read_text()
    _, out, _ = small.command(capsys, "list", "modern/worldvqa", "--json")
    assert OWN_JUDGE_WORDING in out


def test_a_judge_quotes_the_published_prompt_if_its_licence_allows_it() -> None:
    """A version of a prompt is called published if the entry names the licence of what it quotes."""
    for spec in entries().values():
        judge = spec.published.judge if spec.published else None
        if judge is None or not judge.metric:
            continue
        kind = judge.metric.replace("_", "-")
        versions = [name for name in registry.names("judge_prompts") if name.startswith(kind)]
        assert versions, judge.metric
        assert all(("-published-" in name) == judge.is_quoted for name in versions), versions
