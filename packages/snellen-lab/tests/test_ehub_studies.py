"""LVLM-eHub's declared studies, each by one command from miniature official files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats as witness

import mini_aro
import mini_ehub
import reform
import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.catalogue import declared_files, entries
from snellen.readers import reasked
from snellen.records import Request, Response
from snellen.registry import register
from snellen_lab import run_study
from snellen_lab.studies.cells import grid_of
from snellen_lab.studies.declaration import find_study

STUDIES = [name for name in declared_files("study") if name.startswith("lvlm-ehub/")]
POPE_ROWS = ("accuracy", "precision", "recall", "f1", "yes_rate", "unparsed_rate")


@pytest.fixture(autouse=True)
def in_a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def source() -> Path:
    """A folder with the files of every benchmark of the studies."""
    folder = mini_aro.official(Path("files"))
    for name in ("nocaps", *mini_ehub.POPE):
        mini_ehub.official(name, folder / name)
    return folder


class Talker:
    """Replies with the same caption whatever it is asked, unless its text says otherwise; likes the first option."""

    name, kinds, batch_size = "talker", frozenset({"generate", "loglikelihood"}), 8

    def fingerprint(self) -> dict[str, str]:
        return {"talker": "1"}

    def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [Response(text=self.reply(request)) for request in requests]

    def reply(self, request: Request) -> str:
        if request.variant.labels:
            return f"({request.variant.labels[0]})"
        return f"A dog near {request.messages[0].text.split()[-1]} {request.decoding.seed}"

    def loglikelihood(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [
            Response(
                scores=tuple(
                    sn.ContinuationScore(-float(i), 1) for i in range(len(r.continuations))
                )
            )
            for r in requests
        ]


def test_every_study_is_read_and_says_what_it_repeats() -> None:
    assert len(STUDIES) == 7
    for name in STUDIES:
        study = find_study(name)
        assert study.about.startswith("LVLM-eHub, ") and study.metrics and grid_of(study).cells


def test_the_prompt_sweep_has_eighty_prompts_of_its_own_and_the_paper_s_as_baseline() -> None:
    grid = grid_of(find_study("prompt-sweep"))
    assert len(grid.factors["prompt"]) == 80 and len(grid.cells) == 81 and not grid.notes
    assert not any(
        level.startswith("a ") for level in grid.factors["prompt"]
    )  # as CLIP's templates do


def test_the_prompt_sweep_draws_three_pictures_of_each_class(tmp_path: Path) -> None:
    pictures = [
        {
            "id": f"{n}-{i}",
            "question": "The photo of the",
            "answer": name,
            "image": small.cell(9 * n + i),
            "answer_tag_class": n,
        }
        for n, name in enumerate(("cat", "dog", "cat"))  # two classes of one name, as ImageNet has
        for i in range(5 - n)
    ]
    benchmark = small.built(
        pictures, tmp_path / "made", formulation="text", metrics=("contains_answer",)
    )
    Path("two.txt").write_text("a photo of a {}.\nart of the {}.\n")
    results = run_study(
        "prompt-sweep", Talker(), benchmarks=str(benchmark.folder), levels={"prompt": "two.txt"}
    )
    cells = {row.cell: row.estimate for row in results.rows if row.statistic == "cells"}
    assert list(cells) == ["a photo of a", "art of the", "baseline"] and cells["baseline"].n == 9
    [part] = Path("studies/lvlm-ehub-prompt-sweep/benchmarks").iterdir()
    assert reform.scored_tags(Benchmark(part), "class") == {"0": 3, "1": 3, "2": 3}


def test_an_entry_that_re_asks_can_tell_its_strata(tmp_path: Path) -> None:
    params = {"of": "reform-eval/nocaps", "stratum_tag": "class"}
    drafts = list(reasked.read(params, mini_ehub.official("nocaps", tmp_path)))
    assert drafts and {draft.answer_tags["class"] for draft in drafts} == {
        draft.stratum for draft in drafts
    } != {""}
    sample = find_study("prompt-sweep").sample
    assert sample and entries()["lvlm-ehub/imagenet-1k"].source.params["stratum_tag"] == sample.by


@pytest.mark.parametrize("name", ["rounds-captions", "caption-prompts"])
def test_captions_differ_from_round_to_round_and_from_prompt_to_prompt(name: str) -> None:
    results = run_study(name, Talker(), source=source())
    cells = len(grid_of(find_study(name)).factors.popitem()[1])
    [mean] = [row for row in results.rows if row.quantity == "mean"]
    assert mean.metric == "cider" and mean.cells == cells and mean.estimate.value is not None
    sources = {row.cell for row in results.rows if row.statistic == "variance"}
    assert sources == {"round" if name.startswith("rounds") else "prompt", "item", "residual"}


def test_composition_is_asked_in_both_ways_beside_a_scorer_with_shuffled_options() -> None:
    results = run_study("composition", [Talker(), "snellen:oracle"], source=source())
    cells = {
        (r.model, r.benchmark, r.cell): r.estimate for r in results.rows if r.metric == "accuracy"
    }
    benchmarks = {
        f"aro/{name}" for name in ("vg-relation", "vg-attribution", "coco-order", "flickr30k-order")
    }
    assert {benchmark for _, benchmark, _ in cells} == {*benchmarks, "*"}
    assert cells["snellen:oracle", "*", "by generation"].value == 1
    # By likelihood the first option of the file is the wrong one of two, and the right one of five.
    assert cells["talker", "aro/vg-relation", "by likelihood"].value == 0
    assert cells["talker", "aro/coco-order", "by likelihood"].value == 1
    table = Path("studies/lvlm-ehub-composition/study.md").read_text()
    assert (
        "| aro/vg-relation | by generation | 50.0% |" in table
        and "| aro/coco-order | by likelihood | 20.0% |" in table
    )


def test_hallucination_is_one_table_of_six_metrics_over_three_settings_and_none_hides_the_unparsed() -> (
    None
):
    model = sn.Scripted(
        lambda r: "Yes." if "snowboard" in r.messages[0].text else "Hm.", fingerprint="hm"
    )
    results = run_study("hallucination", model, source=source())
    settings = {f"lvlm-ehub/{name}" for name in mini_ehub.POPE}
    rows = {(row.benchmark, row.metric): row.estimate.value for row in results.rows}
    assert {metric for _, metric in rows} == {f"pope_{name}" for name in POPE_ROWS}
    assert {benchmark for benchmark, _ in rows} >= settings
    for benchmark in settings:
        unparsed, yes = rows[benchmark, "pope_unparsed_rate"], rows[benchmark, "pope_yes_rate"]
        assert (
            unparsed is not None
            and yes is not None
            and unparsed + yes == pytest.approx(1)
            and unparsed > 0
        )
        assert (rows[benchmark, "pope_accuracy"] or 0) <= 1 - unparsed


def letters(reply: str, references: Sequence[str]) -> float:
    """Thousands of letters of a caption: a metric that knows nothing of the image."""
    return len(reply) / 1000


def wordy(request: Request) -> str:
    """A caption that is longer and longer, and about one image in two near the references."""
    number = int(request.sample_id) % 7
    return " ".join(["A cat on a red sofa" if number % 2 else "Something", *["very"] * number])


def test_metrics_of_captions_are_compared_by_ranks_and_their_widest_differences_are_shown() -> None:
    register("metrics", "letters", letters)
    said: list[str] = []
    results = run_study(
        "caption-metrics",
        sn.Scripted(wordy, fingerprint="wordy", answers_by_sample=True),
        source=source(),
        metrics=["rouge_l", "letters", "judged_caption"],
        announce=said.append,
    )
    assert "judged_caption needs a judge and is left out; name one as judge" in said
    [correlation] = [row for row in results.rows if row.quantity == "rank correlation"]
    [series, other] = results.outcome.numbers.series
    x, y = (list(one.cells[0].values.values()) for one in (series, other))
    assert correlation.estimate.value == pytest.approx(witness.spearmanr(x, y).statistic)
    assert (correlation.metric, correlation.against) == ("rouge_l", "letters")
    gaps = [row for row in results.rows if row.quantity == "difference of ranks"]
    assert gaps and [abs(gap.estimate.value or 0) for gap in gaps] == sorted(
        (abs(gap.estimate.value or 0) for gap in gaps), reverse=True
    )
    assert (
        "Where ROUGE-L and letters differ most"
        in Path("studies/lvlm-ehub-caption-metrics/study.md").read_text()
    )


def test_a_judge_marks_captions_beside_cider() -> None:
    judge = sn.Scripted(
        lambda r: str(1 + len(r.messages[-1].text) % 5), fingerprint="judge", name="judge"
    )
    results = run_study(
        "caption-metrics",
        Talker(),
        source=source(),
        metrics=["cider", "judged_caption"],
        judge=judge,
    )
    assert {row.metric for row in results.rows if row.statistic == "cells"} == {
        "cider",
        "judged_caption",
    }


def test_a_study_is_one_command_in_a_clean_folder(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(source())
    code, shown, said = small.command(
        capsys, "study", "hallucination", "snellen:oracle", "--source", folder
    )
    assert code == 0, said
    assert "Yes-no F1 in each cell" in shown and "100.0%" in shown
    code, _, said = small.command(capsys, "study", "rounds-classes", "snellen:oracle")
    assert (
        code == 2
        and "lvlm-ehub/imagenet-1k cannot be downloaded automatically: " in said
        and "Traceback" not in said
    )
