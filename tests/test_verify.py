"""What official files give is counted against the paper's tables, and a difference has its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import reform
import small
import test_reform_knowledge as knowledge
from snellen.building.builder import build_benchmark
from snellen.building.source_counts import (
    SourceCounts,
    count_differences,
    count_source,
    difference_reasons,
    implied_shares,
)
from snellen.catalogue import ExpectedCounts, entries
from snellen.catalogue.entries import Implied
from snellen.errors import DataError
from snellen.reformulation.sampling import Sampling
from test_reform_coco import coco

__all__ = ["coco"]
GOI = entries()["reform-eval/mscoco-goi"]


def test_a_census_counts_as_a_build_does(coco: Path, tmp_path: Path) -> None:
    counted = count_source(GOI, coco)
    made = reform.made("mscoco-goi", coco, tmp_path, reform.Recipe())
    assert (counted.read, counted.complete, counted.images, counted.sampled) == (36, 36, 12, 3)
    assert (
        made.manifest.build_info.read,
        made.manifest.build_info.complete,
        made.manifest.counts.samples,
    ) == (
        36,
        36,
        3,
    )


def test_differences_are_told_with_both_numbers_and_a_reason() -> None:
    spec = replace(GOI, complete=ExpectedCounts(40, 12), expected=ExpectedCounts(4))
    counted = SourceCounts(read=36, complete=36, images=12, sampled=3)
    assert count_differences(spec, counted) == [
        "samples 36, paper 40",
        "evaluated 3, published data 4",
    ]
    assert difference_reasons(spec, counted) == [
        "the files contain fewer questions than the paper reports: they are from another release, or incomplete"
    ]
    assert difference_reasons(replace(spec, remark="Known."), counted) == ["Known."]
    assert difference_reasons(spec, replace(counted, notes=("3 skipped: empty",))) == [
        "3 skipped: empty"
    ]
    fitting = replace(spec, complete=ExpectedCounts(36, 12), expected=ExpectedCounts(3))
    assert count_differences(fitting, counted) == difference_reasons(fitting, counted) == []


def test_what_accuracies_imply_of_answers_and_options_is_compared(coco: Path) -> None:
    whole = replace(
        GOI,
        expected=ExpectedCounts(),
        complete=ExpectedCounts(),
        source=replace(GOI.source, sample=Sampling()),
    )
    counted = count_source(whole, coco)
    assert (counted.refused, counted.composition.questions, counted.composition.chance) == (
        "",
        36,
        0.25,
    )
    assert counted.composition.answers["car"] == 3
    fits = replace(whole, implied=Implied(answers={"car": 0.1}, chance=0.26))
    assert count_differences(fits, counted) == []
    assert [share.what for share in implied_shares(fits, counted)] == ["answer 'car'", "guessing"]
    off = replace(whole, implied=Implied(answers={"car": 0.5}, chance=0.5))
    assert count_differences(off, counted) == [
        "answer 'car' 8.3%, not 50.0%, which published accuracies imply",
        "guessing 25.0%, not 50.0%, which published accuracies imply",
    ]


def test_options_that_a_model_writes_are_taken_to_be_written(tmp_path: Path) -> None:
    spec = entries()["reform-eval/gqa"]
    counted = count_source(spec, knowledge.gqa(tmp_path / "gqa"))
    assert counted.refused == "" and counted.composition.questions == counted.sampled


@pytest.mark.parametrize("fault", ["picture", "options"])
def test_nothing_agrees_that_a_build_refuses(fault: str, coco: Path, tmp_path: Path) -> None:
    spec = replace(
        GOI,
        expected=ExpectedCounts(),
        complete=ExpectedCounts(),
        source=replace(GOI.source, sample=Sampling()),
    )
    if fault == "picture":
        (coco / "val2017" / f"{7:012d}.jpg").unlink()
        said = "cannot read the image"
    else:
        spec = replace(spec, source=replace(spec.source, options=40))
        said = "39 distractors are wanted"
    with pytest.raises(DataError, match=said):
        build_benchmark(spec, source=coco, to=tmp_path / "built")
    counted = count_source(spec, coco)
    assert said in counted.refused
    assert count_differences(spec, counted) == []  # the numbers agree all the same


def test_the_command_says_that_a_build_is_refused(
    coco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for picture in (coco / "val2017").iterdir():
        picture.unlink()
    code, shown, _ = small.command(
        capsys, "verify", "reform-eval/mscoco-goi", "--source", str(coco), "--json", "--strict"
    )
    [row] = map(json.loads, shown.splitlines())
    assert (code, row["state"], row["samples"]) == (1, "refused", "36")
    assert row["why"].startswith("the build rejects it: ") and "cannot read the image" in row["why"]


def test_one_command_counts_a_suite_and_names_missing_files(
    coco: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, _ = small.command(
        capsys, "verify", "reform-eval:fg", "--source", str(coco.parent), "--json"
    )
    rows = {row["benchmark"]: row for row in map(json.loads, shown.splitlines())}
    assert code == 0
    assert rows["reform-eval/mscoco-goi"]["state"] == "differs"
    assert rows["reform-eval/mscoco-goi"]["samples"] == "36"
    missing = rows["reform-eval/tdiuc-color"]
    assert missing["state"] == "not read" and "is missing" in missing["why"]
    assert (
        small.command(capsys, "verify", "reform-eval:fg", "--source", str(coco.parent), "--strict")[
            0
        ]
        == 1
    )
