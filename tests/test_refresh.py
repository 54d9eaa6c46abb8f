"""The next version of a benchmark: pictures that none has shown, the chain of versions, and models' drift."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import small
import snellen as sn
from snellen import registry
from snellen.analysis.paired.differences import QuestionMeasures
from snellen.analysis.paired.drift import ALL_MODELS, _Side, order_test
from snellen.building.benchmark import USED, Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.common.drafts import Draft, PictureSpec, QuestionDraft
from snellen.errors import DataError
from snellen.records import Sample
from snellen.reformulation.sampling import Sampling
from snellen.scoring.resampling import draw_subset
from snellen.scoring.scored_run import ScoredBenchmark

TEN = Sampling("random", count=10)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home that has a benchmark of charts and a sample of it."""
    folder = tmp_path_factory.mktemp("counts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNELLEN_HOME", str(folder / "home"))
        draw_subset(sn.build("eyechart/count"), Sampling("balanced", count=100), name="counts")
    return folder


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def table(count: int, pictures: int | None = None, file: str = "table.jsonl") -> Path:
    """Questions about pictures in files, in a table in this folder."""
    shown = pictures or count
    rows = [{**row, "image": f"{i % shown}.png"} for i, row in enumerate(small.rows(count))]
    for i in range(shown):
        Path(f"{i}.png").write_bytes(small.picture(i, size=(8 + i, 6)))
    return small.write(rows, Path(file))


def mine(sample: Sampling = TEN, count: int = 40, pictures: int | None = None) -> Benchmark:
    path = table(count, pictures)
    source = SourceSpec("table", {"file": path.name, "images": "."}, sample=sample)
    return build_benchmark(replace(small.spec_of(path), source=source), source=Path())


def pictures(benchmark: Benchmark) -> set[str]:
    return {image.digest for sample in benchmark.samples() for image in sample.images}


def refreshed(benchmark: Benchmark, **settings: Any) -> Benchmark:
    return sn.refresh(benchmark.folder, **settings)


def test_each_version_shows_pictures_that_none_has_shown_and_knows_the_chain_and_what_is_left() -> (
    None
):
    first = mine()
    shown = pictures(first)
    second = refreshed(first, source=Path())
    shutil.rmtree(first.folder)  # what it used stands in the second
    third = refreshed(second, source=Path())
    versions = [first, second, third]
    assert [benchmark.name for benchmark in versions] == ["mine", "mine-2", "mine-3"]
    assert [benchmark.manifest.counts.samples for benchmark in versions] == [10, 10, 10]
    assert len(shown | pictures(second) | pictures(third)) == 30
    assert [one.name for one in third.manifest.made.earlier] == ["mine", "mine-2"]
    assert [one.version for one in third.manifest.made.earlier] == [
        v.manifest.version for v in versions[:2]
    ]
    assert [benchmark.manifest.made.left for benchmark in versions] == [0, 20, 10]
    assert third.part(USED)
    assert refreshed(second, source=Path(), to=Path("again")).manifest == third.manifest


def test_questions_about_a_picture_that_was_shown_are_used_with_it() -> None:
    first = mine(count=40, pictures=20)  # two questions about each picture
    second = refreshed(first, source=Path(), count=5)
    assert not pictures(first) & pictures(second)
    used = 40 - 2 * len(pictures(first))
    assert second.manifest.made.read == used and second.manifest.made.left == used - 2 * len(
        pictures(second)
    )


def test_a_picture_is_known_by_its_content_under_any_name_and_a_row_number_is_no_identity() -> None:
    first = mine(Sampling(), count=10)
    for i in range(10):
        Path(f"{i}.png").rename(f"copy-{i}.png")
    rows = [{**row, "image": f"copy-{i}.png"} for i, row in enumerate(small.rows(10))]
    small.write(rows, Path("table.jsonl"))
    with pytest.raises(
        DataError, match="mine-2: mine used all pictures of the source; add pictures to it"
    ):
        refreshed(first, source=Path())
    for i in range(10):  # the ids of the rows are those of before, and the pictures are new
        Path(f"copy-{i}.png").write_bytes(small.picture(i, size=(30, 30 + i)))
    assert refreshed(first, source=Path()).manifest.counts.samples == 10


