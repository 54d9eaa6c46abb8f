"""Two results on the same questions: a cause for each different verdict, and a bridge that adds up."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import snellen as sn
from snellen.analysis.reconciling import (
    CAUSES,
    ReconciledItem,
    cause_of,
    guess_aggregation,
    reconcile,
)
from snellen.interchange.harness_rules import RULES, Rule, mmmu, vlmevalkit

LETTERS = "ABCD"
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "pink")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def item(**changes: Any) -> ReconciledItem:
    usual: dict[str, Any] = {
        "id": "1",
        "question": "Which colour?",
        "prompt": "Which colour? A. red B. blue",
        "options": ("red", "blue"),
        "correct_answers": ("red",),
        "image": "a.png",
        "decoding": "temperature=0",
        "reply": "A",
        "reading": "red",
        "verdict": Fraction(1),
    }
    return ReconciledItem(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"correct_answers": ("blue",)}, "right answer"),
        ({"options": ("red", "green")}, "options"),
        ({"prompt": "Say which colour: A. red B. blue", "reply": "B"}, "prompt"),
        ({"options": ("blue", "red"), "reply": "B"}, "option order"),
        ({"image": "b.png", "reply": "B"}, "image"),
        ({"decoding": "temperature=1", "reply": "B"}, "decoding"),
        ({"reply": "A because it is"}, "cut reply"),
        ({"reply": None}, "failed request"),
        ({"reply": "B"}, "reply"),
        ({"reply": "B", "decoding": ""}, "reply, input not recorded"),
        ({"reading": "blue", "is_drawn": True}, "random fallback"),
        ({"reading": "blue"}, "reading"),
        ({"judge": "gpt-4"}, "judge"),
        ({"metric": "points"}, "metric"),
        ({"reading": None}, "metric or judge"),
    ],
)
def test_the_cause_is_the_first_that_the_records_show(
    changes: Mapping[str, Any], cause: str
) -> None:
    other = item(**{"verdict": Fraction(0), **changes})
    assert cause_of(item(), other) == cause_of(other, item()) == cause
    assert cause in CAUSES


def test_the_same_reply_is_scored_whatever_was_asked() -> None:
    other = item(prompt="Say it", reading="blue", verdict=Fraction(0))
    assert cause_of(item(), other) == "reading"


sides = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 1), st.sampled_from(["A", "B", None])),
    max_size=25,
    unique_by=lambda entry: entry[0],
)


@given(sides, sides)
def test_the_bridge_adds_up_exactly(
    first: list[tuple[int, int, str | None]], second: list[tuple[int, int, str | None]]
) -> None:
    one, other = (
        [
            item(id=str(name), question=f"Q{name}?", prompt="", verdict=Fraction(v), reply=reply)
            for name, v, reply in side
        ]
        for side in (first, second)
    )
    if not {i.id for i in one} & {i.id for i in other}:
        return
    try:
        found = reconcile(one, other)
    except ValueError:
        return
    assert found.first_number + sum(step.change for step in found.steps) == found.second_number
    assert found.common + found.only_first == len(one)
    assert found.common + found.only_second == len(other)


# --- two files by two harnesses' rules ------------------------------------------------------------------------------------------


def reply_to(gold: int, options: Sequence[str], chance: random.Random) -> str:
    choice = gold if chance.random() < 0.6 else chance.randrange(4)
    return chance.choice(
        [
            LETTERS[choice],
            f"The answer is {LETTERS[choice]}.",
            f"({LETTERS[choice]}) {options[choice]}",
            options[choice],
            f"A look at the image shows that it is {options[choice]} I think",
        ]
    )


PLANTED = {
    0: "right answer",
    1: "cut reply",
    2: "reply",
    3: "prompt",
    4: "decoding",
    5: "image",
    6: "options",
    7: "option order",
    8: "failed request",
}
RARELY_PLANTED = {9: "judge", 21: "metric"}
"""Of 200 questions one each: more verdicts that no rule of reading explains would hide the rule."""


def with_cause(row: Mapping[str, Any], cause: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row of each file on a question, of which the second differs by a cause."""
    first, second = dict(row), dict(row)
    gold = LETTERS.index(row["answer"])
    wrong = (gold + 1) % 4
    if cause == "right answer":
        second["answer"] = LETTERS[wrong]
        return first, second
    if cause == "cut reply":
        first["prediction"] = f"It is easy to see that the answer is {LETTERS[gold]}"
        second["prediction"] = first["prediction"][:20]
        return first, second

    first["prediction"] = LETTERS[gold]
    second["prediction"] = LETTERS[wrong]
    if cause == "prompt":
        second["prompt"] = f"Look well. {row['prompt']}"
    elif cause == "decoding":
        second["temperature"] = "1"
    elif cause == "image":
        second["image_path"] = f"small-{row['image_path']}"
    elif cause == "options":
        second[LETTERS[wrong]] = "violet"
    elif cause == "option order":
        for letter, other in zip(LETTERS, LETTERS[1:] + LETTERS[:1], strict=True):
            second[letter] = row[other]
        second["answer"] = LETTERS[(gold - 1) % 4]
    elif cause == "failed request":
        second["prediction"] = ""
    elif cause in RARELY_PLANTED.values():
        second["prediction"] = LETTERS[gold]
    return first, second


