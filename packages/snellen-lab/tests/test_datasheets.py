"""Datasheets and certificates: what a benchmark is, and whether it may be called certified."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import small
import snellen as sn
import snellen_lab
from browser import CHROMIUM, browsing
from snellen.building.benchmark import (
    MANIFEST,
    Benchmark,
    BenchmarkManifest,
    ErrorBound,
    ItemCheck,
    Verification,
    percent_at_most,
)
from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError
from snellen.records import Estimate, SetApartQuestion
from snellen.reformulation.sampling import Sampling
from snellen.scoring.resampling import draw_subset
from snellen_lab.verification.datasheet_page import (
    html_datasheet,
    markdown_datasheet,
    rebuild_command,
)
from test_lint import even

CHECKS = (ItemCheck("duplicates", 250, 8), ItemCheck("jury", 100, 5, 3, ("a", "b")))
BOUND = ErrorBound(150, 240, 0, 0.0125, 0.95, ("ann", "ben"), 3)
PASSED = Verification(250, 240, CHECKS, BOUND)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_home.parent)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return small.built(even(), tmp_path_factory.mktemp("sound") / "mine")


@pytest.fixture(scope="module")
def blind(sound: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model that guesses, without the images."""
    runs = str(tmp_path_factory.mktemp("runs"))
    return (
        sn.evaluate("snellen:uniform", str(sound.folder), "blind", runs=runs, report=False)
        .runs[0]
        .folder
    )


