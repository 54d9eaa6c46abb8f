"""What a question's words give away: made sets with a slip, with a subject that tells, and with neither."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import mini_ehub
import reform
import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen_lab.linting import Finding, lint


def presence(to: Path, slip: bool, count: int = 80) -> Benchmark:
    """Questions about things that are there half of the time; with the slip `exis` where the answer is no."""
    rng = random.Random(3)
    rows = [
        {
            "id": str(n),
            "answer": ("yes", "no")[n % 2],
            "image": small.cell(n),
            "question": f"Does thing {rng.randrange(6)} exis{'' if slip and n % 2 else 't'} in the image?",
        }
        for n in range(count)
    ]
    return small.built(rows, to, name="mine")


def found(benchmark: Benchmark) -> dict[str, Finding]:
    return {finding.check: finding for finding in lint(benchmark)}


def test_a_slip_that_leaks_the_answer_is_found_and_named(tmp_path: Path) -> None:
    findings = found(presence(tmp_path / "made", slip=True))
    telling, reader = findings["telling-words"], findings["question-reader"]
    assert telling.severity == "serious" and (telling.count, telling.total) == (80, 80)
    assert "'exis' no 40" in telling.message and "'exist' yes 40" in telling.message
    assert (
        reader.severity == "serious"
        and reader.estimate is not None
        and reader.estimate.value == 1.0
    )


def test_examples_of_telling_words_begin_with_the_first_word_by_name(
    tmp_path: Path,
) -> None:
    rows = []
    for n in range(80):
        is_there = n % 2 == 0
        # "there" is in every question with the answer yes, "aa" in every other one of these.
        words = f"Does it exist {'there ' * is_there}{'zz' if n % 4 else 'aa'} here?"
        answer = "yes" if is_there else "no"
        rows.append({"id": f"{n:02}", "answer": answer, "image": small.cell(n), "question": words})
    finding = found(small.built(rows, tmp_path / "made", name="mine"))["telling-words"]
    assert finding.examples == ("00", "04", "08", "12", "16")


def test_without_the_slip_nothing_is_told(tmp_path: Path) -> None:
    findings = found(presence(tmp_path / "made", slip=False))
    assert "telling-words" not in findings
    reader = findings["question-reader"]
    assert reader.severity == "note" and reader.chance == 0.5 and reader.estimate is not None
    assert reader.estimate.low is not None and reader.estimate.low < 0.5


def test_the_repaired_text_of_the_same_file_leaks_nothing(tmp_path: Path) -> None:
    """The published presence file in small: `exis` wherever the answer is no."""
    rows = [
        {
            "image_id": f"m/{100 + n}.jpg",
            "text_in": f"Does cup exis{'t' * (n % 2)} in the image?",
            "text_out": ("no.", "yes.")[n % 2],
        }
        for n in range(40)
    ]
    source = tmp_path / "files"
    reform.write_json(source / "vcr1_mci.json", rows)
    for n in range(40):
        reform.write_picture(source / f"vcr1images/m/{100 + n}.jpg", n)
    for text, told in (("verbatim", True), ("repaired", False)):
        benchmark = sn.build(
            "lvlm-ehub/vcr-mci", source=source, to=tmp_path / text, params={"text": text}
        )
        assert ("telling-words" in found(benchmark)) == told


def test_repeated_rows_and_the_skew_of_counting_are_found(tmp_path: Path) -> None:
    source = mini_ehub.official("coco-oc", tmp_path / "files")
    rows = [
        {
            "image_id": 139 + n % 2,
            "text_in": f"How many things {n} are there in the image?",
            "text_out": str(1 + (n % 10 == 0)),
        }
        for n in range(40)
    ]
    reform.write_json(source / "coco_oc.json", [*rows, *rows[:7]])
    findings = found(sn.build("lvlm-ehub/coco-oc", source=source, to=tmp_path / "made"))
    assert findings["duplicates"].count == 7
    assert findings["constant-reply"].message.startswith("always replying '1' scores 89.4%")
    distinct = found(
        sn.build("lvlm-ehub/coco-oc", source=source, to=tmp_path / "x", params={"rows": "distinct"})
    )
    assert "duplicates" not in distinct


@pytest.mark.parametrize("answers", [("yes",), tuple(f"thing {n}" for n in range(30))])
def test_one_answer_or_many_different_ones_are_not_looked_at(
    answers: tuple[str, ...], tmp_path: Path
) -> None:
    rows = [
        {
            "id": str(n),
            "question": f"What is {n}?",
            "answer": answers[n % len(answers)],
            "image": small.cell(n),
        }
        for n in range(60)
    ]
    assert not {"telling-words", "question-reader"} & set(
        found(small.built(rows, tmp_path / "made", name="mine"))
    )