def planted(recorded: bool) -> dict[str, str]:
    """Write two files about 1,000 questions, scored by two rules, and return the causes of the different verdicts."""
    chance = random.Random(7)
    files: dict[str, list[dict[str, Any]]] = {"a.jsonl": [], "b.jsonl": []}
    truth: dict[str, str] = {}
    for n in range(1000):
        options = chance.sample(COLOURS, 4)
        gold = chance.randrange(4)
        row = {
            "index": str(n),
            "question": f"Which colour is car {n}?",
            **dict(zip(LETTERS, options, strict=True)),
            "answer": LETTERS[gold],
            "prompt": f"Which colour is car {n}?",
            "image_path": f"{n}.png",
            "temperature": "0",
            "judge": "exact matching",
            "prediction": reply_to(gold, options, chance),
        }
        cause = RARELY_PLANTED.get(n % 200, PLANTED.get(n % 12, ""))
        first, second = with_cause(row, cause) if cause else (dict(row), dict(row))
        read_first = read_by(vlmevalkit, first)
        read_second = read_by(mmmu, second)
        drawn = read_second or LETTERS[chance.randrange(4)]
        first["hit"] = int(read_first == first["answer"])
        second["hit"] = int(drawn == second["answer"])
        if cause == "failed request":
            second["hit"] = 0
        if cause in RARELY_PLANTED.values():
            second["hit"] = 1 - first["hit"]
        if cause == "judge":
            second["judge"] = "gpt-4o"
        if recorded:
            first["extracted"] = read_first
            second["extracted"] = drawn if second["prediction"] else ""
        if first["hit"] != second["hit"]:
            fallback = "reading" if read_second else "random fallback"
            truth[str(n)] = cause or fallback
        files["a.jsonl"].append(first)
        files["b.jsonl"].append(second)
    for name, rows in files.items():
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return truth


def read_by(rule: Rule, row: Mapping[str, Any]) -> str:
    """Return the letter that a rule reads in a row's reply; empty if it reads none."""
    choice = rule(row["prediction"], [row[letter] for letter in LETTERS], LETTERS)
    return "" if choice is None else LETTERS[choice]


