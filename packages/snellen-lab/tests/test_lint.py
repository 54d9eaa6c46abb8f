"""What lint finds in benchmarks with one planted fault each, and what it lets pass."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats as witness

import small
import snellen as sn
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import ExpectedCounts, SourceSpec
from snellen.cli import main
from snellen.common.drafts import Draft, QuestionDraft
from snellen.protocols.base import parse_protocol
from snellen.records import ImagePart, Region
from snellen.verification.looks import hits_p_value
from snellen.verification.questions import fold_text
from snellen_lab.linting import Finding, lint, text_only
from snellen_lab.linting.uniformity import chi_square_p_value, uniformity_p_value

Rows = list[dict[str, Any]]
Make = Callable[..., Benchmark]
WORDS = (
    "lamp",
    "boat",
    "tree",
    "road",
    "hill",
    "shoe",
    "bird",
    "drum",
    "fork",
    "ring",
    "sock",
    "vase",
)


def even(count: int = 240, options: int = 4) -> Rows:
    """Questions whose answers stand in every place and are every word alike, each about an image of its own."""
    rng = random.Random(7)
    rows = []
    for i in range(count):
        shown = rng.sample(WORDS, options)
        rows.append(
            {
                "id": f"q{i:03d}",
                "question": f"What stands at number {i}?",
                "options": shown,
                "answer": i % options,
                "image": small.cell(i % 200),
            }
        )
    return rows


def found(benchmark: Benchmark) -> dict[str, Finding]:
    return {finding.check: finding for finding in lint(benchmark)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return small.built(even(), tmp_path_factory.mktemp("sound") / "made")


def test_a_sound_benchmark_has_figures_and_nothing_to_mend(sound: Benchmark) -> None:
    findings = lint(sound)
    assert {f.check: f.severity for f in findings if f.severity != "note"} == {
        "tiny-images": "warning"
    }
    assert {f.check for f in findings} == {
        "gold-position",
        "majority-answer",
        "longest-option",
        "shortest-option",
        "blind-reader",
        "shared-images",
        "tiny-images",
    }
    assert all(f.chance == 0.25 for f in findings if f.estimate)


def change(row: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**row, **fields}


def faulty(fault: str) -> Rows:
    """A sound table with one fault in it."""
    rows = even()
    first = rows[0]
    match fault:
        case "duplicates":
            rows.append(
                change(
                    first,
                    id="again",
                    question=first["question"].upper(),
                    options=[*first["options"]],
                )
            )
        case "near-duplicates":
            rows.append(
                change(first, id="again", options=[first["options"][0], "moon", "salt", "wind"])
            )
        case "conflicting-golds":
            rows.append(change(first, id="again", answer=1))
        case "answer-twice":
            rows[0] = change(first, options=["lamp", "The lamp.", "tree", "road"], answer=0)
        case "option-twice":
            rows[0] = change(first, options=["lamp", "tree", "Tree", "road"], answer=0)
        case "nested-options":
            rows[0] = change(first, options=["lamp", "tree", "old lamp", "road"], answer=0)
        case "wordless-texts":
            rows[0] = change(first, options=["lamp", "?!", "tree", "road"], answer=0)
        case "long-options":
            rows[0] = change(first, options=["lamp", "tree " * 100, "boat", "road"], answer=0)
        case "long-questions":
            rows[0] = change(first, context="so it was " * 500)
        case "no-image":
            rows[0] = {name: value for name, value in first.items() if name != "image"}
        case "hidden-answers":
            rows[0] = change(first, answer="")
    return rows


FAULTS = {
    "duplicates": ("warning", ("again",)),
    "near-duplicates": ("warning", ("again",)),
    "conflicting-golds": ("serious", ("q000", "again")),
    "answer-twice": ("serious", ("q000",)),
    "option-twice": ("warning", ("q000",)),
    "nested-options": ("warning", ("q000",)),
    "wordless-texts": ("warning", ("q000",)),
    "long-options": ("note", ("q000",)),
    "long-questions": ("note", ("q000",)),
    "no-image": ("warning", ("q000",)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_where_it_is(fault: str, make: Make, sound: Benchmark) -> None:
    severity, examples = FAULTS[fault]
    finding = found(make(faulty(fault)))[fault]
    assert (finding.severity, finding.count, finding.examples) == (
        severity,
        len(examples),
        examples,
    )
    assert fault not in found(sound)


def test_the_same_question_about_another_picture_is_no_repetition(make: Make) -> None:
    rows = [change(row, question="What is this?") for row in even(40)]
    assert not found(make(rows)).keys() & {"duplicates", "near-duplicates", "conflicting-golds"}


def test_a_round_of_a_dialogue_is_no_repetition_of_another_after_another_history(
    eyechart: Mapping[str, Benchmark],
) -> None:
    checks = found(eyechart["dialogue"])
    assert not checks.keys() & {"duplicates", "conflicting-golds"}
    assert checks["majority-answer"].total == eyechart["dialogue"].manifest.counts.questions == 1200


def read_boxes(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Two questions in the same words, with different answers, about boxes of one image."""
    for name, box, gold in (("a", (0, 0, 9, 9), 0), ("b", params["second"], 1)):
        asked = QuestionDraft("What is in the box?", ("cat", "dog"), (gold,))
        yield Draft(
            name, (asked,), (small.picture(1, size=(64, 64)),), regions=(Region(tuple(box)),)
        )


