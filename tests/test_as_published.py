"""Asked as papers asked: their prompts to the byte, and what a model that is always right gets by every rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import built_digests
import mmbench_rows
import small
import snellen as sn
import test_object_presence
import test_tiny_ehub
from snellen import registry
from snellen.analysis.headline import headline_metrics
from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.catalogue import entries
from snellen.errors import UnknownNameError
from snellen.metrics.declaration import declared_row, metric_of, unit_multiplier
from snellen.protocols.choice import Circular, Vanilla
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import named_templates
from snellen.records import Example, Request, Result, Sample
from snellen.runs.plan import plan_run, prompt_of
from snellen.runs.spec import run_spec
from snellen.scoring.scored_run import ScoredRun, reading_limits

PUBLISHED = sn.ScoringSpec(as_published=True)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))


class Listening:
    """Always says A, and keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def generate(self, requests: Sequence[Request], images: Any) -> list[str]:
        self.asked += requests
        return ["A" for _ in requests]


# --- always right, by every rule ------------------------------------------------------------------------------------


def tiny(folder: Path) -> Iterator[tuple[str, str]]:
    """Tiny LVLM-eHub's sets, which have no digests."""
    files = test_tiny_ehub.official(folder / "tiny-files")
    yield from built_digests._built(
        folder / "tiny", "build", "tiny-lvlm-ehub", "--source", str(files)
    )


def pope(folder: Path) -> Iterator[tuple[str, str]]:
    """The three samplings made from one's own images."""
    files = test_object_presence.jsonl(folder / "pope-files")
    yield from built_digests._built(
        folder / "pope", "build", "pope/*", "--source", str(files), "--param", "images=0"
    )


def all_of_mmbench(folder: Path) -> Iterator[tuple[str, str]]:
    """Every split, version and language of MMBench, and CCBench, from files of one form."""
    file = mmbench_rows.write(
        mmbench_rows.rotated(*map(mmbench_rows.row, range(4))), folder / "all.tsv"
    )
    for name in entries():
        if name.startswith("mmbench/"):
            yield from built_digests._built(folder / "all", "build", name, "--source", str(file))


ROUTES = (*built_digests.ROUTES, tiny, pope, all_of_mmbench)


def is_best(row: Result) -> bool:
    """Whether a row has the best value that its metric declares, where there is one."""
    metric, value = declared_row(row.metric), row.estimate.value
    best = {"higher": metric.high, "lower": metric.low}.get(metric.better)
    if best is None:
        return True
    return value is not None and value / unit_multiplier(row.unit) == pytest.approx(best)


