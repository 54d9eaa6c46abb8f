"""A scored run: how its replies were read, how complete it is, and the scores of each benchmark.

Also converts results to flat dicts of plain values, as in `results.json` and data frames, and back.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from snellen import registry
from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec, suite_facts
from snellen.catalogue.suites import AsPublished
from snellen.common.attribute_hints import same_hint, unknown_attribute
from snellen.extraction import find_extractor
from snellen.formats.shown_text import object_line
from snellen.metrics.declaration import declared_row
from snellen.metrics.question_counts import QuestionCounts
from snellen.metrics.questions import AT_ONCE, AskedQuestion
from snellen.models.model_strings import model_string, parse_spec
from snellen.models.request_options import DEFAULT_REASONING_TOKENS
from snellen.reasons import Reason
from snellen.records import Answer, Convention, Estimate, Method, Prediction, Result, Sample, Score
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import ScoringSpec, TokenPrice
from snellen.scoring.choice_metrics import settles
from snellen.scoring.code_digests import CodeDigest
from snellen.scoring.judges import JudgeUse
from snellen.scoring.request_costs import RequestCost, RoleUse

RowKey = tuple[str, Method, str]
"""Protocol, method, metric."""


def by_row(scores: Iterable[Score]) -> dict[RowKey, list[Score]]:
    """Group scores by (protocol, method, metric), in the order in which these first appear."""
    scores_by_row: dict[RowKey, list[Score]] = {}
    for score in scores:
        key = (score.protocol, score.method, score.metric)
        scores_by_row.setdefault(key, []).append(score)
    return scores_by_row


class RunExtent(Struct, frozen=True):
    """Questions of a run, counted once per protocol."""

    questions: int = 0
    begun: int = 0
    """Questions with at least one request."""
    finished: int = 0
    """Questions with no request left to send. Failed requests count as sent."""
    wanting: tuple[str, ...] = ()
    """Benchmarks for which the stopping rule requires more images."""
    undecided: tuple[str, ...] = ()
    """Benchmarks on which a sequential comparison has not yet decided which model is better."""

    @property
    def is_whole(self) -> bool:
        """Whether the run is complete, and neither stopped early nor still running."""
        return self.finished == self.questions and not self.wanting and not self.undecided

    @property
    def text(self) -> str:
        """The extent as text, such as `83 of 240 questions begun, 33 finished`."""
        clauses = [
            f"{self.begun:,} of {self.questions:,} questions begun, {self.finished:,} finished"
        ]
        if self.wanting:
            clauses.append(f"more of {', '.join(self.wanting)} to run under {setting('until')}")
        if self.undecided:
            undecided = ", ".join(self.undecided)
            clauses.append(f"which of two models is better in {undecided} not decided")
        return ", and ".join(clauses)

    def plus(self, other: RunExtent) -> RunExtent:
        """Return the summed counts, without `wanting` and `undecided`."""
        return RunExtent(
            questions=self.questions + other.questions,
            begun=self.begun + other.begun,
            finished=self.finished + other.finished,
        )


def extent_of(questions: Sequence[AskedQuestion]) -> RunExtent:
    """Count how many questions of one protocol were begun, and how many are finished.

    If a request of a dialogue failed, all its rounds count as finished, because the following ones are never sent.

    Args:
        questions: The questions, with all rounds of each dialogue.
    """
    failed_samples: set[str] = set()
    for question in questions:
        if any(prediction.error for prediction in question.predictions):
            failed_samples.add(question.sample.id)
    n_begun = 0
    n_finished = 0
    for question in questions:
        if _is_begun(question):
            n_begun += 1
        if question.sample.id in failed_samples or _is_finished(question):
            n_finished += 1
    return RunExtent(len(questions), n_begun, n_finished)


def _is_begun(question: AskedQuestion) -> bool:
    """Return whether a question has a prediction or, in a protocol of several steps, at least one step."""
    has_steps = question.declaration.conclude is not None and question.before != AT_ONCE
    return has_steps or len(question.predictions) > 0


def _is_finished(question: AskedQuestion) -> bool:
    """Return whether a question has all the replies that it needs.

    It has if every presentation of the protocol was answered, or if the protocol stops as soon as the result is
    certain.
    """
    declared = question.declaration
    predictions = question.predictions
    if question.final or len(predictions) >= declared.n_presentations(question.sample):
        return True
    return declared.stops_early and settles(predictions)


class ScoredBenchmark(Struct, frozen=True, dict=True):
    """Questions, predictions, scores and answers of one benchmark in one run.

    Most records are read from disk each time you iterate over them (`snellen.scoring.stored_records`), so keep only
    what you need.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [scored] = results.runs[0].benchmarks
        >>> len(scored.samples), scored.chance_accuracy
        (4, 0.25)
    """

    spec: BenchmarkSpec
    samples: Mapping[str, Sample]
    """Samples by id; their tags include those of their answers."""
    predictions: Collection[Prediction]
    score_rows: Mapping[RowKey, Collection[Score]]
    answers: Mapping[tuple[str, int], Answer]
    """By sample id and round; empty for hidden answers."""
    tallies: Collection[QuestionCounts] = ()
    """Counts per question, from metrics that are computed from summed counts."""
    published: AsPublished | None = None
    """The rules of the suite's published tables, if the benchmark was scored by them."""
    requested_metrics: tuple[str, ...] = ()
    """Metrics that the user asked for. The first of them that was computed is the headline of open questions."""
    answers_missing: bool = False
    """Whether the benchmark has answers that are not on this machine. Its stored scores can be shown without them."""
    n_corrected: int = 0
    """Ground truths that a list of errata corrected before scoring."""

    def __repr__(self) -> str:
        return object_line(
            self,
            self.spec.name,
            samples=len(self.samples),
            scores=sum(map(len, self.score_rows.values())),
        )

    @property
    def scores(self) -> Iterator[Score]:
        """All scores, row by row."""
        return chain.from_iterable(self.score_rows.values())

    def scores_of(self, metric: str, protocol: str | None = None) -> Iterator[Score]:
        """Yield the scores of one metric, under all protocols or one."""
        for (label, _, name), scores in self.score_rows.items():
            if name == metric and protocol in (None, label):
                yield from scores

    @property
    def chance_accuracy(self) -> float | None:
        """The accuracy of guessing: the mean of 1 / number of options over the questions with options.

        A question that never shows all of its options counts by those that it showed.
        """
        return self._chance_and_labels[0]

    @property
    def n_with_options(self) -> int:
        """Number of its questions that have options."""
        count = 0
        for sample in self.samples.values():
            count += sum(bool(turn.options) for turn in sample.rounds)
        return count

    @property
    def labels_shown(self) -> frozenset[tuple[str, ...]]:
        """Sets of option labels in prompts that asked for a reply; an empty tuple for options without labels."""
        return self._chance_and_labels[1]

    @cached_property
    def _chance_and_labels(self) -> tuple[float | None, frozenset[tuple[str, ...]]]:
        """The accuracy of guessing, and all sets of option letters that were shown to the model.

        Both come from one pass through the predictions. The first is None if no question has options.
        """
        n_options_shown: dict[tuple[str, int], int] = {}
        labels: set[tuple[str, ...]] = set()
        for prediction in self.predictions:
            key = (prediction.sample_id, prediction.turn)
            order = prediction.variant.order
            n_options_shown[key] = max(n_options_shown.get(key, 0), len(order))
            if order and prediction.method == "generation":
                labels.add(prediction.variant.labels)

        chances: list[float] = []
        for sample in self.samples.values():
            for number, turn in enumerate(sample.rounds):
                if turn.options:
                    n_options = n_options_shown.get((sample.id, number)) or len(turn.options)
                    chances.append(1 / n_options)
        chance = math.fsum(chances) / len(chances) if chances else None
        return chance, frozenset(labels)