@pytest.mark.parametrize(
    ("second", "expected"),
    [((9, 9, 20, 20), set()), ((0, 0, 9, 9), {"conflicting-golds", "near-duplicates"})],
)
def test_a_region_makes_the_same_question_about_one_picture_another_one(
    second: tuple[int, ...], expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._NAMES["readers"], "boxes", "test_lint:read_boxes")
    spec = replace(small.spec_of(tmp_path / "none"), source=SourceSpec("boxes", {"second": second}))
    checks = found(build_benchmark(spec, to=tmp_path / "made"))
    assert checks.keys() & {"duplicates", "near-duplicates", "conflicting-golds"} == expected


def test_open_questions_conflict_when_no_reference_is_common(make: Make) -> None:
    row = {"question": "What is written?", "image": small.cell(3)}
    sharing = [
        {**row, "id": "a", "answer": ["Stop", "halt"]},
        {**row, "id": "b", "answer": ["stop."]},
    ]
    apart = [*sharing, {**row, "id": "c", "answer": ["go"]}]
    assert "conflicting-texts" not in found(make(sharing, name="sharing"))
    assert found(make(apart, name="apart"))["conflicting-texts"].examples == ("a", "b", "c")


def test_a_reply_that_fits_most_open_questions_is_a_baseline(make: Make) -> None:
    rows = [
        {
            "id": f"q{i}",
            "question": f"What is on {i}?",
            "image": small.cell(i),
            "answer": ["Yes." if i % 2 else f"w{i}"],
        }
        for i in range(100)
    ]
    finding = found(make(rows))["constant-reply"]
    assert (
        finding.severity == "warning"
        and finding.estimate is not None
        and finding.estimate.value == 0.5
    )
    assert "'yes'" in finding.message


def test_of_equally_frequent_replies_the_first_by_name_is_reported(make: Make) -> None:
    texts = [f"thing {letter}" for letter in "kcfhdgbiej"]
    rows = [
        {"id": f"q{i}", "question": f"What is on {i}?", "image": small.cell(i), "answer": texts}
        for i in range(20)
    ]
    message = found(make(rows))["constant-reply"].message
    assert message.startswith("always replying 'thing b' ")


# --- tags --------------------------------------------------------------------------------------------------------


