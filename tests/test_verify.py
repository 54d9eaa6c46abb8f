"""What official files give is counted against the paper's tables, and a difference has its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import reform
import small
from snellen.building.source_counts import SourceCounts, count_differences, count_source, difference_reasons
from snellen.catalogue import Expected, entries
from test_reform_coco import coco

__all__ = ["coco"]
GOI = entries()["reform-eval/mscoco-goi"]


def test_a_census_counts_as_a_build_does(coco: Path, tmp_path: Path) -> None:
    counted = count_source(GOI, coco)
    made = reform.made("mscoco-goi", coco, tmp_path, reform.Recipe())
    assert (counted.read, counted.complete, counted.images, counted.sampled) == (36, 36, 12, 3)
    assert (made.manifest.made.read, made.manifest.made.complete, made.manifest.counts.samples) == (36, 36, 3)


def test_differences_are_told_with_both_numbers_and_a_reason() -> None:
    spec = replace(GOI, complete=Expected(40, 12), expected=Expected(4))
    counted = SourceCounts(read=36, complete=36, images=12, sampled=3)
    assert count_differences(spec, counted) == ["samples 36, paper 40", "evaluated 3, published data 4"]
    assert difference_reasons(spec, counted) == [
        "the files give fewer questions than the paper has: another release, or not whole"
    ]
    assert difference_reasons(replace(spec, remark="Known."), counted) == ["Known."]
    assert difference_reasons(spec, replace(counted, notes=("3 left out: empty",))) == ["3 left out: empty"]
    fitting = replace(spec, complete=Expected(36, 12), expected=Expected(3))
    assert count_differences(fitting, counted) == difference_reasons(fitting, counted) == []


def test_one_command_counts_a_suite_and_names_missing_files(coco: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = small.command(capsys, "verify", "reform-eval:fg", "--source", str(coco.parent), "--json")
    rows = {row["benchmark"]: row for row in map(json.loads, shown.splitlines())}
    assert code == 0
    assert rows["reform-eval/mscoco-goi"]["state"] == "differs"
    assert rows["reform-eval/mscoco-goi"]["samples"] == "36"
    missing = rows["reform-eval/tdiuc-color"]
    assert missing["state"] == "not read" and "is missing" in missing["why"]
    assert small.command(capsys, "verify", "reform-eval:fg", "--source", str(coco.parent), "--strict")[0] == 1
