"""Tables and dicts of benchmarks and results, as users of pandas and datasets expect them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL.Image import Image

import small
import snellen as sn
from snellen.errors import DataError

pandas = pytest.importorskip("pandas")


@pytest.fixture
def animals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sn.LoadedBenchmark:
    """Six questions with images of their own and a tag."""
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    made = small.built(small.rows(6, pictures=6), tmp_path / "made", name="animals")
    return sn.load_benchmark(made.folder)


@pytest.mark.parametrize("table", ["to_pandas", "to_polars"])
def test_the_table_of_a_benchmark_can_be_evaluated_with_its_images_and_tags(
    animals: sn.LoadedBenchmark, table: str
) -> None:
    asked: dict[str, bytes] = {}

    def model(image: Image, question: str) -> str:
        asked[question] = image.tobytes()
        return "A"

    direct = sn.evaluate(model, animals, progress=False)
    asked_directly = asked.copy()
    asked.clear()
    results = sn.evaluate(model, getattr(animals, table)(), progress=False)
    assert asked == asked_directly and len(asked) == 6
    assert results.value() == direct.value() == pytest.approx(2 / 6)  # the answers are A B C D A B
    assert {row.slice for row in results.rows} >= {"level=easy", "level=hard"}


def test_the_error_of_a_data_frame_made_of_a_benchmark_says_how_to_make_it(
    animals: sn.LoadedBenchmark,
) -> None:
    with pytest.raises(AttributeError, match=r"benchmark.to_pandas\(\) is the data frame"):
        pandas.DataFrame(animals)


def test_a_dict_of_results_has_those_of_each_benchmark(animals: sn.LoadedBenchmark) -> None:
    results = sn.evaluate("snellen:always-a", [animals, "eyechart/colour"], limit=4)
    by_benchmark = dict(results)
    assert list(by_benchmark) == results.keys() == ["animals", "eyechart/colour"]
    assert by_benchmark["animals"].value() == results["animals"].value()
    assert by_benchmark["animals"].value() != by_benchmark["eyechart/colour"].value()


def test_a_share_as_limit_is_answered_with_what_to_write(animals: sn.LoadedBenchmark) -> None:
    for keyword in ("limit", "max_samples"):
        with pytest.raises(
            DataError, match=rf"{keyword}=0.1: .*\[:int\(0.1 \* len\(benchmark\)\)\]"
        ):
            sn.evaluate("snellen:always-a", animals, **{keyword: 0.1})
    tenth = animals[: int(0.5 * len(animals))]
    assert sn.evaluate("snellen:always-a", tenth).n == 3


def test_a_metric_looked_for_in_the_module_is_found_by_the_error() -> None:
    with pytest.raises(AttributeError, match=r"sn.list_metrics\(\) shows the metrics"):
        _ = sn.metrics.accuracy  # type: ignore[attr-defined]
    assert "metrics" not in dir(sn)


def test_another_table_of_the_same_stem_is_refused_with_the_name_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text('{"question":"Is it x?","A":"yes","B":"no","answer":"A"}\n')
    Path("mine.tsv").write_text("question\tA\tB\tanswer\nIs it y?\tyes\tno\tA\n")
    assert small.command(capsys, "build", "mine.jsonl", "--no-images")[0] == 0
    code, _, err = small.command(capsys, "build", "mine.tsv", "--no-images")
    assert code == 2 and "another name: `snellen build mine.tsv --name mine-tsv`" in err
    with pytest.raises(DataError, match=r"differently \(name='mine-tsv'\)"):
        sn.build("mine.tsv", no_images=True)
    sn.build("mine.tsv", no_images=True, name="mine-tsv")
    assert [sn.load_benchmark(name)[0].question for name in ("mine", "mine-tsv")] == [
        "Is it x?",
        "Is it y?",
    ]