def shortfalls(run: ScoredRun, rows: Sequence[Result]) -> list[str]:
    """The rows of single benchmarks that are not the best and of which nothing says why."""
    limits = {one.spec.name: reading_limits(run, one) for one in run.benchmarks}
    return [
        f"{row.benchmark} {row.convention} {row.method} {row.metric}: {row.estimate.value}"
        for row in rows
        if row.benchmark in limits and not row.slice and row.convention == run.convention
        # What is derived from several benchmarks or templates is no rule for replies.
        if (metric := metric_of(row.metric)) is not None and metric.computed_over != "derived"
        if not (is_best(row) or declared_row(row.metric).limit)
        # No value, with a reason: fewer than four annotators, no labels shown, a single image.
        if not (row.estimate.value is None and (row.estimate.unscored or row.reason))
        if not (row.method == "generation" and limits[row.benchmark])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
def test_the_oracle_has_the_best_value_by_every_rule_of_every_entry_or_the_rule_says_why_not(
    route: Callable[[Path], Iterator[tuple[str, str]]], tmp_path: Path
) -> None:
    assert list(route(tmp_path))
    built = [Benchmark(path.parent) for path in tmp_path.glob(f"*/benchmarks/**/{MANIFEST}")]
    # Of some nobody has the answers: people rate the plans of embodied models.
    folders = {one.folder: one for one in built if one.manifest.counts.answers}
    homes = {folder.relative_to(tmp_path).parts[0] for folder in folders}
    for home in sorted(homes):
        names = [str(folder) for folder in folders if folder.relative_to(tmp_path).parts[0] == home]
        same: dict[str, Any] = {
            "method": "both",
            "report": False,
            "allow_same_requests": True,
            "limit": 12,
        }
        asked = sn.evaluate("snellen:oracle", names, name=home, scoring=PUBLISHED, **same)
        [run] = asked.runs
        assert shortfalls(run, asked.rows) == []
        # As published every reply is to what was asked, so the headline of each question with options is 100.
        for one in run.benchmarks:
            assert reading_limits(run, one) == []
            if one.published and one.spec.formulation == "choice":
                metric = headline_metrics(one)[-1]
                of_it = [
                    row for row in asked.rows if (row.benchmark, row.slice) == (one.spec.name, "")
                ]
                values = [row.estimate.value for row in of_it if row.metric == metric]
                assert values and set(values) == {100.0}, (one.spec.name, metric)
        plain = sn.evaluate("snellen:oracle", names, name=f"{home}-plain", **same)
        for folder in (asked.runs[0].folder, plain.runs[0].folder):
            for extractor in registry.names("extractors"):
                read = sn.score(folder, extractor=extractor)
                assert shortfalls(read.runs[0], read.rows) == []


def test_a_rule_that_seeks_texts_says_so_where_labels_were_shown_and_is_right_where_none_were(
    make: Callable[..., Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(make(small.rows(8), suite="lvlm-ehub", dimension="Reasoning", task="vqa").folder)
    sn.evaluate("snellen:oracle", folder, name="labels")
    code, shown, _ = small.command(capsys, "score", "runs/labels", "--as-published")
    said = " ".join(shown.split())
    assert (
        code == 0
        and "Correct replies may remain unparsed: legacy:lvlm-ehub finds the texts of options alone"
        in said
    )
    assert sn.score("runs/labels", as_published=True).value("legacy_option_match") == 0.0

    asked = sn.evaluate("snellen:oracle", folder, name="texts", scoring=PUBLISHED)
    assert asked.value("legacy_option_match") == 100.0
    [hits] = [
        row
        for row in asked.rows
        if (row.metric, row.benchmark, row.slice) == ("hit_rate", "mine", "")
    ]
    assert (hits.estimate.value, hits.estimate.unscored) == (None, 8)
    assert "remain unparsed" not in asked.report("r.md").read_text("utf-8")
    unread = sn.score("runs/texts", extractor="legacy:mmbench")
    assert unread.value("accuracy") == 0.0
    assert "legacy:mmbench finds labels alone" in unread.report("u.md").read_text("utf-8")


def test_a_metric_by_which_a_right_reply_need_not_count_says_so_beside_its_number(
    make: Callable[..., Benchmark], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "id": f"q{i}",
            "question": "What is written?",
            "answer": ["EXIT", "exit sign"],
            "image": small.cell(i),
        }
        for i in range(3)
    ]
    facts = {"suite": "reform-eval", "task": "ocr", "dimension": "STP", "formulation": "text"}
    folder = str(make(rows, metrics=("exact_match",), **facts).folder)
    sn.evaluate("snellen:oracle", folder, name="r")
    code, shown, _ = small.command(capsys, "score", "runs/r", "--as-published")
    assert code == 0
    assert (
        "legacy OCR match: where several answers are accepted a reply has to hold all"
        in " ".join(shown.split())
    )


def test_a_report_without_the_models_of_a_paper_says_what_brings_them(
    make: Callable[..., Benchmark],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"id": "q", "question": "Which?", "options": ["cat", "dog"], "answer": 0}]
    rows[0]["image"] = small.cell()
    sn.evaluate("snellen:oracle", str(make(rows, suite="mmbench").folder), name="of-a-paper")
    sn.evaluate("snellen:oracle", "eyechart/shape", name="of-none", limit=2)
    targets = registry.targets

    def targets_without_lab(group: registry.Group) -> dict[str, Any]:
        return {} if group == "report_sections" else targets(group)

    monkeypatch.setattr(registry, "targets", targets_without_lab)
    said = "the section of published models is missing, because it is part of another package: pip install"
    for run, flags, is_said in (
        ("of-a-paper", ["--as-published"], True),
        ("of-a-paper", [], False),
        ("of-none", ["--as-published"], False),
    ):
        code, _, err = small.command(capsys, "report", f"runs/{run}", *flags, "-o", "r.html")
        assert (code, said in err) == (0, is_said), err


def test_a_talk_without_labels_has_the_texts_of_options_as_replies() -> None:
    results = sn.evaluate(
        "snellen:oracle", "eyechart/dialogue", "dialogue", templates="lvlm-ehub", limit=5
    )
    assert results.value("accuracy", benchmark="eyechart/dialogue") == 1.0


# --- prompts, to the byte -----------------------------------------------------------------------------------------

ROW = mmbench_rows.row(
    1, ("a wet dog", "5.0", "NA"), question="What is it?", hint="Seen on a farm."
)
ROTATED = mmbench_rows.rotation(ROW, 1)
# What `ImageMCQDataset.build_prompt` (open-compass/VLMEvalKit 01424f9, vlmeval/dataset/image_mcq.py) makes of the row
# and of its rotation, worked out by hand from its f-strings; the blank before the last line's end is its own.
TOOLKIT = (
    b"Hint: Seen on a farm.\nQuestion: What is it?\nOptions:\nA. a wet dog\nB. 5.0\nC. NA\n"
    b"Please select the correct answer from the options above. \n"
)
TOOLKIT_ROTATED = TOOLKIT.replace(
    b"A. a wet dog\nB. 5.0\nC. NA\n", b"A. NA\nB. a wet dog\nC. 5.0\n"
)
# `model_vqa_mmbench.py --single-pred-prompt` of haotian-liu/LLaVA (064abb3), without the image's own token.
LLAVA = (
    b"Seen on a farm.\nWhat is it?\nA. a wet dog\nB. 5.0\nC. NA\n"
    b"Answer with the option's letter from the given choices directly."
)


def own_table(tmp_path: Path, **cells: str) -> Benchmark:
    base = {**ROW, **cells}
    rows = [base, *(mmbench_rows.rotation(base, turn) for turn in (1, 2))]
    return sn.build(mmbench_rows.write(rows, tmp_path / "mine.tsv"), to=tmp_path / "mine")


def test_ones_own_table_of_mmbenchs_form_is_asked_and_scored_as_published_by_its_suites_rules(
    tmp_path: Path,
) -> None:
    own, model = own_table(tmp_path), Listening()
    results = sn.evaluate(model, str(own.folder), "circular?all_passes=true", scoring=PUBLISHED)
    texts = [request.messages[0].text.encode() for request in model.asked]
    # Snellen turns left, this file turned right: its second row is the third pass.
    assert texts[0] == TOOLKIT and texts[2] == TOOLKIT_ROTATED
    assert {len(request.messages) for request in model.asked} == {1}  # no opened reply
    assert results.runs[0].extractors == ("legacy:mmbench",)
    assert results.value("circular_accuracy") == 0.0 and results.value("accuracy") == 100.0


def test_ones_own_table_as_published_is_asked_in_circles_unless_told_otherwise_in_workers_too(
    tmp_path: Path,
) -> None:
    folder = str(own_table(tmp_path).folder)
    plan = plan_run(
        run_spec({"models": ("snellen:oracle",), "benchmarks": (folder,), "scoring": PUBLISHED})
    )
    spec = plan.benchmarks[0].benchmark.spec
    assert [one.label for one in plan.protocols_of(spec)] == ["circular"]
    passed_on = plan_run(plan.spec.of_model())
    assert passed_on.protocols_of(spec) == plan.protocols_of(spec)
    [protocol] = plan.protocols_of(spec)
    assert prompt_of(spec, "choice", protocol, passed_on) == prompt_of(
        spec, "choice", protocol, plan
    )
    plain = plan_run(run_spec({"models": ("snellen:oracle",), "benchmarks": (folder,)}))
    assert [one.label for one in plain.protocols_of(spec)] == ["vanilla"]
    assert plain.execution.name != plan.execution.name and plain.templates.id != plan.templates.id


def test_a_question_without_a_hint_begins_with_the_question(tmp_path: Path) -> None:
    model = Listening()
    sn.evaluate(model, str(own_table(tmp_path, hint="").folder), "vanilla", scoring=PUBLISHED)
    assert model.asked[0].messages[0].text.encode() == TOOLKIT.removeprefix(
        b"Hint: Seen on a farm.\n"
    )


@pytest.mark.parametrize(("name", "text"), [("mmbench", TOOLKIT), ("letter", LLAVA)])
def test_a_prompt_set_is_asked_by_its_name(name: str, text: bytes, tmp_path: Path) -> None:
    own, model = own_table(tmp_path), Listening()
    sn.evaluate(model, str(own.folder), "vanilla", templates=name)
    [request] = model.asked
    assert [message.text.encode() for message in request.messages] == [text]
    assert request.variant.labels == ("A", "B", "C")


def test_an_unknown_set_of_prompts_is_met_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"leter.*letter"):
        named_templates("leter")


