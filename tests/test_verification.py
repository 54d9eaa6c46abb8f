"""Checks of questions one by one, decisions in a build, repair, and what the manifest says of it."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import small
import snellen as sn
from snellen import registry
from snellen.building.benchmark import DECISIONS, SET_APART, Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.errors import DataError, UnknownNameError
from snellen.records import ItemDecision
from snellen.verification.verify import (
    CheckMaterial,
    CheckOutcome,
    ItemFault,
    QuestionCheck,
    Solvers,
)

Rows = list[dict[str, Any]]
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


def noise(seed: int, form: str = "PNG", size: int = 48) -> bytes:
    """An image unlike those of other seeds."""
    rng = random.Random(seed)
    small_picture = Image.frombytes("RGB", (6, 6), rng.randbytes(108))
    out = io.BytesIO()
    small_picture.resize((size, size), Image.Resampling.BICUBIC).save(out, form)
    return out.getvalue()


def drafts(count: int = 24) -> list[Draft]:
    """Open questions, whose distractors are drawn from all words."""
    return [
        Draft(
            id=f"q{i:03d}",
            rounds=(
                QuestionDraft(
                    f"What stands at number {i}?",
                    texts=(WORDS[i % 12],),
                    distractors=DistractorSpec(tiers=(WORDS,)),
                ),
            ),
            images=(noise(i),),
            where=f"q{i}",
        )
        for i in range(count)
    ]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place of its own for what models answered before."""
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Draft]]:
    """The drafts that the reader `drafts` yields, which a test may change."""
    chosen = drafts()
    monkeypatch.setitem(registry._NAMES["readers"], "drafts", lambda params, folder: iter(chosen))
    yield chosen


def builder(to: Path) -> Callable[..., Benchmark]:
    spec = BenchmarkSpec(
        name="mine", title="mine", formulation="choice", source=SourceSpec("drafts")
    )
    return lambda decisions, folder=to: build_benchmark(
        spec, to=folder, inputs=BuildInputs(decisions=decisions)
    )


# --- decisions -------------------------------------------------------------------------------------------------------


def test_a_distractor_to_avoid_is_replaced_and_a_question_set_apart_is_kept_beside(
    source: list[Draft], tmp_path: Path
) -> None:
    build = builder(tmp_path / "mine")
    before = {sample.id: sample for sample in build({}).samples()}
    gold = source[0].rounds[0].texts[0]
    wrong = next(option for option in before["q000"].options if option != gold)
    decisions = {
        "q000": ItemDecision("q000", avoid={wrong: "it is right too"}),
        "q001": ItemDecision("q001", set_apart=("blurred",)),
    }
    benchmark = build(decisions)
    after = {sample.id: sample for sample in benchmark.samples()}
    assert (
        wrong not in after["q000"].options
        and gold in after["q000"].options
        and len(after["q000"].options) == 4
    )
    assert {key: value for key, value in after.items() if key != "q000"} == {
        key: value for key, value in before.items() if key not in ("q000", "q001")
    }
    [apart] = benchmark.set_apart()
    assert (apart.sample, apart.reasons) == (before["q001"], ("blurred",))
    assert apart.golds[0].options == (before["q001"].options.index(source[1].rounds[0].texts[0]),)
    assert benchmark.decisions() == decisions and {DECISIONS, SET_APART} <= set(
        benchmark.manifest.files
    )
    again = build(benchmark.decisions())
    assert again.manifest == benchmark.manifest
    assert not {DECISIONS, SET_APART} & set(build({}).manifest.files)


def test_a_verified_benchmark_is_built_again_by_its_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = sn.build("eyechart/count")
    first = next(whole.samples()).id
    decisions = {first: ItemDecision(first, set_apart=("blurred",))}
    verified = sn.build("eyechart/count", decisions=decisions, to=tmp_path / "verified")
    assert verified.manifest.counts.samples == whole.manifest.counts.samples - 1
    code, _, _ = small.command(
        capsys,
        "build",
        "eyechart/count",
        "--decisions",
        str(verified.folder),
        "--to",
        str(tmp_path / "again"),
    )
    assert code == 0 and Benchmark(tmp_path / "again").manifest == verified.manifest


def test_a_question_with_no_other_distractor_is_set_apart_with_the_reason(
    source: list[Draft], tmp_path: Path
) -> None:
    few = DistractorSpec(tiers=(("lamp", "boat", "tree", "road"),))
    question = QuestionDraft("What stands at number 0?", texts=("lamp",), distractors=few)
    source[0] = Draft("q000", (question,), (noise(0),), "q0")
    build = builder(tmp_path / "mine")
    build({})
    benchmark = build({"q000": ItemDecision("q000", avoid={"boat": "it is right too"})})
    [apart] = benchmark.set_apart()
    assert apart.reasons[0] == "it is right too" and apart.reasons[1].startswith(
        "no other distractor: q0: 3 distractors"
    )
    assert benchmark.manifest.counts.samples == 23