class LeftOutQuestion(Struct, frozen=True):
    """A question that a comparison leaves out. `reason` is None for a run that answered it."""

    benchmark: str
    sample_id: str
    reason: Reason | None
    detail: str = ""


RUN_HINTS = {
    **same_hint(
        "sn.Results([run]) is the run as results, with value(), samples, to_pandas() and plot()",
        "samples",
        "to_pandas",
        "to_polars",
        "to_csv",
        "to_df",
        "table",
        "value",
        "score",
        "accuracy",
        "results",
        "rows",
        "plot",
        "report",
        "compare",
        "export",
        "summary",
    ),
    **same_hint("manifest.model is its name", "model", "name", "label"),
    **same_hint(
        "manifest has the settings of the run", "config", "settings", "args", "seed", "spec"
    ),
    **same_hint("folder is its folder", "path", "dir", "directory", "id"),
}
"""What to write instead of names that other libraries use."""


class ScoredRun(Struct, frozen=True):
    """A run with the scores of each of its benchmarks, by one scoring.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> run = results.runs[0]
        >>> run.manifest.model, [scored.spec.name for scored in run.benchmarks]
        ('snellen:oracle', ['eyechart/colour'])
    """

    folder: Path
    manifest: RunManifest
    scoring: ScoringSpec
    reading_stages: tuple[str, ...]
    """Names and versions of the stages that read replies after the extractor, in order."""
    benchmarks: tuple[ScoredBenchmark, ...]
    distinct_requests: int
    """Distinct requests that models of the run received."""
    reused: int
    """Presentations answered by an earlier response to the same request."""
    judges: tuple[JudgeUse, ...] = ()
    roles: tuple[RoleUse, ...] = ()
    """Requests and tokens of each model of the run."""
    extent: RunExtent | None = None
    """How complete the run was. None for scorings stored by versions that did not record it."""
    costs: tuple[RequestCost, ...] = ()
    """Requests, tokens and seconds by benchmark and protocol."""
    price: TokenPrice | None = None
    """Price of the evaluated model's tokens, if the user gave one."""
    left_out_questions: tuple[LeftOutQuestion, ...] | None = None
    """Questions left out of a comparison on commonly answered questions; None outside such a comparison."""
    counterpart: ScoredRun | None = None
    """For a run scored as published, the same replies scored by the standard rules."""
    stored_rows: tuple[Result, ...] | None = None
    """The stored results; None if they have to be computed."""
    stored_in: Path | None = None
    """The folder in which this scoring is stored, if it is."""
    code: Mapping[str, CodeDigest] = {}
    """Digests of the user's own metrics, judges and extractors that scored the run, by the short name of each."""

    def __repr__(self) -> str:
        return object_line(
            self, f"{self.manifest.model} in {self.folder}", benchmarks=len(self.benchmarks)
        )

    def __getattr__(self, name: str) -> Any:
        """Raise an error for an unknown attribute, which names where results have it."""
        raise unknown_attribute(self, name, RUN_HINTS)

    @property
    def failed(self) -> int:
        """Distinct requests without a reply after all retries."""
        return sum(use.failed for use in self.roles)

    @property
    def convention(self) -> Convention:
        """Whether the scores follow the standard or the published rules."""
        return "as-published" if self.scoring.as_published else "standard"

    def extractor_of(self, benchmark: ScoredBenchmark) -> str:
        """Return the name of the extractor of a benchmark: that of the published rules if they apply, or the run's."""
        return benchmark.published.extractor if benchmark.published else self.scoring.extractor

    @property
    def extractors(self) -> tuple[str, ...]:
        """The distinct extractors that read the replies, in the order of the benchmarks."""
        if not self.benchmarks:
            return (self.scoring.extractor,)
        return tuple(dict.fromkeys(map(self.extractor_of, self.benchmarks)))