def test_words_that_are_named_win_over_those_published(tmp_path: Path) -> None:
    own, model = own_table(tmp_path), Listening()
    sn.evaluate(model, str(own.folder), "vanilla", templates="letter", scoring=PUBLISHED)
    assert model.asked[0].messages[0].text.encode() == LLAVA


def test_lvlm_ehub_lists_options_as_its_code_does(make: Callable[..., Benchmark]) -> None:
    """`ScienceQADataset`, `IconQADataset` (OpenGVLab/Multi-Modality-Arena bd2999a, task_datasets/vqa_datasets.py)."""
    rows = [{**small.rows(1)[0], "context": "A hint, which the original drops."}]
    folder, model = (
        str(make(rows, suite="lvlm-ehub", dimension="Reasoning", task="vqa").folder),
        Listening(),
    )
    sn.evaluate(model, folder, "vanilla", scoring=PUBLISHED)
    [request] = model.asked
    [message] = request.messages
    assert message.text == "Question: Which animal is number 0?\nOptions: cat dog horse cow\n"
    assert request.variant.labels == ()


def test_examples_and_the_sample_that_shows_the_format_are_in_the_form_of_the_set() -> None:
    sample = Sample("s", "b", question="Which?", options=("cat", "dog"))
    example = Example(
        "e", "b", question="Which one?", options=("cat", "dog"), context="Before.", gold=(1,)
    )
    prompt = PromptRenderer(named_templates("mmbench"), examples=(example,))
    [request] = next(Circular().ask(sample, prompt))
    first, reply, asked = request.messages
    assert first.text.startswith("Hint: Before.\nQuestion: Which one?\n") and reply.text == "B. dog"
    assert asked.text.startswith("Question: Which?\nOptions:\nA. cat\nB. dog\n")
    bare = PromptRenderer(named_templates("lvlm-ehub"))
    [request] = next(Vanilla(in_context=True).ask(sample, bare))
    shown, reply, _ = request.messages
    assert (shown.text, reply.text) == (
        "Question: Can you see the image?\nOptions: Yes No Not Sure Maybe\n",
        "Yes",
    )
