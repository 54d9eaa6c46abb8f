"""Two tables of one file name: neither build replaces the other unasked, and no run loses its benchmark in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import small
import snellen as sn
from snellen.errors import DataError
from snellen.plugin_api import open_benchmark

HEADER = "question\tA\tB\tanswer\n"
B_QUESTIONS = ["Is this folder b?"]


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `a/test.tsv` and `b/test.tsv`, which ask different questions."""
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test.tsv").write_text(f"{HEADER}Is this folder {name}?\tyes\tno\tA\n")
    return tmp_path


def test_a_table_does_not_replace_the_build_of_another_one_of_its_name(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = sn.build("a/test.tsv", no_images=True)
    assert small.command(capsys, "build", "a/test.tsv", "--no-images")[0] == 0
    code, _, err = small.command(capsys, "build", "b/test.tsv", "--no-images")
    assert code == 2 and err.splitlines()[-1] == (
        f"snellen: test is already built from {tables / 'a/test.tsv'}, and its runs need that build; name the one from "
        f"{tables / 'b/test.tsv'} differently (--name test-b), or replace the earlier one (--force)"
    )
    assert open_benchmark("test").manifest.version == first.manifest.version
    with pytest.raises(DataError, match=r"differently \(name='test-b'\), or replace"):
        sn.build("b/test.tsv", no_images=True)

    # The same table again, corrected, from its entry, or as a copy elsewhere, is no other source.
    sn.build("a/test.toml")
    Path("copy.tsv").write_text(Path("a/test.tsv").read_text())
    copied = sn.build("copy.tsv", name="test", no_images=True)
    assert copied.manifest.version == first.manifest.version
    sn.build("a/test.toml", force=True)
    with Path("a/test.tsv").open("a") as file:
        file.write("Is it still folder a?\tyes\tno\tA\n")
    assert sn.build("a/test.tsv").count() == 2

    sn.build("b/test.tsv", name="b-test", no_images=True)
    assert [sample.question for sample in open_benchmark("b-test").samples()] == B_QUESTIONS
    assert small.command(capsys, "build", "b/test.tsv", "--no-images", "--force")[0] == 0
    assert [sample.question for sample in open_benchmark("test").samples()] == B_QUESTIONS


def test_a_run_says_that_its_benchmark_was_replaced_by_another_table(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sn.build("a/test.tsv", no_images=True)
    before = sn.evaluate("snellen:always-a", "test", name="run").rows
    sn.build("b/test.tsv", no_images=True, force=True)
    sources = f"test was built from {tables / 'a/test.tsv'} when it was run, and now from {tables / 'b/test.tsv'}"
    code, _, err = small.command(capsys, "report", "runs/run")
    assert code == 0 and f"{sources}); these are the scores saved" in err
    assert sn.load_run("runs/run").rows == before
    for verb in (("score", "runs/run"), ("run", "snellen:always-a", "test", "--name", "run")):
        code, _, err = small.command(capsys, *verb)
        assert code == 2 and sources in err


def test_rows_in_memory_are_built_again_under_their_name(tables: Path) -> None:
    row = {"question": "Is it?", "choices": ["yes", "no"], "answer": "yes"}
    sn.build([row], name="mine", no_images=True)
    assert sn.build([row, {**row, "question": "Or?"}], name="mine", no_images=True).count() == 2
    with pytest.raises(DataError, match="mine is already built from rows in memory, and"):
        sn.build("a/test.tsv", name="mine", no_images=True)


def test_annotations_do_not_replace_the_build_of_others_of_their_name(tables: Path) -> None:
    for folder, colours in (("a", ("red", "blue")), ("b", ("red", "green"))):
        for colour in colours:
            images = tables / folder / "colours" / colour
            images.mkdir(parents=True)
            for number in range(4):
                Image.new("RGB", (40 + number, 40), colour).save(images / f"{number}.png")
    sn.reform("a/colours", per_type=4)
    with pytest.raises(
        DataError, match=r"colours is already built from .*/a/colours, and its runs"
    ):
        sn.reform("b/colours", per_type=4)
    assert sn.reform("b/colours", per_type=4, force=True).count() > 0


def test_no_output_is_written_over_the_table_of_a_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports, cards and exports are refused there; over any other file they are written."""
    monkeypatch.chdir(tmp_path)
    table = Path("free.csv")
    table.write_text("question,A,B,answer\nIs ice cold?,yes,no,A\nIs fire cold?,yes,no,B\n")
    sn.build(table, no_images=True)
    before = table.read_bytes()
    results = sn.evaluate("snellen:oracle", "free", report=False)
    comparison = sn.compare(results, sn.evaluate("snellen:always-a", "free", report=False))
    refusal = "free.csv is not overwritten, because the benchmark free was built from it; name "
    for write in (
        results.report,
        results.to_csv,
        results.export,
        results.samples.to_csv,
        comparison.to_csv,
    ):
        with pytest.raises(DataError, match=refusal):
            write("free.csv")
    with pytest.raises(DataError, match=refusal):
        results.report(table.absolute())
    assert table.read_bytes() == before

    other = Path("free-results.csv")
    for _ in range(2):
        results.report(other)
    assert other.read_text().startswith("model,")