def unknown_suites(run: ScoredRun) -> Iterator[str]:
    """Yield a sentence for each suite of a run that is not installed, with what to do.

    Without its suite, the weights of benchmarks in means and the pools of benchmarks are unknown.
    """
    suites = dict.fromkeys(scored.spec.suite for scored in run.benchmarks if scored.spec.suite)
    for suite in suites:
        if suite in suite_facts():
            continue
        yield (
            f"its suite {suite!r} is not available, so its benchmarks have equal weights and are not pooled, "
            f"whatever the suite declares; give its folder with {for_caller('--suites (sn.add_suites)', 'sn.add_suites(FOLDER)')}, or install its package"
        )


def reading_limits(run: ScoredRun, benchmark: ScoredBenchmark) -> list[str]:
    """Return sentences on what the run's extractor cannot read in replies to a benchmark, such as certain letters.

    The extractor is the program that finds out which option a reply chooses.
    """
    name = run.extractor_of(benchmark)
    base_name = name.partition("?")[0]
    if base_name not in registry.targets("extractors"):
        return []  # its package is no longer installed

    limits: dict[str, None] = {}
    for labels in sorted(benchmark.labels_shown):
        limit = find_extractor(name).limit(labels)
        if limit:
            limits[f"{name} {limit}"] = None
    return list(limits)