def read_boxes(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A reader of a stranger's package: a quarter of each picture is shown."""
    for i in range(12):
        picture = PictureSpec((folder or Path()) / f"{i // 2}.png", crop=(4 * (i % 2), 0, 4, 4))
        yield Draft(f"{i}", (QuestionDraft("What?", ("a", "b"), (0,)),), (picture,), f"row {i}")


def test_a_picture_of_which_a_part_was_shown_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry._NAMES, "readers", {**registry._NAMES["readers"], "boxes": read_boxes}
    )
    table(6)
    spec = replace(
        small.spec_of(Path("table.jsonl"), "boxes"),
        source=SourceSpec("boxes", sample=Sampling("random", count=2)),
    )
    first = build_benchmark(spec, source=Path())
    second = refreshed(first, source=Path())
    numbers = [{int(sample.id) // 2 for sample in version.samples()} for version in (first, second)]
    assert not numbers[0] & numbers[1]
    assert second.manifest.made.read == 12 - 2 * len(numbers[0])


def test_a_benchmark_of_all_there_was_takes_all_that_is_new() -> None:
    first = mine(Sampling(), count=10)
    table(14)
    second = refreshed(first, source=Path())
    assert second.manifest.counts.samples == 4 and second.manifest.made.left == 0


def test_too_little_left_and_a_wrong_start_are_one_line_with_a_way_out() -> None:
    first = mine(Sampling("balanced", ratio=0.6))
    with pytest.raises(
        DataError,
        match=r"mine-2 takes 24 questions, and 16 are left that mine did not use; take fewer",
    ):
        refreshed(first, source=Path())
    second = refreshed(first, source=Path(), count=16)
    with pytest.raises(DataError, match="mine-2 is built already; refresh that one"):
        refreshed(first, source=Path())
    with pytest.raises(DataError, match="mine-3: mine, mine-2 used all pictures"):
        refreshed(second, source=Path())
    part = build_benchmark(small.spec_of(Path("table.jsonl"), "part"), source=Path(), limit=3)
    with pytest.raises(DataError, match=r"part was built in part \(a limit of 3\)"):
        refreshed(part, source=Path())


def test_the_next_version_of_a_checked_benchmark_is_checked_and_what_was_set_apart_is_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number in range(60):
        folder = Path("photos", ("cat", "dog", "cow")[number % 3])
        folder.mkdir(parents=True, exist_ok=True)
        copied = (
            number % 20 == 3
        )  # one in twenty shows what the picture of its class before it shows
        (folder / f"{number}.png").write_bytes(
            small.picture(number - 3 * copied, size=(40, 40 + number - 3 * copied))
        )
    first = sn.reform("photos", count=24, options=3)
    apart = [question.sample for question in first.set_apart()]
    code, out, err = small.command(capsys, "reform", "--refresh", "photos")
    second = Benchmark(Path("home/benchmarks/photos-2"))
    assert code == 0 and "repeated: " in out and second.manifest.verification
    assert second.manifest.verification.candidates == first.manifest.verification.candidates == 24
    shown = pictures(first) | {image.digest for sample in apart for image in sample.images}
    assert not shown & pictures(second)
    code, _, err = small.command(capsys, "reform", "--refresh", "photos-2", "--ask", "class")
    assert code and "--ask: --refresh does as its benchmark was built; leave it out" in err


def test_a_sample_of_a_built_benchmark_is_refreshed_from_it(
    counts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(counts / "home", "home")
    first = Benchmark(Path("home/benchmarks/counts"))
    code, out, err = small.command(capsys, "reform", "--refresh", "counts")
    assert (
        code == 0
        and "built counts-2" in out
        and "new to counts; 100 questions are left unused" in err
    )
    second = Benchmark(Path("home/benchmarks/counts-2"))
    assert not pictures(first) & pictures(second)
    assert sn.refresh("counts-2", count=50).manifest.made.left == 50


# --- drift -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(counts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Runs of three models on two versions of a benchmark, by model and version."""
    folder = tmp_path_factory.mktemp("drift")
    shutil.copytree(counts / "home", folder / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNELLEN_HOME", str(folder / "home"))
        sn.refresh("counts")
        return {
            (model, name): sn.evaluate(model, name, runs=folder / "runs" / name, report=False)
            .runs[0]
            .folder
            for name in ("counts-2", "counts")
            for model in ("snellen:oracle", "snellen:uniform", "snellen:biased?p=0.3")
        }


def test_a_model_that_knows_the_first_version_alone_drifts_and_the_others_do_not(
    runs: dict[tuple[str, str], Path],
) -> None:
    [steady] = sn.load_run(
        [*runs.values()]
    ).drift()  # in any order: versions are told by their numbers
    assert (steady.before, steady.after, steady.metric) == ("counts", "counts-2", "accuracy")
    by_model = {line.model: line for line in steady.models}
    assert by_model["snellen:oracle"].difference.value == 0 and by_model["snellen:oracle"].p is None
    gap = by_model["snellen:uniform"].difference
    assert gap.low is not None and gap.high is not None and gap.low < 0 < gap.high
    low, high = gap.low, gap.high
    assert low < (gap.value or 0) < high and gap.n == 200
    mean = by_model[ALL_MODELS]
    others = [line for name, line in by_model.items() if name != ALL_MODELS]
    assert mean.difference.value == pytest.approx(
        sum(line.difference.value or 0 for line in others) / 3
    )
    assert steady.order.pairs == 3 and steady.order.freedom == 2 and (steady.order.p or 0) > 0.01


def test_drift_says_what_it_needs(
    runs: dict[tuple[str, str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    new_oracle, new_guess, oracle, guess = (
        str(runs[model, name])
        for name in ("counts-2", "counts")
        for model in ("snellen:oracle", "snellen:uniform")
    )
    code, out, _ = small.command(capsys, "compare", "--drift", new_oracle, new_guess, oracle, guess)
    assert (
        code == 0
        and "Drift from counts to counts-2" in out
        and "Order of models: 0 of 1 pairs" in out
    )
    code, out, _ = small.command(capsys, "compare", "--drift", "--json", oracle, new_oracle)
    assert msgspec.json.decode(out)["order"]["pairs"] == 0
    for words, message in (
        ((oracle, guess), "drift is between versions of a benchmark; name runs on two of them"),
        ((oracle, new_oracle, guess), "snellen:uniform has no run on counts-2; run it there"),
        ((oracle, new_oracle, "--baseline", oracle), "--drift is of different questions"),
        (
            (oracle, new_oracle, "--metric", "accuracy", "--metric", "hit_rate"),
            "--drift is of one metric",
        ),
    ):
        code, _, err = small.command(capsys, "compare", "--drift", *words)
        assert code != 0 and message in err and len(err.strip().splitlines()) == 1


def side(name: str, chances: list[float], rng: random.Random, questions: int = 120) -> _Side:
    """What models with these chances of being right measure on two questions about each of some pictures; a picture is
    easy or hard for all of them."""
    samples = {
        f"{name}-{i}": Sample(f"{name}-{i}", name, "?", (), ("a", "b"), group=f"{name}-{i // 2}")
        for i in range(questions)
    }
    ease = {sample.group: rng.uniform(-0.2, 0.2) for sample in samples.values()}
    spec = BenchmarkSpec(name=name, title=name, formulation="choice", source=SourceSpec("table"))
    scored = ScoredBenchmark(spec, samples, (), {}, {})
    return _Side(
        [
            QuestionMeasures(
                scored,
                "vanilla",
                "generation",
                "accuracy",
                {
                    (key, 0): float(rng.random() < chance + ease[sample.group])
                    for key, sample in samples.items()
                },
            )
            for chance in chances
        ]
    )


def test_the_test_of_order_rejects_as_often_as_it_says_when_all_move_alike_and_more_when_one_does_not() -> (
    None
):
    rng = random.Random(5)
    same = [
        order_test(side("a", [0.6, 0.5, 0.4], rng), side("b", [0.65, 0.55, 0.45], rng)).p or 0.0
        for _ in range(300)
    ]
    assert 0.02 <= sum(p < 0.05 for p in same) / 300 <= 0.09
    moved = [
        order_test(side("a", [0.6, 0.5, 0.4], rng), side("b", [0.4, 0.5, 0.4], rng))
        for _ in range(40)
    ]
    assert sum((test.p or 1.0) < 0.05 for test in moved) > 20
