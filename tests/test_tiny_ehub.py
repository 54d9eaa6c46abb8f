"""Tiny LVLM-eHub: self-contained folders, five abilities, their sum as published and means as standard."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

import reform
import small
import snellen as sn
from snellen.catalogue import entries

ABILITIES = {
    "Perception": 8,
    "Knowledge": 14,
    "Reasoning": 11,
    "Commonsense": 5,
    "Hallucination": 3,
}
NUMBERS, YES_NO = (
    {"coco-oc", "vcr-oc"},
    {"coco-mci", "vcr-mci", "pope-random", "pope-popular", "pope-adversarial"},
)


def official(to: Path) -> Path:
    """Two questions a set: the first gold is given in a list, the second alone."""
    for entry in entries().values():
        if entry.suite == "tiny-lvlm-ehub":
            golds = (
                ("1", "2")
                if entry.short in NUMBERS
                else ("yes", "no")
                if entry.short in YES_NO
                else ("cat", "dog")
            )
            rows = [
                {
                    "image_path": f"some/where/{n}.png",
                    "question": f"What is {n}?",
                    "gt_answers": ([gold], gold)[n],
                }
                for n, gold in enumerate(golds)
            ]
            reform.write_json(to / entry.source.folder / "dataset.json", rows)
            for n in range(2):
                reform.write_picture(to / entry.source.folder / f"{n}.png", n)
    return to


def test_version_two_has_its_41_sets_by_ability() -> None:
    own = [entry for entry in entries().values() if entry.suite == "tiny-lvlm-ehub"]
    assert Counter(entry.dimension for entry in own) == ABILITIES and len(own) == 41


def test_the_published_total_is_the_sum_of_five_accuracies_and_the_standard_one_a_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    source = str(official(tmp_path / "official"))
    code, shown, said = small.command(capsys, "build", "tiny-lvlm-ehub", "--source", source)
    assert code == 0 and shown.count("built tiny-lvlm-ehub/") == 41, said

    class SaysCatAndYes:
        def generate(self, requests: Sequence[sn.Request], images: Any) -> list[str]:
            return ["yes, a cat" for _ in requests]

    sn.evaluate(SaysCatAndYes(), "tiny-lvlm-ehub", name="run")
    published = sn.score("runs/run", as_published=True)
    capability = [row for row in published.rows if row.metric in ("capability", "headline")]
    ability = {row.dimension: row.estimate.value for row in capability if row.dimension != "*"}
    # Half of the classes and words, none of the numbers: six of eight sets at 50.
    assert ability == pytest.approx(
        {
            "Perception": 37.5,
            "Knowledge": 50,
            "Reasoning": 50,
            "Commonsense": 50,
            "Hallucination": 50,
        }
    )
    [total] = [row for row in capability if row.dimension == "*"]
    assert total.estimate.value == pytest.approx(sum(ability.values()))
    assert total.estimate.low < total.estimate.value < total.estimate.high
    standard = sn.score("runs/run")
    [mean] = [r for r in standard.rows if r.metric == "headline"]
    means = [
        row.estimate.value
        for row in standard.rows
        if row.metric == "capability" and row.dimension not in ("*", "")
    ]
    assert mean.estimate.value == pytest.approx(statistics.mean(means))
    [pooled] = [
        r for r in standard.rows if (r.benchmark, r.metric) == ("tiny-lvlm-ehub/all", "typed_match")
    ]
    assert pooled.estimate.n == 82


def test_a_set_is_drawn_again_from_the_official_file_by_the_authors_seed(tmp_path: Path) -> None:
    """A file of made-up questions in the layout of COCO-MCI; NumPy draws the rows that the authors' script keeps."""
    published = entries()["tiny-lvlm-ehub/coco-mci"].source.params["layouts"][1]["records"]["drawn"]
    rows = [
        {
            "image_id": n // 3,
            "text_in": f"Does thing {n} exist in the image?",
            "text_out": ("Yes.", "No.")[n % 2],
        }
        for n in range(10_000)
    ]
    drawn = numpy.random.RandomState(20230719).choice(
        10_000, max(published["kept"]) + 1, replace=False
    )
    expected = {rows[drawn[place]]["text_in"] for place in published["kept"]}
    reform.write_json(tmp_path / "coco_mci.json", rows)
    for row in rows:
        if row["text_in"] in expected:
            reform.write_picture(
                tmp_path / "val2014" / f"COCO_val2014_{row['image_id']:012d}.jpg", row["image_id"]
            )
    built = sn.build("tiny-lvlm-ehub/coco-mci", source=tmp_path, to=tmp_path / "built")
    questions = [sample.question.split("\n\n") for sample in built.samples()]
    assert {lines[0].removeprefix("Question: ") for lines in questions} == expected and len(
        questions
    ) == 50
    assert questions[0][1:] == [
        "Choose the single most likely answer from the following choices <choice>:\n- Yes\n- No",
        "The output format follows exactly as below:\nAnswer: <choice>",
    ]
    reform.write_json(tmp_path / "coco_mci.json", rows[1:])
    with pytest.raises(
        sn.DataError, match="has 9,999 records, but 10,000 were drawn from; it is another version"
    ):
        sn.build("tiny-lvlm-ehub/coco-mci", source=tmp_path, to=tmp_path / "other")