_ADDRESS = re.compile(r"@https?://[^?\s]*")


def without_address(model: str) -> str:
    """Return a model string without the address of its server, which does not belong in a report."""
    return _ADDRESS.sub("", model)


def model_label(manifest: RunManifest) -> str:
    """Return what a run's model is called: the label that its user gave it, or its name without an address."""
    labels = [execution.label for execution in manifest.executed if execution.label]
    return labels[-1] if labels else without_address(manifest.model)


def run_labels(runs: Sequence[ScoredRun]) -> list[str]:
    """Return a name for each run under which it appears next to the other runs.

    It is the label of the model. If several runs have the same model, the name of the run's folder is added, or the
    whole path if several folders have that name too. If only some runs are scored as published, `as published` is added
    to these.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> run_labels(results.runs)
        ['snellen:oracle']
    """

    n_runs_of_model: Counter[tuple[str, str]] = Counter()
    n_runs_in_folders_of_name: Counter[tuple[str, str, str]] = Counter()
    for run in runs:
        model = model_label(run.manifest)
        n_runs_of_model[model, run.convention] += 1
        n_runs_in_folders_of_name[model, run.convention, run.folder.name] += 1
    has_both_conventions = len({run.convention for run in runs}) > 1

    labels: list[str] = []
    for run in runs:
        model = model_label(run.manifest)
        label = model
        if n_runs_of_model[model, run.convention] > 1:
            is_unique = n_runs_in_folders_of_name[model, run.convention, run.folder.name] == 1
            label += f" ({run.folder.name})" if is_unique else f" ({run.folder})"
        if has_both_conventions and run.convention != "standard":
            label += " as published"
        labels.append(label)
    return labels


_ESTIMATE_FIELDS = frozenset(Estimate.__struct_fields__)
FIRST_COLUMNS = ("model", "benchmark", "metric", "value", "low", "high", "n", "protocol")
"""First columns of a data frame, so that a shortened print shows the numbers."""


def flat_row(row: Result, *, is_kept: bool = False) -> dict[str, Any]:
    """Return a result as a dict of plain values, as in a line of a CSV file.

    Args:
        row: The result.
        is_kept: Whether it is to be stored. If not, a standard error of 0 for equal values is replaced by None, because
            their spread cannot be estimated.

    Examples:
        >>> row = Result("mine", "animals", "vanilla", "generation", "accuracy", Estimate(0.75, 0.05, 0.64, 0.83, 80))
        >>> flat_row(row)["value"]
        0.75
    """
    fields = {**asdict(row), **asdict(row.estimate)}
    del fields["estimate"]
    if not is_kept:
        fields["stderr"] = row.stderr
    names_in_order = dict.fromkeys((*FIRST_COLUMNS, *fields))
    return {name: fields[name] for name in names_in_order}


def result_of_flat(flat: Mapping[str, Any]) -> Result:
    """Return the result that `flat_row` made flat. Raises msgspec.ValidationError."""
    row: dict[str, Any] = {}
    estimate: dict[str, Any] = {}
    for name, value in flat.items():
        if name in _ESTIMATE_FIELDS:
            estimate[name] = value
        else:
            row[name] = value
    row["estimate"] = estimate
    return msgspec.convert(row, Result)


# --- replies that the length limit ended before they answered, or that say nothing ------------------------------------


NOTEWORTHY_SHARE = 0.01
"""If more than this share of replies reached the length limit, a sentence reports them."""