def verified(benchmark: Benchmark, verification: Verification | None) -> Benchmark:
    manifest = replace(benchmark.manifest, verification=verification)
    (benchmark.folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    return Benchmark(benchmark.folder)


def unmet(benchmark: Benchmark, *runs: Path, **settings: Any) -> list[str]:
    certificate = snellen_lab.datasheet(benchmark.folder, runs, **settings).certificate
    assert certificate.is_certified == all(criterion.is_met for criterion in certificate.criteria)
    return [criterion.name for criterion in certificate.criteria if not criterion.is_met]


def test_a_benchmark_that_nobody_has_audited_is_not_certified_and_the_page_says_what_is_lacking() -> (
    None
):
    sheet = snellen_lab.datasheet("eyechart/count")
    assert not sheet.certificate.is_certified
    assert sheet.summary == (
        "300 multiple-choice questions about 300 images. "
        "Not certified: the criteria checks, blind, audit, raters are not met."
    )
    for text in (html_datasheet(sheet), markdown_datasheet(sheet)):
        assert "no one has reviewed its questions" in text and "How many of a kind" in text
        assert (
            "the oracle, which knows all answers" in text and "snellen build eyechart/count" in text
        )
        assert sheet.manifest.version in text and sheet.manifest.files["samples.jsonl.gz"] in text
    scores = {line.name: line.estimate.value for line in sheet.baselines}
    assert scores["the oracle, which knows all answers"] == 1.0
    assert scores["chance, each option equally likely"] == 0.25
    golds = [question.rounds[0] for question in sheet.examples]
    assert 3 <= len(golds) <= 12 and all(
        sum(bool(row.signs) for row in turn.options) == 1 for turn in golds
    )
    assert html_datasheet(sheet) == html_datasheet(snellen_lab.datasheet("eyechart/count"))


def test_all_criteria_met_is_certified(sound: Benchmark, blind: Path) -> None:
    benchmark = verified(sound, PASSED)
    sheet = snellen_lab.datasheet(benchmark.folder, [blind])
    assert sheet.certificate.is_certified
    assert sheet.summary.endswith(
        "Certified: all 5 criteria are met. At most 1.3% of the questions are bad, with 95% confidence: "
        "150 of 240 were drawn, 0 of them bad, according to ann and ben."
    )
    assert "Checks of questions" in markdown_datasheet(sheet)
    assert "jury checked 100" in sheet.certificate.criteria[0].result
    by_models = ItemCheck(
        "blind", 250, 0, 0, ("m",), "", Estimate(0.26, 0.03, 0.21, 0.32, 240, groups=200), 0.25
    )
    assert unmet(verified(sound, replace(PASSED, checks=(*CHECKS, by_models)))) == []


@pytest.mark.parametrize(
    ("lacking", "verification"),
    [
        (["checks", "audit", "raters"], None),
        (["checks"], replace(PASSED, checks=())),
        (["checks"], replace(PASSED, passing_questions=239)),
        (["checks"], replace(PASSED, checks=(ItemCheck("jury", 250, 11),))),
        (["audit"], replace(PASSED, bound=replace(BOUND, at_most=0.0501))),
        (["audit"], replace(PASSED, bound=replace(BOUND, level=0.9))),
        (["raters"], replace(PASSED, bound=replace(BOUND, raters=("ann",)))),
        (["raters"], replace(PASSED, bound=replace(BOUND, raters=("ann", "ann")))),
        (["audit", "raters"], replace(PASSED, bound=None)),
    ],
)
def test_each_criterion_can_fail(
    sound: Benchmark, blind: Path, lacking: list[str], verification: Verification | None
) -> None:
    assert unmet(verified(sound, verification), blind) == lacking


def test_blind_models_count_only_when_there_are_enough_questions_and_none_is_above_chance(
    sound: Benchmark,
) -> None:
    benchmark = verified(sound, PASSED)
    assert unmet(benchmark) == ["blind"]
    for model, protocol, limit in (
        ("snellen:oracle", "blind", None),
        ("snellen:uniform", "blind", 20),
        ("snellen:uniform", "vanilla", None),
    ):
        [run] = sn.evaluate(model, str(sound.folder), protocol, limit=limit, report=False).runs
        assert unmet(benchmark, run.folder) == ["blind"]


def test_a_bound_is_judged_by_the_stated_limit(sound: Benchmark, blind: Path) -> None:
    benchmark = verified(sound, PASSED)
    assert unmet(benchmark, blind, error_limit=0.0125) == [] and unmet(
        benchmark, blind, error_limit=0.012
    ) == ["audit"]


def test_a_serious_finding_of_lint_is_in_the_way(tmp_path: Path, blind: Path) -> None:
    rows = [{**row, "options": [*row["options"][:3], "only me."], "answer": 3} for row in even()]
    benchmark = verified(small.built(rows, tmp_path / "leaky"), PASSED)
    assert "lint" in unmet(benchmark)
    with pytest.raises(
        DataError, match=r"asked mine version \w+, which is version \w+ now; run the model again"
    ):
        snellen_lab.datasheet(benchmark.folder, [blind])
    with pytest.raises(DataError, match="is a run on mine, not on eyechart/count; leave it out"):
        snellen_lab.datasheet("eyechart/count", [blind])


@given(st.floats(0, 1))
def test_a_bound_is_never_written_smaller_than_it_is(share: float) -> None:
    assert float(percent_at_most(share).removesuffix("%")) >= 100 * share - 1e-4
    assert float(percent_at_most(share).removesuffix("%")) <= 100 * share + 0.1 + 1e-4


def test_the_command_writes_the_page_and_tells_scripts(
    sound: Benchmark, blind: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(verified(sound, PASSED).folder)
    code, out, _ = small.command(capsys, "report", folder, str(blind), "--strict")
    assert (
        code == 0
        and "Certified" in out
        and Path("mine.datasheet.html").read_text().startswith("<!DOCTYPE html>")
    )
    code, out, err = small.command(
        capsys, "report", folder, "--strict", "--json", "-o", "sheet.json"
    )
    assert code == 1 and "Not certified: the criterion blind is not met." in err
    assert json.loads(out)["is_certified"] is False and json.loads(
        Path("sheet.json").read_text()
    ) == json.loads(out)
    Path("empty").mkdir()
    for words, message in (
        ((folder, "--figures", "x"), "--figures applies to reports on runs, but "),
        (
            (str(blind), "--strict"),
            "--strict applies to the datasheet of a benchmark, but these are runs; remove it",
        ),
        ((folder, "eyechart/count"), "a datasheet describes one benchmark; give only one"),
        (
            (folder, "-o", "x.pdf"),
            "x.pdf: a datasheet is written as one of .html, .md, .json; choose one",
        ),
        (("eyechart/cuont",), "did you mean eyechart/count?"),
        (("empty",), "is not a run"),
    ):
        code, _, err = small.command(capsys, "report", *words)
        assert code != 0 and message in err and len(err.strip().splitlines()) == 1


def test_the_entry_is_toml_that_says_what_the_benchmark_was_built_from() -> None:
    for name in ("eyechart/count", "eyechart/caption", "easy-vqa"):
        spec = sn.build(name).spec
        manifest = Benchmark(Path("home/benchmarks") / name).manifest
        read = msgspec.convert(tomllib.loads(manifest.spec.toml()), BenchmarkSpec)
        assert read == spec == manifest.spec


def test_the_way_to_build_it_again_is_the_way_it_was_built(sound: Benchmark) -> None:
    assert rebuild_command(sound) == "snellen build table.jsonl --name mine"
    part = draw_subset(sound, Sampling("random", count=20), name="part", seed=3)
    assert (
        rebuild_command(part) == "snellen sample mine --rule random --count 20 --seed 3 --name part"
    )


def test_questions_set_apart_and_their_reasons_are_counted(tmp_path: Path) -> None:
    import gzip

    benchmark = small.built(even(), tmp_path / "mine")
    sample = next(benchmark.samples())
    rows = [
        SetApartQuestion(sample, (), ("jury",)),
        SetApartQuestion(sample, (), ("jury", "duplicate")),
    ]
    path = benchmark.folder / "set_apart.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(msgspec.json.encode(row) + b"\n" for row in rows)))
    from snellen.building.benchmark import file_digest

    manifest: BenchmarkManifest = benchmark.manifest
    files = {**manifest.files, path.name: file_digest(path)}
    (benchmark.folder / MANIFEST).write_bytes(msgspec.json.encode(replace(manifest, files=files)))
    [table] = [
        table
        for table in snellen_lab.datasheet(benchmark.folder).removals
        if table.title == "Set apart, by reason"
    ]
    assert table.rows == (("jury", 2), ("duplicate", 1))


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_the_page_stands_on_a_phone_and_a_desk_and_asks_for_nothing(tmp_path: Path) -> None:
    address = (tmp_path / "sheet.html").as_uri()
    (tmp_path / "sheet.html").write_text(html_datasheet(snellen_lab.datasheet("eyechart/count")))
    with browsing(tmp_path) as page:
        for width in (390, 1280):
            page.resize(width)
            page.open(address)
            assert page.run("document.documentElement.scrollWidth") == width
            assert page.run("[...document.images].every(one => one.naturalWidth > 0)") is True
        assert page.complaints == [] and page.requested == [address, address]
