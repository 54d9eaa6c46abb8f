"""Parts of a benchmark: what they tell of the whole, checked by numpy and scipy; and parts as benchmarks."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats as witness

import small
import snellen as sn
from snellen.analysis.ranks import fractional_ranks
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.cli import main
from snellen.common.seeds import rng_for
from snellen.metrics.captions import BLEU_2
from snellen.records import Request, Response
from snellen.reformulation.sampling import Sampling, draw_sample
from snellen.scoring.answers import open_answers
from snellen.scoring.resampling import draw_subset, read, stratum_of
from snellen.scoring.scored_run import ScoredRun
from snellen_lab.studies.sampling_study import SampleStability, SamplingPlan, sampling_study

SKILLS = (0.2, 0.45, 0.7, 0.9)


def rows(count: int) -> list[dict[str, Any]]:
    return [{**row, "image": small.cell(i % 40)} for i, row in enumerate(small.rows(count))]


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> list[Benchmark]:
    root = tmp_path_factory.mktemp("wholes")
    return [
        small.built(rows(count), root / name, name=name)
        for name, count in (("large", 200), ("lesser", 80))
    ]


def skilled(skill: float) -> sn.Scripted:
    """Right about so many questions, which ones being settled by name; takes as many seconds as its id says."""

    def reply(request: Request) -> Response:
        number = int(request.sample_id[1:])
        right = rng_for("skill", request.benchmark, request.sample_id, f"{skill}").random() < skill
        place = (number if right else number + 1) % 4
        return Response(
            text=f"({request.variant.labels[place]})", finish="stop", seconds=1.0 + number
        )

    return sn.Scripted(reply, name=f"skilled-{skill}")


@pytest.fixture(scope="module")
def runs(
    wholes: list[Benchmark], tmp_path_factory: pytest.TempPathFactory
) -> tuple[ScoredRun, ...]:
    folders = [str(benchmark.folder) for benchmark in wholes]
    return sn.evaluate(
        [skilled(skill) for skill in SKILLS], folders, runs=tmp_path_factory.mktemp("runs")
    ).runs


def of(found: list[SampleStability], benchmark: str, ratio: float) -> SampleStability:
    [row] = [row for row in found if (row.benchmark, row.ratio) == (benchmark, ratio)]
    return row


def test_the_quantities_are_those_of_a_second_program(
    runs: tuple[ScoredRun, ...], wholes: list[Benchmark]
) -> None:
    plan = SamplingPlan(ratios=(0.1, 0.25), draws=7, rule="random", seed=3)
    found = sampling_study(runs, plan)
    for whole in wholes:
        ids = [sample.id for sample in whole.samples()]
        values = np.array(
            [
                [
                    {s.sample_id: s.value for s in b.scores if s.metric == "accuracy"}[name]
                    for name in ids
                ]
                for run in runs
                for b in run.benchmarks
                if b.spec.name == whole.name
            ]
        )
        full = 100 * values.mean(axis=1)
        seconds = 1.0 + np.array([int(name[1:]) for name in ids])
        for ratio in plan.ratios:
            draws = [
                draw_sample(
                    [""] * len(ids),
                    Sampling("random", ratio=ratio),
                    whole.name,
                    f"study {ratio} {draw}",
                    3,
                )
                for draw in range(7)
            ]
            parts = np.array([100 * values[:, places].mean(axis=1) for places in draws])
            row = of(found, whole.name, ratio)
            assert (row.samples, row.models, row.draws, row.unscored) == (len(ids) * ratio, 4, 7, 0)
            assert row.rho == pytest.approx(
                np.mean([witness.pearsonr(part, full).statistic for part in parts])
            )
            assert row.rank_rho == pytest.approx(
                np.mean([witness.spearmanr(part, full).statistic for part in parts])
            )
            assert row.deviation == pytest.approx(np.abs(parts - full).mean())
            assert row.variance == pytest.approx(parts.var(axis=0, ddof=1).mean())
            assert row.time == pytest.approx(
                np.mean([seconds[places].sum() / seconds.sum() for places in draws])
            )


def test_random_parts_vary_as_sampling_without_replacement_does(
    runs: tuple[ScoredRun, ...],
) -> None:
    row = of(
        sampling_study(runs, SamplingPlan(ratios=(0.2,), draws=600, rule="random")), "large", 0.2
    )
    spreads = []
    for run in runs:
        values = [s.value for s in run.benchmarks[0].scores if s.metric == "accuracy"]
        spreads.append(np.var([100 * (v or 0.0) for v in values], ddof=1) / 40 * (1 - 40 / 200))
    assert row.variance == pytest.approx(np.mean(spreads), rel=0.1)


def test_parts_balanced_by_what_decides_the_score_vary_less(
    wholes: list[Benchmark], tmp_path: Path
) -> None:
    # Right about the first two answers, wrong about the others: a part that is balanced by answer cannot err.
    model = sn.Scripted(
        lambda request: f"({request.variant.labels[int(request.sample_id[1:]) % 2]})"
    )
    [run] = sn.evaluate(model, str(wholes[0].folder), runs=tmp_path).runs
    balanced, random = (
        of(sampling_study([run], SamplingPlan((0.2,), rule=rule)), "large", 0.2)
        for rule in ("balanced", "random")
    )
    assert balanced.variance == balanced.deviation == 0.0
    assert random.variance is not None and random.variance > 1


def test_the_whole_as_its_own_part_tells_everything(runs: tuple[ScoredRun, ...]) -> None:
    row = of(sampling_study(runs, SamplingPlan((1.0,))), "large", 1.0)
    assert (row.rho, row.rank_rho, row.deviation, row.variance, row.time) == pytest.approx(
        (1, 1, 0, 0, 1)
    )


def test_one_model_has_no_correlation_but_deviates(runs: tuple[ScoredRun, ...]) -> None:
    row = of(sampling_study(runs[:1], SamplingPlan((0.1,))), "large", 0.1)
    assert row.rho is None and row.rank_rho is None
    assert row.deviation is not None and row.deviation > 0


def test_the_mean_counts_benchmarks_alike(runs: tuple[ScoredRun, ...]) -> None:
    found = sampling_study(runs, SamplingPlan((0.1,)))
    large, lesser, mean = (of(found, name, 0.1) for name in ("large", "lesser", "*"))
    for name in ("rho", "rank_rho", "deviation", "variance", "time"):
        assert getattr(mean, name) == pytest.approx(
            (getattr(large, name) + getattr(lesser, name)) / 2
        )
    assert (mean.samples, mean.models) == (28, 4)


def test_the_draws_are_the_same_for_any_set_of_models(runs: tuple[ScoredRun, ...]) -> None:
    alone = of(sampling_study(runs[2:3], SamplingPlan((0.1,))), "large", 0.1)
    three = [of(sampling_study([run], SamplingPlan((0.1,))), "large", 0.1) for run in runs]
    together = of(sampling_study(runs, SamplingPlan((0.1,))), "large", 0.1)
    assert alone == three[2]
    assert together.variance == pytest.approx(
        np.mean([one.variance for one in three if one.variance is not None])
    )
    assert sampling_study(runs, SamplingPlan((0.1,), seed=1)) != sampling_study(
        runs, SamplingPlan((0.1,))
    )


def test_requests_stand_for_time_where_none_was_noted(
    wholes: list[Benchmark], tmp_path: Path
) -> None:
    [run] = sn.evaluate(
        "snellen:uniform", str(wholes[0].folder), "instability?m=2", runs=tmp_path
    ).runs
    assert of(sampling_study([run], SamplingPlan((0.1,))), "large", 0.1).time == pytest.approx(0.1)


def test_unparsed_replies_are_not_right_and_are_left_out_of_those_parsed(
    wholes: list[Benchmark], tmp_path: Path
) -> None:
    mute = sn.Scripted(
        lambda r: "hm" if int(r.sample_id[1:]) % 2 else f"({r.variant.labels[0]})", name="mute"
    )
    [run] = sn.evaluate(mute, str(wholes[0].folder), runs=tmp_path).runs
    assert of(sampling_study([run], SamplingPlan((0.01,))), "large", 0.01).unscored == 0
    of_parsed = sampling_study([run], SamplingPlan((0.01,), metric="accuracy_of_parsed"))
    assert of(of_parsed, "large", 0.01).unscored == 100


def test_runs_of_different_samples_are_refused(
    runs: tuple[ScoredRun, ...], wholes: list[Benchmark], tmp_path: Path
) -> None:
    [short] = sn.evaluate("snellen:uniform", str(wholes[0].folder), limit=20, runs=tmp_path).runs
    with pytest.raises(sn.DataError, match="asked different samples of large"):
        sampling_study([*runs, short], SamplingPlan())
    with pytest.raises(sn.DataError, match="no run has a value of anls on any benchmark"):
        sampling_study(runs, SamplingPlan(metric="anls"))
    with pytest.raises(sn.DataError, match="two draws or more, not 1"):
        sampling_study(runs, SamplingPlan(draws=1))


def test_a_metric_that_is_no_mean_is_worked_out_anew_on_each_part(tmp_path: Path) -> None:
    words = "a red boat on the calm sea near some old rocks".split()
    captions = [
        {
            "id": f"q{i:02d}",
            "question": f"Describe {i}.",
            "image": small.cell(i),
            "answer": [" ".join(words[i % 5 :])],
        }
        for i in range(40)
    ]
    whole = small.built(captions, tmp_path / "captions", metrics=("bleu_2",))
    model = sn.Scripted(lambda request: " ".join(words[: int(request.sample_id[1:]) % 7 + 3]))
    [run] = sn.evaluate(model, str(whole.folder), runs=tmp_path / "runs").runs
    counts = {tally.sample_id: tally.counts for tally in run.benchmarks[0].tallies}
    ids = [sample.id for sample in whole.samples()]

    def bleu(places: Iterable[int]) -> float:
        [value] = BLEU_2.compute(tuple(np.sum([counts[ids[place]] for place in places], axis=0)))
        return 100 * (value or 0.0)

    row = of(sampling_study([run], SamplingPlan((0.25,), draws=5, rule="random")), "mine", 0.25)
    draws = [
        draw_sample([""] * 40, Sampling("random", ratio=0.25), "mine", f"study 0.25 {draw}", 0)
        for draw in range(5)
    ]
    parts = [bleu(places) for places in draws]
    assert (row.metric, row.samples) == ("bleu_2", 10)
    assert row.deviation == pytest.approx(np.mean([abs(part - bleu(range(40))) for part in parts]))
    assert row.variance == pytest.approx(np.var(parts, ddof=1)) and row.variance > 0


@given(st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20))
def test_ranks_are_scipys(scores: list[float]) -> None:
    assert fractional_ranks(scores) == list(witness.rankdata(scores))


# --- parts as benchmarks -----------------------------------------------------------------------------------------


def test_a_part_holds_its_samples_answers_and_pictures_and_says_where_it_is_from(
    wholes: list[Benchmark], tmp_path: Path
) -> None:
    whole = wholes[0]
    part = draw_subset(
        whole, Sampling("balanced", ratio=0.1), name="part", seed=5, to=tmp_path / "part"
    )
    there = {sample.id: sample for sample in whole.samples()}
    samples = list(part.samples())
    assert [replace(sample, benchmark="large") for sample in samples] == [
        there[sample.id] for sample in samples
    ]
    assert open_answers(part.folder).items() <= open_answers(whole.folder).items()
    assert part.manifest.counts.answers == len(samples) == 20
    shown = {image.digest for sample in samples for image in sample.images}
    assert {path.name for path in part.images.root.glob("*/*")} == shown
    assert all(
        part.images.read(image) == whole.images.read(image)
        for sample in samples
        for image in sample.images
    )
    source = part.spec.source
    assert source.params == {"of": "large", "version": whole.manifest.version}
    assert source.sample == Sampling("balanced", ratio=0.1) and part.manifest.build_info.recipe == {
        "seed": 5
    }
    assert part.manifest.build_info.read == 200


def test_a_balanced_part_has_its_answers_as_often_as_the_whole(
    wholes: list[Benchmark], tmp_path: Path
) -> None:
    part = draw_subset(wholes[0], Sampling("balanced", count=40), name="part", to=tmp_path / "part")
    answers = open_answers(part.folder)
    assert Counter(stratum_of(sample, answers) for sample in part.samples()) == dict.fromkeys(
        small.ANIMALS[:4], 10
    )
    by_tag = draw_subset(
        wholes[0], Sampling("equal", each=3), name="tags", by="level", to=tmp_path / "tags"
    )
    assert by_tag.manifest.tags == {"level": {"easy": 3, "hard": 3}}


def test_the_same_draw_gives_the_same_version_and_another_seed_another(
    wholes: list[Benchmark], tmp_path: Path
) -> None:
    versions = [
        draw_subset(
            wholes[0], Sampling("random", ratio=0.1), name="part", seed=seed, to=tmp_path / f"{i}"
        ).manifest.version
        for i, seed in enumerate((0, 0, 1))
    ]
    assert versions[0] == versions[1] != versions[2]


def test_a_part_runs_and_scores_as_any_other(wholes: list[Benchmark], tmp_path: Path) -> None:
    part = draw_subset(wholes[0], Sampling("random", count=30), name="part", to=tmp_path / "part")
    results = sn.evaluate(
        "snellen:oracle", [str(part.folder), str(wholes[0].folder)], "circular", runs=tmp_path
    )
    assert results.value("circular_accuracy", benchmark="part") == 1.0
    assert {
        row.estimate.n for row in results.rows if row.benchmark == "part" and not row.slice
    } == {30}


def test_dialogues_are_kept_whole_with_their_histories(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    whole = eyechart["dialogue"]
    part = draw_subset(whole, Sampling("random", count=5), name="part", to=tmp_path / "part")
    histories = whole.histories()
    assert part.histories() == {sample.id: histories[sample.id] for sample in part.samples()}
    assert part.manifest.counts.questions == 20 and part.spec.formulation == "dialogue"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"name": "large"}, "a part of large needs a different name"),
        (
            {"name": "part", "by": "colour"},
            "no sample of large has a tag 'colour'; its tags are level",
        ),
        ({"name": "part", "count": 201}, "has 200 samples, 201 are to be drawn"),
    ],
)
def test_a_part_that_cannot_be_drawn_is_refused(
    settings: dict[str, Any], complaint: str, wholes: list[Benchmark], tmp_path: Path
) -> None:
    count = settings.pop("count", 10)
    with pytest.raises(sn.DataError, match=complaint):
        draw_subset(
            wholes[0], Sampling("random", count=count), **{**settings, "to": tmp_path / "part"}
        )
    assert not (tmp_path / "part").exists()


def test_a_whole_that_has_changed_since_is_refused(wholes: list[Benchmark], tmp_path: Path) -> None:
    part = draw_subset(wholes[0], Sampling("random", count=5), name="part", to=tmp_path / "part")
    with pytest.raises(sn.DataError, match=r"lesser version .*, not large version"):
        build_benchmark(part.spec, source=wholes[1].folder, to=tmp_path / "other")
    with pytest.raises(sn.DataError, match="drawn from its built folder"):
        list(read(part.spec.source.params, None))


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_draws_and_studies(
    wholes: list[Benchmark],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(wholes[0].folder, "large")

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(["sample", *words])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    code, out, _ = run("./large", "--ratio", "0.1", "--to", "part")
    assert code == 0 and "drew 20 of 200 samples of large: large-10p version" in out
    for model in ("uniform", "biased", "oracle"):
        sn.evaluate(f"snellen:{model}", "./part", name=model)
    code, out, _ = run(
        *(f"runs/{model}" for model in ("uniform", "biased", "oracle")),
        "--study",
        "--ratios",
        "0.5,1",
    )
    assert code == 0 and "large-10p" in out and "1.0000" in out
    code, out, _ = run("runs/oracle", "--study", "--json")
    found: dict[str, list[float]] = defaultdict(list)
    for line in out.splitlines():
        row = json.loads(line)
        found[row["benchmark"]].append(row["ratio"])
    assert found == {"large-10p": [0.01, 0.02, 0.1, 0.2], "*": [0.01, 0.02, 0.1, 0.2]}
    for words, complaint in (
        (("./large",), "the sampling rule balanced takes ratio or count, not nothing"),
        (("./large", "--ratio", "2"), "ratio = 2.0 is not a share in (0, 1]"),
        (("runs/oracle", "--study", "--ratios", "a"), "--ratios 'a' are not numbers"),
        (("runs/oracle", "--study", "--ratios", "0"), "ratio = 0.0 is not a share in (0, 1]"),
        (("eyechart", "--ratio", "0.1"), "eyechart matches 14 benchmarks"),
    ):
        code, _, err = run(*words)
        assert code == 2 and complaint in err and len(err.splitlines()) == 1