def cut_reply_sentences(scored: ScoredRun) -> Iterator[str]:
    """Yield a sentence on replies that were cut off while reasoning, and one on replies cut off in their answer."""
    n_replies = 0
    n_by_reason: Counter[str | None] = Counter()
    for benchmark in scored.benchmarks:
        n_replies += len(benchmark.predictions)
        n_by_reason.update(prediction.reason for prediction in benchmark.predictions)
    model = scored.manifest.model
    n_cut_in_reasoning = n_by_reason["reasoning cut off"]
    if n_cut_in_reasoning:
        way_out = f"raise {setting('max_new_tokens')}"
        if ":" in model:
            way_out = _more_reasoning(model)
        yield (
            f"{n_cut_in_reasoning} of {n_replies} replies were cut off in their reasoning, before an answer; {way_out} (and "
            f"another {setting('name')})"
        )
    n_cut = n_by_reason["cut off"]
    if n_cut > NOTEWORTHY_SHARE * n_replies:
        yield (
            f"{n_cut} of {n_replies} replies reached the length limit before an answer; raise {setting('max_new_tokens')} (and "
            f"use another {setting('name')})"
        )


def empty_reply_sentences(scored: ScoredRun) -> Iterator[str]:
    """Yield a sentence with the number of empty replies and how many of these call a tool, if there are any."""
    n_replies = 0
    reasons: Counter[str | None] = Counter()
    for benchmark in scored.benchmarks:
        n_replies += len(benchmark.predictions)
        reasons.update(prediction.reason for prediction in benchmark.predictions)
    n_tool_calls = reasons["tool call"]
    n_empty = reasons["empty"] + n_tool_calls
    if not n_empty:
        return
    advice = ""
    if n_tool_calls:
        advice = f" (tool calls: {n_tool_calls:,}; configure the server without tools)"
    verb = "is" if n_empty == 1 else "are"
    yield f"{n_empty:,} of {n_replies:,} replies {verb} empty{advice}"


def _answered_in_sentences(benchmark: ScoredBenchmark) -> set[tuple[str, int]]:
    """Return the questions, by sample and round, to which a reply is at least `MIN_WORDS_OF_SENTENCE` words long."""
    questions: set[tuple[str, int]] = set()
    for prediction in benchmark.predictions:
        words = (prediction.text or "").split()
        if len(words) >= MIN_WORDS_OF_SENTENCE:
            questions.add((prediction.sample_id, prediction.turn))
    return questions


MIN_WORDS_OF_SENTENCE = 5
MAX_SHARE_OF_SENTENCES = 0.05
"""If a larger share of replies is wrong and a sentence, a warning says that the metric compares whole texts."""


def whole_text_sentences(scored: ScoredRun) -> Iterator[str]:
    """Yield a warning for each metric that scored many replies as wrong because they are sentences.

    Some metrics compare the complete reply with the correct answer, so "It is a dog." does not match "dog". Benchmarks
    whose first metric is `typed_match` are ignored, because it finds the answer in a sentence.
    """
    n_scored: Counter[str] = Counter()
    n_lost: Counter[str] = Counter()
    has_typed_match = False
    for benchmark in scored.benchmarks:
        names = {name for _, _, name in benchmark.score_rows}
        has_typed_match = has_typed_match or "typed_match" in names
        metrics = {name for name in names if declared_row(name).whole_text}
        if not metrics or benchmark.spec.metrics[:1] == ("typed_match",):
            continue
        answered_in_sentences = _answered_in_sentences(benchmark)
        for name in metrics:
            for score in benchmark.scores_of(name):
                if score.value is not None:
                    n_scored[name] += 1
                if score.value == 0 and (score.sample_id, score.turn) in answered_in_sentences:
                    n_lost[name] += 1
    instead = "see typed_match" if has_typed_match else "add the metric typed_match"
    for name in sorted(n_lost):
        if n_lost[name] > MAX_SHARE_OF_SENTENCES * n_scored[name]:
            yield (
                f"{n_lost[name]:,} of {n_scored[name]:,} replies scored by {name} are sentences and count as "
                "wrong, because the metric compares complete texts: prompt for a word or a phrase, or "
                f"{instead}, which finds the answer in a sentence"
            )


def _more_reasoning(model: str) -> str:
    """Return advice with a model string that has twice the reasoning tokens, or the default number of them."""
    budget = parse_spec(model).options.get("reasoning_tokens", "")
    new_budget = DEFAULT_REASONING_TOKENS
    if budget.isdecimal() and int(budget) > 0:
        new_budget = 2 * int(budget)
    without_budget = model
    if budget:
        without_budget = model.replace(f"reasoning_tokens={budget}", "").rstrip("?&")
    return (
        f"allow more reasoning tokens: {model_string(without_budget, reasoning_tokens=new_budget)}"
    )