def test_decisions_about_questions_that_are_not_there_are_noted_and_all_set_apart_is_refused(
    source: list[Draft], tmp_path: Path
) -> None:
    build = builder(tmp_path / "mine")
    [note] = build({"q999": ItemDecision("q999", set_apart=("bad",))}).manifest.warnings
    assert note == "1 decisions refer to questions that do not exist, such as q999"
    with pytest.raises(
        DataError, match="all 24 questions are set aside; none remains in the benchmark"
    ):
        build({f"q{i:03d}": ItemDecision(f"q{i:03d}", set_apart=("bad",)) for i in range(24)})


# --- checks by the surface -------------------------------------------------------------------------------------------


def rows(count: int = 60) -> Rows:
    rng = random.Random(3)
    return [
        {
            "id": f"q{i:03d}",
            "question": f"What stands at number {i}?",
            "options": rng.sample(WORDS, 4),
            "answer": i % 4,
            "image": small.cell(0),
        }
        for i in range(count)
    ]


def built(table: Rows, folder: Path) -> Benchmark:
    import base64

    for i, row in enumerate(table):
        row["image"] = base64.b64encode(row.pop("bytes", None) or noise(i)).decode()
    return small.built(table, folder / "mine")


def faults(benchmark: Benchmark, name: str) -> dict[str, ItemFault]:
    return {
        fault.sample_id: fault for fault in Solvers().check(benchmark, names=[name])[name].faults
    }


def test_sound_questions_pass_every_check_of_the_surface(tmp_path: Path) -> None:
    outcomes = Solvers().check(built(rows(), tmp_path))
    assert [(name, len(outcome.faults), outcome.checked) for name, outcome in outcomes.items()] == [
        ("options-alike", 0, 60),
        ("answer-told", 0, 60),
        ("repeated", 0, 60),
        ("cues", 0, 60),
    ]


def test_options_that_say_the_same_and_answers_that_are_told_are_found(tmp_path: Path) -> None:
    table = rows()
    table[1]["options"] = ["lamp", "The Boats", "tree", "boat"]  # the answer is 1
    table[2]["options"] = ["two roads", "2 roads", "tree", "hill"]
    table[3] |= {
        "question": "What does the vase at number 3 hold?",
        "options": ["a hat", "a pen", "ink", "the vase"],
    }
    table[5] |= {"question": "Is there no boat at number 5?", "options": ["yes", "no"], "answer": 1}
    table[4] |= {
        "question": "Is the boat or the lamp at number 4?",
        "options": ["lamp", "boat", "tree", "hill"],
    }
    benchmark = built(table, tmp_path)
    alike = faults(benchmark, "options-alike")
    assert {key: fault.avoid for key, fault in alike.items()} == {"q001": "boat", "q002": "2 roads"}
    assert alike["q001"].reason == "the option 'boat' says the same as the answer"
    assert list(faults(benchmark, "answer-told")) == ["q003"]


def test_repetitions_are_found_also_where_the_picture_was_saved_again(tmp_path: Path) -> None:
    table = rows()
    table[5] = {
        **table[4],
        "id": "q005",
        "bytes": noise(4, "JPEG", 40),
        "options": [*table[4]["options"][:1], "a", "b", "c"],
    }
    table[5] |= {"question": "What stands here at number 4, please?", "answer": 0}
    table[7] = {**table[6], "id": "q007", "bytes": noise(6), "answer": 1}
    table[9] = {
        **table[8],
        "id": "q009",
        "bytes": noise(8),
        "question": "What stands behind number 8?",
    }
    found = faults(built(table, tmp_path), "repeated")
    assert set(found) == {"q005", "q006", "q007"}
    assert found["q005"].reason == "repeats q004: the same about the same image"
    assert "offers the other's answer as wrong: q007" in found["q006"].reason


def test_an_answer_that_is_longer_than_luck_explains_is_found_and_no_more(tmp_path: Path) -> None:
    table = rows(400)
    for row in table[:40]:
        row["options"][row["answer"]] += ", as can plainly be seen by anybody"
    for i, row in enumerate(table[40:80]):
        row["options"][(row["answer"] + i % 4) % 4] += " in the background"
    found = faults(built(table, tmp_path), "cues")
    planted = {row["id"] for row in table[:40]}
    assert len(planted & set(found)) >= 36 and len(set(found) - planted) <= 4
    assert {fault.reason for fault in found.values()} == {
        "the answer is much longer than the others"
    }


# --- the doors -------------------------------------------------------------------------------------------------------


def test_a_check_of_another_package_is_carried_out_like_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def even(material: CheckMaterial) -> CheckOutcome:
        ids = [sample.id for sample in material.benchmark.samples()]
        return CheckOutcome(
            [ItemFault(name, "its number is even") for name in ids if int(name[1:]) % 2 == 0],
            len(ids),
        )

    monkeypatch.setitem(registry._NAMES["checks"], "even", QuestionCheck("an even number", even))
    kept = Solvers().keep_passing(built(rows(), tmp_path), "odd", to=tmp_path / "odd")
    assert kept.manifest.counts.samples == 30 and {one.reasons for one in kept.set_apart()} == {
        ("its number is even",)
    }


def test_models_are_asked_only_where_a_package_brings_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snellen.verification.verify.registry.targets", lambda group: {})
    with pytest.raises(UnknownNameError, match=r"no check here asks models \(jury\).*snellen-lab"):
        Solvers(jury=("snellen:oracle",)).check(built(rows(), tmp_path))