def tagged(count: int, told: Callable[[int, str], Mapping[str, str]]) -> Rows:
    """Yes-no questions, with tags by the number of the question and its answer."""
    return [
        {
            "id": f"q{i:03d}",
            "question": f"Is there a lamp at {i}?",
            "image": small.cell(i),
            "answer": (answer := ("yes", "no", "No.")[i % 3]),
            **told(i, answer),
        }
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("told", "concerned"),
    [
        (lambda i, answer: {"tag_label": answer.upper()}, 60),  # the answer itself
        (
            lambda i, answer: {"tag_kind": "present" if answer == "yes" else "absent"},
            60,
        ),  # one to one
        (
            lambda i, answer: {"tag_kind": "sure" if answer == "yes" else f"unsure {i % 2}"},
            20,
        ),  # one value of three
    ],
)
def test_a_tag_that_tells_the_answer_is_serious_and_a_tag_of_the_answer_is_none(
    told: Callable[[int, str], dict[str, str]], concerned: int, make: Make
) -> None:
    finding = found(make(tagged(60, told), name="told", formulation="text"))["telling-tags"]
    assert (finding.severity, finding.count, finding.total) == ("serious", concerned, 60)
    beside = make(
        tagged(
            60,
            lambda i, answer: {f"answer_{name}": value for name, value in told(i, answer).items()},
        ),
        name="beside",
        formulation="text",
    )
    assert "telling-tags" not in found(beside)
    assert beside.manifest.tags == {} and len(beside.manifest.answer_tags) == 1


@pytest.mark.parametrize(
    "told",
    [
        lambda i, answer: {"tag_number": str(i)},  # one of its own for each question
        lambda i, answer: {"tag_level": ("easy", "hard")[i % 2]},
        lambda i, answer: {"tag_source": "made"},
        lambda i, answer: {
            "question": f"Number {i // 6}?",
            "answer": f"{i // 6} dots",
            "tag_item": f"item {i // 6}",
        },
        lambda i, answer: {
            "tag_rare": "yes, twice" if i in (0, 3) else "other"
        },  # as chance may have it
    ],
)
def test_a_tag_that_tells_nothing_is_let_pass(
    told: Callable[[int, str], dict[str, str]], make: Make
) -> None:
    assert "telling-tags" not in found(make(tagged(60, told), formulation="text"))


# --- baselines ---------------------------------------------------------------------------------------------------


def place_gold(rows: Rows, place: Callable[[int], int]) -> Rows:
    """The same questions with the same answers, which now stand where `place` says."""
    moved = []
    for i, row in enumerate(rows):
        options, gold = list(row["options"]), row["options"][row["answer"]]
        options.remove(gold)
        options.insert(place(i), gold)
        moved.append(change(row, options=options, answer=place(i)))
    return moved


