"""A benchmark that is exported as a dataset is built again whole: images, options, answers, ids, tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import small
import snellen as sn
from snellen.building.benchmark import HISTORY, Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.errors import DataError
from snellen.plugin_api import open_benchmark
from snellen.recognition.exported_benchmarks import ENTRY_KEY
from snellen.scoring.answers import sample_answers


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def content_of(benchmark: Benchmark) -> dict[str, Any]:
    """All that is asked and scored, by the ids of samples."""
    samples = {sample.id: replace(sample, benchmark="") for sample in benchmark.samples()}
    images = {image for sample in samples.values() for image in sample.images}
    has_history = benchmark.part(HISTORY) is not None
    return {
        "samples": samples,
        "images": {image.digest: benchmark.images.read(image) for image in images},
        "answers": sample_answers(benchmark.folder),
        "histories": benchmark.histories() if has_history else {},
    }


def own_table() -> Benchmark:
    """Questions with everything that a table can hold."""
    rows = small.rows(6)
    for number, row in enumerate(rows):
        row["tag_level"] = ("easy", "hard")[number % 2]
        row["answer_tag_animal"] = f"animal {number % 3}"
        row["context"] = f"Picture {number}."
        row["image"] = [row["image"], small.cell(number + 40)]
        row["relevance"] = [1.0, 0.5, 0.0, 0.0]
    path = Path("own.jsonl")
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return sn.build(path)


@pytest.mark.parametrize("name", ["match", "word", "caption", "dialogue", "relation", "own"])
def test_an_exported_benchmark_is_built_again_whole(name: str) -> None:
    benchmark = own_table() if name == "own" else open_benchmark(f"eyechart/{name}")
    sn.export_benchmark(str(benchmark.folder), "dataset", "received", answers=True)
    built = sn.build("received")
    assert built.name == "received"
    assert content_of(built) == content_of(benchmark)
    for fact in (
        "title",
        "formulation",
        "metrics",
        "licence",
        "max_new_tokens",
        "prompts",
        "split",
    ):
        assert getattr(built.spec, fact) == getattr(benchmark.spec, fact), fact
    assert built.manifest.tags == benchmark.manifest.tags


def test_a_colleague_runs_what_was_exported_and_gets_the_same_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = sn.evaluate("snellen:always-a", "eyechart/word", limit=20).value()
    code, _, _ = small.command(
        capsys, "export", "eyechart/word", "--as", "dataset", "--answers", "-o", "words"
    )
    assert code == 0
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "colleague"))
    code, out, err = small.command(capsys, "build", "words")
    assert code == 0 and out.startswith("built words version")
    assert "rows, read as a benchmark that Snellen exported, with answers" in err
    assert sn.evaluate("snellen:always-a", "words", limit=20).value() == before


def test_without_answers_the_questions_are_built_and_the_answers_are_hidden() -> None:
    sn.export_benchmark("eyechart/shape", "dataset", "open")
    built = sn.build("open")
    assert built.manifest.counts.answers == 0 and built.count() == 300


def test_a_dataset_that_another_library_wrote_again_is_built_too() -> None:
    """The facts are lost with the metadata, and the questions are whole."""
    sn.export_benchmark("eyechart/shape", "dataset", "shapes", answers=True)
    again = datasets.load_dataset("shapes", split="test", cache_dir="cache")
    Path("again").mkdir()
    again.to_parquet("again/test-00000-of-00001.parquet")
    assert ENTRY_KEY not in pq.read_schema("again/test-00000-of-00001.parquet").metadata
    built = sn.build("again")
    assert content_of(built) == content_of(open_benchmark("eyechart/shape"))


def test_metrics_that_are_not_installed_here_are_not_taken_over(tmp_path: Path) -> None:
    """A metric may be a file of the one who exported it: it is not run here because data name it."""
    table = small.write(small.rows(4), tmp_path / "mine.jsonl")
    spec = BenchmarkSpec(
        name="mine",
        title="Mine",
        formulation="choice",
        source=SourceSpec("table", {"file": table.name, **small.meant(table)}),
        metrics=("theirs.py:score",),
    )
    benchmark = build_benchmark(spec, source=tmp_path, to=tmp_path / "made")
    sn.export_benchmark(str(benchmark.folder), "dataset", "received", answers=True)
    assert sn.build("received").spec.metrics == ()


@pytest.mark.parametrize(
    "facts",
    [
        {"mean_of": ("accuracy", "typed_match"), "topics": ("animal",)},
        {"mean_over": "level", "counted_together": ("ea",)},
        {"generation": ("circular",), "likelihood": ("likelihood?m=2",), "same_requests": True},
    ],
)
def test_how_a_benchmark_is_asked_and_averaged_goes_with_it(
    facts: dict[str, Any], tmp_path: Path
) -> None:
    benchmark = small.built(small.rows(8), tmp_path / "made", name="mine", **facts)
    sn.export_benchmark(str(benchmark.folder), "dataset", "received", answers=True)
    built = sn.build("received")
    for name, value in facts.items():
        assert getattr(built.spec, name) == value, name
    here, there = (
        sn.evaluate("snellen:always-a", str(folder), report=False)
        for folder in (benchmark.folder, built.folder)
    )
    assert there.value() == here.value()


def test_protocols_that_are_not_installed_here_and_odd_lengths_are_not_taken_over() -> None:
    [data, _] = sn.export_benchmark("eyechart/shape", "dataset", "shapes", answers=True)
    table = pq.read_table(data)
    written = json.loads(table.schema.metadata[ENTRY_KEY])

    def write_facts(**changes: Any) -> None:
        metadata = {ENTRY_KEY: json.dumps({**written, **changes}).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), data)

    write_facts(generation=["theirs.py:Ask"])
    assert sn.build("shapes").spec.generation == ()
    write_facts(max_new_tokens=-5)
    with pytest.raises(DataError, match=r"max_new_tokens is -5.*export the benchmark again"):
        sn.build("shapes")


def test_the_dataset_of_a_run_is_refused_with_what_to_export_instead(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = sn.evaluate("snellen:always-a", "eyechart/shape", limit=4, name="run")
    results.export("dataset", "replies", answers=True)
    assert small.command(capsys, "build", "replies") == (
        2,
        "",
        "snellen: replies/data/test-00000-of-00001.parquet: these are the replies of a run; export its benchmark with "
        "`snellen export NAME --as dataset --answers`\n",
    )


def test_a_damaged_row_is_named() -> None:
    [data, _] = sn.export_benchmark("eyechart/shape", "dataset", "shapes", answers=True)
    table = pq.read_table(data)
    damaged = table.set_column(table.schema.get_field_index("gold"), "gold", [["x"] * 300])
    pq.write_table(damaged, data)
    with pytest.raises(
        DataError, match=r"row 0: Expected `array`, got `str`.*export the benchmark"
    ):
        sn.build("shapes")