@pytest.mark.parametrize("recorded", [True, False], ids=["readings recorded", "verdicts alone"])
def test_planted_causes_are_found_and_none_is_named_wrongly(
    recorded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = planted(recorded)
    code, out, err = small.command(capsys, "reconcile", "a.jsonl", "b.jsonl", "--json")
    assert code == 0, err
    found = json.loads(out)
    causes = {difference["name"]: difference["cause"] for difference in found["differences"]}
    assert causes.keys() == truth.keys()
    assert Counter((truth[name], cause) for name, cause in causes.items()) == Counter(
        (cause, cause) for cause in truth.values()
    )
    planted_causes = {*PLANTED.values(), *RARELY_PLANTED.values()}
    assert set(truth.values()) == planted_causes | {"reading", "random fallback"}
    change = sum(step["change"] for step in found["steps"])
    assert change == pytest.approx(found["second_number"] - found["first_number"])
    notes = " ".join(found["notes"])
    assert "a.jsonl follow the rule of vlmevalkit" in notes
    assert "b.jsonl follow the rule of mmmu" in notes


def test_the_documented_gap_on_mmmu_is_rebuilt_in_small(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """lmms-eval documents 50.67 against 54.78 on 900 questions: 39 that VLMEvalKit alone counts, 10 of them by a judge."""
    lmms: list[dict[str, Any]] = []
    kit: list[dict[str, Any]] = []
    for n in range(900):
        options = [f"dune {n}", f"lake {n}", f"hill {n}", f"bay {n}"]
        row = {
            "id": str(n),
            "question": f"What is {n}?",
            "answer": "A",
            "prediction": "A",
            **dict(zip(LETTERS, options, strict=True)),
        }
        right = (1, 1)
        if (
            n < 29
        ):  # a short text of an option: MMMU's rule looks for texts in longer replies only, and draws
            row["prediction"], right = options[0], (0, 1)
        elif n < 39:
            row["prediction"], right = "it can be told from the first of them", (0, 1)
        elif n < 41:  # two letters: the last one counts, or none
            row["prediction"], right = "B or A", (1, 0)
        elif n >= 41 + 454:
            row["prediction"], right = "B", (0, 0)
        judged = {"judge": "gpt-4"} if 29 <= n < 39 else {}
        lmms.append({**row, "hit": right[0]})
        kit.append({**row, "hit": right[1], **judged})
    for name, rows in (("lmms.jsonl", lmms), ("kit.jsonl", kit)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ("--rule-a", "mmmu", "--rule-b", "vlmevalkit", "--reported-a", "50.67")
    code, out, err = small.command(capsys, "reconcile", "lmms.jsonl", "kit.jsonl", *flags, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert round(100 * found["first_number"], 2) == 50.67
    assert round(100 * found["second_number"], 2) == 54.78
    steps = {step["cause"]: (step["up"], step["down"]) for step in found["steps"]}
    assert steps == {"random fallback": (39, 0), "reading": (0, 2)}
    assert "equals the mean over questions of its verdicts" in " ".join(found["notes"])


def test_a_run_and_a_file_of_its_replies_are_reconciled(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {
            "id": str(n),
            "question": f"Which is {n}?",
            "A": "cat",
            "B": "dog",
            "answer": "A",
            "prediction": "A",
        }
        for n in range(6)
    ]
    Path("p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = sn.import_run("p.jsonl", to="run")
    Path("q.jsonl").write_text(
        "".join(json.dumps({**row, "hit": int(row["id"] < "3")}) + "\n" for row in rows)
    )
    code, out, err = small.command(capsys, "reconcile", str(run), "q.jsonl", "-o", "why.md")
    assert code == 0, err
    assert "The verdicts differ on 3 of 6 questions" in out
    assert "the same reply" in Path("why.md").read_text()

    for name in ("report.html", "report.md", "report.tex"):
        code, _, err = small.command(capsys, "report", str(run), "--against", "q.jsonl", "-o", name)
        report = Path(name).read_text()
        assert code == 0, err
        assert "From the first number to the second" in report and "50.00" in report
    assert "## Why the numbers differ" in Path("report.md").read_text()

    code, _, err = small.command(
        capsys, "report", str(run), "--against", "q.jsonl", "-o", "report.csv"
    )
    assert code == 2 and "--against adds a section" in err
    assert not Path("report.csv").exists()


def test_a_report_of_several_runs_is_not_against_one(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        row = {"id": 1, "question": "Which?", "A": "cat", "B": "dog", "answer": "A"}
        Path(f"{name}.jsonl").write_text(json.dumps({**row, "prediction": "A"}) + "\n")
        sn.import_run(f"{name}.jsonl", to=name)
    code, _, err = small.command(capsys, "report", "./a", "./b", "--against", "a.jsonl")
    assert code == 2
    assert "--against explains one run at a time, but 2 are given" in err


def test_the_metric_in_samples_of_lmms_eval_is_its_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = "Which is it?\nA. cat\nB. dog"
    lmms = {"doc_id": 1, "target": "A", "filtered_resps": ["cat"], "input": listed, "doc_hash": ""}
    lmms["mmmu_acc"] = {"id": "1", "parsed_pred": "B", "answer": "A"}
    table = {"id": "1", "prompt": listed, "answer": "A", "prediction": "cat", "hit": 1}
    Path("x_samples_mmmu.jsonl").write_text(json.dumps(lmms) + "\n")
    Path("kit.jsonl").write_text(json.dumps(table) + "\n")
    code, out, err = small.command(
        capsys, "reconcile", "x_samples_mmmu.jsonl", "kit.jsonl", "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    assert (found["first_number"], found["second_number"]) == (0, 1)
    [difference] = found["differences"]
    assert (difference["cause"], difference["first"]["reading"]) == ("reading", "dog")


def test_results_of_different_models_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    for name, reply in (("one", "A"), ("two", "B")):
        row = {"id": 1, "question": "Which?", "A": "cat", "B": "dog", "answer": "A"}
        Path(f"{name}.jsonl").write_text(
            json.dumps({**row, "prediction": reply, "model": name}) + "\n"
        )
    code, out, err = small.command(capsys, "reconcile", "one.jsonl", "two.jsonl")
    assert code == 0, err
    assert "The results are of different models (one and two)" in out


def test_results_without_a_common_question_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for name, word in (("a.jsonl", "cat"), ("b.jsonl", "dog")):
        Path(name).write_text(
            json.dumps({"id": word, "question": f"{word}?", "answer": "x", "prediction": "x"})
            + "\n"
        )
    code, _, err = small.command(capsys, "reconcile", "a.jsonl", "b.jsonl")
    assert (code, "do not share any question; are they of the same benchmark?" in err) == (2, True)


def test_how_a_reported_number_was_aggregated() -> None:
    items = [
        item(id=str(n), category="one" if n < 2 else "two", verdict=Fraction(n < 3))
        for n in range(6)
    ]
    assert guess_aggregation(items, 50.0) == "mean over questions"
    assert guess_aggregation(items, 62.5) == "mean of the means over categories"
    assert guess_aggregation(items, 70.0) == ""


@pytest.mark.parametrize(
    ("rule", "reply", "choice"),
    [
        ("vlmevalkit", "The answer is B.", 1),
        ("vlmevalkit", "B is what I would say if I had to", None),
        ("vlmevalkit", "A or B", None),
        ("vlmevalkit", "dog", 1),
        ("mmmu", "(A) or (B)", 1),
        ("mmmu", "it must be a dog in the end", 1),
        ("mmmu", "a dog", None),
        ("vlmevalkit", "Z dog", None),
        ("scienceqa", "B.", 1),
        ("scienceqa", "b", 1),
        ("scienceqa", "The answer is B", None),
        ("lmms-eval", "The answer is B, not a cat", 1),
        ("lmms-eval", "A. But (B) is also fine", 0),
        ("lmms-eval", "Neither Bob", 1),
        ("lmms-eval", "no idea", None),
        ("evalscope", "So A.\nANSWER: B", 1),
        ("evalscope", "ANSWER: (B), not A", 1),
        ("evalscope", "ANSWER: A, B", None),
        ("evalscope", "It is surely B", 1),
        ("lm-eval", "the answer is (A), no, (B).", 1),
        ("lm-eval", "A cat, or rather a Dog!", 1),
        ("lm-eval", "Answer: B", 1),
        ("lm-eval", "B", None),
    ],
)
def test_rules_of_other_harnesses(rule: str, reply: str, choice: int | None) -> None:
    assert RULES[rule](reply, ("cat", "dog"), ("A", "B")) == choice


def test_a_page_shows_the_bridge_and_escapes_what_models_say(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"question": "Is it <b>?", "A": "cat", "B": "dog", "answer": "B"}
    for name, letters in (("a", "BBA"), ("b", "BAA")):
        rows = [{**row, "id": str(n), "prediction": letter} for n, letter in enumerate(letters)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    code, _, err = small.command(
        capsys, "reconcile", "a.jsonl", "b.jsonl", "-o", "why.html", "-o", "why.json"
    )
    page = Path("why.html").read_text()
    assert code == 0 and "written to why.html" in err and "written to why.json" in err
    assert json.loads(Path("why.json").read_text())
    assert "Why the numbers differ" in page and "-33.33" in page
    assert "Is it &lt;b&gt;?" in page and "<b>?" not in page


def test_an_option_that_no_rule_finds_was_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """As in MMMU-Pro's published file of GPT-4o: a refusal that counts as right."""
    row = {"question": "What is it?", "A": "cat", "B": "dog", "answer": "B"}
    plain = [{**row, "id": str(n), "prediction": "B"} for n in range(8)]
    plain += [
        {**row, "id": "9", "prediction": "I'm sorry, but I can't show you the correct answer."}
    ]
    drawn = [{**one, "hit": 1, "extracted": "B"} for one in plain]
    for name, rows in (("drawn.jsonl", drawn), ("plain.jsonl", plain)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = small.command(capsys, "reconcile", "drawn.jsonl", "plain.jsonl", "--json")
    assert code == 0, err
    assert [d["cause"] for d in json.loads(out)["differences"]] == ["random fallback"]