def test_answers_that_mostly_stand_in_one_place_are_serious_and_p_is_pearsons(make: Make) -> None:
    finding = found(make(place_gold(even(), lambda i: 0 if i % 2 else i // 2 % 4)))["gold-position"]
    assert finding.severity == "serious" and finding.count == 150 and finding.chance == 0.25
    assert finding.p == pytest.approx(witness.chisquare([150, 30, 30, 30]).pvalue)


def test_labels_in_a_fixed_order_are_a_matter_of_balance_not_of_place(make: Make) -> None:
    rows = [
        change(row, options=["yes", "no"], answer=0 if i % 10 < 8 else 1)
        for i, row in enumerate(even(200, 2))
    ]
    checks = found(make(rows))
    assert "gold-position" not in checks
    assert checks["label-balance"].severity == "serious"
    assert "yes 160, no 40" in checks["label-balance"].message
    majority = checks["majority-answer"].estimate
    assert majority is not None and majority.value == 0.8


def test_even_labels_give_the_majority_rule_about_chance(make: Make) -> None:
    rows = [change(row, options=["yes", "no"], answer=i % 2) for i, row in enumerate(even(200, 2))]
    checks = found(make(rows))
    assert checks["label-balance"].severity == "note"
    majority = checks["majority-answer"].estimate
    assert majority is not None and majority.value is not None and 0.3 < majority.value <= 0.55


def test_the_longest_option_counts_ties_by_their_share(make: Make) -> None:
    rows = [
        change(
            row,
            options=["oak", "elm", "ash", "fig"] if i % 2 else ["oak", "elm", "ash", "chestnut"],
            answer=3,
        )
        for i, row in enumerate(even(80))
    ]
    checks = found(make(place_gold(rows, lambda i: i // 2 % 4)))
    longest, shortest = checks["longest-option"].estimate, checks["shortest-option"].estimate
    assert longest is not None and longest.value == pytest.approx((1 + 1 / 4) / 2)
    assert shortest is not None and shortest.value == pytest.approx((0 + 1 / 4) / 2)
    assert checks["longest-option"].severity == "serious"


@pytest.mark.parametrize(
    ("leak", "mend"),
    [
        ("leak-full-stop", lambda text: f"{text}."),
        ("leak-capital", str.capitalize),
        ("leak-article", lambda text: f"a {text}"),
        ("leak-digit", lambda text: f"{text} 2"),
        ("leak-echo", lambda text: f"number {text}"),
    ],
)
def test_an_answer_that_alone_looks_different_leaks(
    leak: str, mend: Callable[[str], str], make: Make
) -> None:
    rows = even()
    for i, row in enumerate(rows):
        if i % 3 == 0:  # a distractor may look so too, as often as chance has it
            place = row["answer"] if i % 2 else (row["answer"] + 1) % 4
            row["options"][place] = mend(row["options"][place])
        if i % 3 == 1:
            row["options"][row["answer"]] = mend(row["options"][row["answer"]])
    checks = found(make(rows))
    assert {check for check in checks if check.startswith("leak")} == {leak}
    assert checks[leak].severity == "serious"
    assert (checks[leak].count, checks[leak].total) == (160, 240)
    estimate = checks[leak].estimate
    assert estimate is not None and estimate.value == pytest.approx(120 / 160)
    assert checks["blind-reader"].severity == "serious"


def test_an_odd_option_that_is_never_the_answer_leaks_too(make: Make) -> None:
    rows = even()
    for row in rows:
        place = (row["answer"] + 1) % 4
        row["options"][place] = f"{row['options'][place]}."
    finding = found(make(rows))["leak-full-stop"]
    assert (
        finding.severity == "serious"
        and finding.estimate is not None
        and finding.estimate.value == 0
    )


def test_a_text_that_is_always_wrong_or_always_right_is_told(make: Make) -> None:
    rows = even()
    for i, row in enumerate(rows):
        wrong = (row["answer"] + 1) % 4
        row["options"][wrong] = "Not sure"
        if i % 4 == 0:
            row["options"][row["answer"]] = "windmill"
    checks = found(make(rows))
    assert checks["never-right"].count == 240 and "'not sure'" in checks["never-right"].message
    assert checks["always-right"].count == 60 and "'windmill'" in checks["always-right"].message
    assert (checks["never-right"].severity, checks["always-right"].severity) == (
        "serious",
        "warning",
    )


def test_a_hidden_split_is_a_note_and_a_part_of_it_a_warning(make: Make) -> None:
    rows = even(8)
    hidden = found(
        make([{k: v for k, v in row.items() if k != "answer"} for row in rows], name="hidden")
    )
    assert hidden["hidden-answers"].severity == "note" and hidden["hidden-answers"].count == 8
    assert "majority-answer" not in hidden


def test_counts_are_held_against_the_catalogue(tmp_path: Path) -> None:
    benchmark = small.built(even(8), tmp_path / "made", expected=ExpectedCounts(samples=9))
    assert found(benchmark)["counts"].message == "samples: built 8, expected 9"


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_findings_do_not_depend_on_the_order_of_rows(rng: random.Random) -> None:
    rows = faulty("conflicting-golds")[:40] + faulty("conflicting-golds")[-1:]
    shuffled = list(rows)
    rng.shuffle(shuffled)
    with tempfile.TemporaryDirectory() as folder:
        one = lint(small.built(rows, Path(folder) / "one"))
        other = lint(small.built(shuffled, Path(folder) / "other"))
    plain = [replace(finding, examples=(), estimate=None, message="") for finding in one]
    assert plain == [replace(finding, examples=(), estimate=None, message="") for finding in other]


# --- texts and chance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The dog.", "dog", True),
        ("Well-known", "well known", True),
        ("C++", "C", False),
        ("-5", "5", False),
        ("x < 5", "x > 5", False),
        ("1.5", "15", False),
        ("50%", "50", False),
        ("A", "the", False),
        ("...", "?", False),
    ],
)
def test_folding_drops_what_says_nothing_and_keeps_what_does(
    one: str, other: str, same: bool
) -> None:
    assert (fold_text(one) == fold_text(other)) is same


@given(st.floats(0.001, 200), st.integers(1, 60))
def test_the_tail_of_chi_square_is_scipys(statistic: float, freedom: int) -> None:
    assert chi_square_p_value(statistic, freedom) == pytest.approx(
        witness.chi2.sf(statistic, freedom), rel=1e-9, abs=1e-300
    )


@pytest.mark.parametrize("counts", [[3, 0, 0], [4, 1, 1, 0], [2, 2, 2], [6, 0]])
def test_few_answers_are_tested_by_drawing_and_agree_with_the_exact_test(counts: list[int]) -> None:
    total, cells = sum(counts), len(counts)
    spread = sum(count**2 for count in counts)
    outcomes = [
        tuple(draw.count(cell) for cell in range(cells))
        for draw in itertools.product(range(cells), repeat=total)
    ]
    exact = sum(sum(count**2 for count in outcome) >= spread for outcome in outcomes) / len(
        outcomes
    )
    assert uniformity_p_value(counts, "test") == pytest.approx(exact, abs=0.02)


def test_hits_against_unlike_chances_have_the_normal_tail() -> None:
    chances = [0.25] * 60 + [0.5] * 40
    spread = (60 * 0.25 * 0.75 + 40 * 0.25) ** 0.5
    assert hits_p_value(50, chances) == pytest.approx(2 * witness.norm.sf(15 / spread))
    assert hits_p_value(35, chances) == 1.0 and hits_p_value(3, [1.0] * 3) == 1.0


# --- without the image -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["blind", "blind?by=likelihood", "blind?labels=number"])
def test_blind_asks_what_vanilla_asks_without_the_picture(label: str, questions: Benchmark) -> None:
    blind = parse_protocol(label)
    assert blind.label == label
    seeing = parse_protocol(label.replace("blind", "vanilla"))
    sample = next(questions.samples())
    [with_picture], [without] = (
        next(p.ask(sample, small.prompt_for("choice"))) for p in (seeing, blind)
    )
    assert with_picture.images and not without.images
    texts = [
        [part for part in m.content if not isinstance(part, ImagePart)]
        for m in with_picture.messages
    ]
    assert [list(message.content) for message in without.messages] == texts
    assert (with_picture.variant, with_picture.continuations) == (
        without.variant,
        without.continuations,
    )


def test_a_model_that_knows_the_answers_by_their_words_is_serious_and_a_guesser_is_not(
    make: Make, tmp_path: Path
) -> None:
    rows = even()
    benchmark = make(
        [
            change(row, question=f"{row['question']} ({row['options'][row['answer']]})")
            for row in rows
        ]
    )

    def reads(request: sn.Request) -> str:
        assert not request.images
        asked = request.messages[-2 if request.messages[-1].role == "assistant" else -1].text
        order, options = (
            request.variant.order,
            next(r for r in rows if r["id"] == request.sample_id)["options"],
        )
        best = next(place for place, i in enumerate(order) if f"({options[i]})" in asked)
        return f"({request.variant.labels[best]})"

    runs = tmp_path / "runs"
    for model, severity in ((sn.Scripted(reads), "serious"), ("snellen:uniform", "note")):
        [run] = sn.evaluate(model, str(benchmark.folder), "blind", runs=runs).runs
        [finding] = text_only(run)["mine"]
        assert (finding.severity, finding.chance, finding.total) == (severity, 0.25, 240)
        assert (run.folder / "journal-0.jsonl").exists()


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_tells_and_strict_makes_it_fail(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sound, bad = make(even(40), name="sound"), make(faulty("answer-twice"), name="bad")

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["lint", *words])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    code, out, _ = run(str(sound.folder), str(bad.folder))
    assert code == 0 and "answer-twice" in out and "1 of 240" in out and "q000" in out
    assert run(str(sound.folder), "--strict")[0] == 0
    code, _, err = run(str(bad.folder), "--strict")
    assert code == 1 and "1 serious finding" in err
    code, out, err = run(str(sound.folder), "--json", "--model", "snellen:uniform")
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["benchmark"] for line in lines} == {"sound"}
    assert [line["of"] for line in lines if line["check"] == "text-only"] == [40]
    assert list((tmp_path / "runs").iterdir())
