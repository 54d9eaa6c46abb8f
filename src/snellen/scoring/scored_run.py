"""A scored run: how its replies were read, how far it came, and all that is known of each benchmark.

Results as flat dicts of plain values, as `results.json` and frames have them, and back.
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
from snellen.catalogue import BenchmarkSpec, suite_facts
from snellen.catalogue.suites import AsPublished
from snellen.extraction import find_extractor
from snellen.formats.shown_text import object_line
from snellen.metrics.declaration import declared
from snellen.metrics.question_counts import QuestionCounts
from snellen.metrics.questions import AT_ONCE, AskedQuestion
from snellen.models.model_strings import model_string, parse_spec
from snellen.models.request_options import DEFAULT_REASONING_TOKENS
from snellen.reasons import Reason
from snellen.records import Answer, Convention, Estimate, Method, Prediction, Result, Sample, Score
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import ScoringSpec, TokenPrice
from snellen.scoring.choice_metrics import settles
from snellen.scoring.judges import JudgeUse
from snellen.scoring.request_costs import RequestCost, RoleUse

RowKey = tuple[str, Method, str]
"""Protocol, method, metric."""


def by_row(scores: Iterable[Score]) -> dict[RowKey, list[Score]]:
    """Scores row by row, rows in the order in which they first appear."""
    rows: dict[RowKey, list[Score]] = {}
    for score in scores:
        rows.setdefault((score.protocol, score.method, score.metric), []).append(score)
    return rows


class RunExtent(Struct, frozen=True):
    """Questions of a run, counted once per protocol."""

    questions: int = 0
    begun: int = 0
    """Those of which anything was asked."""
    finished: int = 0
    """Those of which nothing is left to ask, but for requests that failed: they were asked."""
    wanting: tuple[str, ...] = ()
    """Benchmarks of which the rule that stops the run wants more pictures than were asked."""
    undecided: tuple[str, ...] = ()
    """Benchmarks on which the comparison that the run is part of has not shown which model is better."""

    @property
    def is_whole(self) -> bool:
        """Whether a run has come to its end; otherwise it was stopped, or is under way."""
        return self.finished == self.questions and not self.wanting and not self.undecided

    @property
    def words(self) -> str:
        """`83 of 240 questions begun, 33 finished`"""
        words = [
            f"{self.begun:,} of {self.questions:,} questions begun, {self.finished:,} finished"
        ]
        words += [f"more of {', '.join(self.wanting)} to come by --until"] if self.wanting else []
        words += (
            [f"which of two models is better in {', '.join(self.undecided)} not decided"]
            if self.undecided
            else []
        )
        return ", and ".join(words)

    def plus(self, other: RunExtent) -> RunExtent:
        return RunExtent(
            self.questions + other.questions,
            self.begun + other.begun,
            self.finished + other.finished,
        )


def extent_of(questions: Sequence[AskedQuestion]) -> RunExtent:
    """How far one protocol came with some questions, all rounds of each dialogue among them.

    Of a protocol that promises no number of presentations, a question is finished with its first answer."""
    failed = {
        question.sample.id for question in questions if any(p.error for p in question.predictions)
    }
    return RunExtent(
        len(questions),
        sum(map(_is_begun, questions)),
        sum(question.sample.id in failed or _is_finished(question) for question in questions),
    )


def _is_begun(question: AskedQuestion) -> bool:
    in_steps = question.declaration.conclude is not None and question.before != AT_ONCE
    return in_steps or len(question.predictions) > 0


def _is_finished(question: AskedQuestion) -> bool:
    declared, came = question.declaration, question.predictions
    is_all = len(came) >= declared.n_presentations(question.sample)
    return question.final or is_all or (declared.stops_early and settles(came))


class ScoredBenchmark(Struct, frozen=True, dict=True):
    """All that is known of one benchmark in one run. Most of its records are not in memory but read again each time
    (`snellen.scoring.stored_records`), so keep only what you need while going through them."""

    spec: BenchmarkSpec
    samples: Mapping[str, Sample]
    """By id; their tags are those of their answers too."""
    predictions: Collection[Prediction]
    score_rows: Mapping[RowKey, Collection[Score]]
    answers: Mapping[tuple[str, int], Answer]
    """By sample id and round; empty for hidden answers."""
    tallies: Collection[QuestionCounts] = ()
    """What metrics of the whole counted on each question."""
    published: AsPublished | None = None
    """The rules of its suite's tables, when it was scored by them."""
    golds_absent: bool = False
    """Whether there are answers, but not at hand: a scoring that was kept is shown without them."""

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
        """The scores of one metric, under all protocols or one."""
        for (label, _, name), scores in self.score_rows.items():
            if name == metric and protocol in (None, label):
                yield from scores

    @property
    def chance_accuracy(self) -> float | None:
        """The accuracy of guessing: the mean of 1 / number of options over the questions with options.

        A question that never shows all of its options counts by those that it showed.
        """
        return self._shown[0]

    @property
    def n_with_options(self) -> int:
        """How many of its questions have options."""
        return sum(bool(turn.options) for sample in self.samples.values() for turn in sample.rounds)

    @property
    def labels_shown(self) -> frozenset[tuple[str, ...]]:
        """The labels that options were shown with where a reply was asked for; an empty tuple for none."""
        return self._shown[1]

    @cached_property
    def _shown(self) -> tuple[float | None, frozenset[tuple[str, ...]]]:
        """Both, as going through the predictions takes its time."""
        counts: dict[tuple[str, int], int] = {}
        labels: set[tuple[str, ...]] = set()
        for prediction in self.predictions:
            key, order = (prediction.sample_id, prediction.turn), prediction.variant.order
            counts[key] = max(counts.get(key, 0), len(order))
            if order and prediction.method == "generation":
                labels.add(prediction.variant.labels)
        shares = [
            1 / (counts.get((sample.id, number)) or len(turn.options))
            for sample in self.samples.values()
            for number, turn in enumerate(sample.rounds)
            if turn.options
        ]
        return math.fsum(shares) / len(shares) if shares else None, frozenset(labels)


class ExcludedQuestion(Struct, frozen=True):
    """A question that is left out of a comparison; there is no `reason` for a run that did answer it."""

    benchmark: str
    sample_id: str
    reason: Reason | None
    detail: str = ""


class ScoredRun(Struct, frozen=True):
    """A run with the scores of each of its benchmarks, by one scoring."""

    folder: Path
    manifest: RunManifest
    scoring: ScoringSpec
    reading_stages: tuple[str, ...]
    """What read the replies that the extractor left open, in order, with versions."""
    benchmarks: tuple[ScoredBenchmark, ...]
    asked: int
    """Different requests that were put to models of the run."""
    reused: int
    """Presentations answered by an earlier response to the same request."""
    judges: tuple[JudgeUse, ...] = ()
    roles: tuple[RoleUse, ...] = ()
    """What was asked of each model of the run, with its tokens."""
    extent: RunExtent | None = None
    """How far it came; None of a scoring that was kept before this was noted."""
    costs: tuple[RequestCost, ...] = ()
    """What the answers took, by benchmark and protocol."""
    price: TokenPrice | None = None
    """Of the evaluated model's tokens, where its user says it."""
    left_out: tuple[ExcludedQuestion, ...] | None = None
    """None unless runs are compared on the questions that all of them answered."""
    counterpart: ScoredRun | None = None
    """Of a run scored as published: the same replies by the standard rules."""
    kept_rows: tuple[Result, ...] | None = None
    """Its results as they were kept; None where they are to be computed."""
    kept_in: Path | None = None
    """The folder in which this scoring is kept; None where it is not."""

    def __repr__(self) -> str:
        return object_line(
            self, f"{self.manifest.model} in {self.folder}", benchmarks=len(self.benchmarks)
        )

    @property
    def failed(self) -> int:
        """Those of them that have no reply in the end, however often they were asked."""
        return sum(use.failed for use in self.roles)

    @property
    def convention(self) -> Convention:
        """By whose rules its numbers are."""
        return "as-published" if self.scoring.as_published else "standard"

    def extractor_of(self, benchmark: ScoredBenchmark) -> str:
        """Who read the replies of a benchmark: as published, its suite's own."""
        return benchmark.published.extractor if benchmark.published else self.scoring.extractor

    @property
    def extractors(self) -> tuple[str, ...]:
        """Who read the replies."""
        return tuple(dict.fromkeys(map(self.extractor_of, self.benchmarks))) or (
            self.scoring.extractor,
        )


def unknown_suites(run: ScoredRun) -> Iterator[str]:
    """Which suites of a run are not there to tell what counts alike in its means and what is scored together, each with
    the way out."""
    named = dict.fromkeys(scored.spec.suite for scored in run.benchmarks if scored.spec.suite)
    for suite in (name for name in named if name not in suite_facts()):
        yield (
            f"its suite {suite!r} is not known here, so that its benchmarks count alike and there are no pools, "
            "whatever the suite says; name its folder with --suites (sn.add_suites), or install its package"
        )


def reading_limits(run: ScoredRun, benchmark: ScoredBenchmark) -> list[str]:
    """Why the rules that read a benchmark's replies may not read a right one to what was asked; empty where they do."""
    name = run.extractor_of(benchmark)
    if name.partition("?")[0] not in registry.targets(
        "extractors"
    ):  # kept by a package that is gone
        return []
    limits = (find_extractor(name).limit(labels) for labels in sorted(benchmark.labels_shown))
    return [f"{name} {limit}" for limit in dict.fromkeys(limits) if limit]


_ADDRESS = re.compile(r"@https?://[^?\s]*")


def without_address(model: str) -> str:
    """Return a model string without the address of its server, which is nobody's business in a report."""
    return _ADDRESS.sub("", model)


def model_label(manifest: RunManifest) -> str:
    """Return what a run's model is called: the label that its user gave it, or its name without an address."""
    given = [execution.label for execution in manifest.executed if execution.label]
    return given[-1] if given else without_address(manifest.model)


def run_labels(runs: Sequence[ScoredRun]) -> list[str]:
    """Return what to call each run next to the others: the label of its model.

    If several runs share it, the name of the folder follows (its whole path if several folders share their name, too);
    and `as published` if other runs are not.
    """
    names = [model_label(run.manifest) for run in runs]
    keys = [(name, run.convention) for name, run in zip(names, runs, strict=True)]
    models = Counter(keys)
    folders = Counter((*key, run.folder.name) for key, run in zip(keys, runs, strict=True))
    is_mixed = len({run.convention for run in runs}) > 1
    labels: list[str] = []
    for name, key, run in zip(names, keys, runs, strict=True):
        label = name
        if models[key] > 1:
            is_unique = folders[*key, run.folder.name] == 1
            label += f" ({run.folder.name if is_unique else run.folder})"
        if is_mixed and run.convention != "standard":
            label += " as published"
        labels.append(label)
    return labels


SAME = 1e-12
"""Standard errors below this are zero but for rounding."""
_ESTIMATE = frozenset(Estimate.__struct_fields__)
FIRST = ("model", "benchmark", "metric", "value", "low", "high", "n", "protocol")
"""Columns that stand first, so that a frame's few printed ones have the numbers."""


def flat_row(row: Result, *, is_kept: bool = False) -> dict[str, Any]:
    """Return a result as a flat dict of plain values.

    It has no standard error if all values are the same: they show no spread, although others may differ from them. A
    row that is kept to be read again is as it is.
    """
    fields = {**asdict(row), **asdict(row.estimate)}
    del fields["estimate"]
    estimate = row.estimate
    shows_no_spread = estimate.stderr is not None and estimate.stderr < SAME
    if shows_no_spread and estimate.low != estimate.high and not is_kept:
        fields["stderr"] = None
    return {name: fields[name] for name in dict.fromkeys((*FIRST, *fields))}


def result_of_flat(flat: Mapping[str, Any]) -> Result:
    """The result behind a flat dict. Raises msgspec.ValidationError."""
    estimate = {name: value for name, value in flat.items() if name in _ESTIMATE}
    row = {name: value for name, value in flat.items() if name not in _ESTIMATE}
    return msgspec.convert({**row, "estimate": estimate}, Result)


# --- replies that the length limit ended before they answered, or that say nothing ------------------------------------


NOTEWORTHY = 0.01
"""Of the replies: fewer that were cut while they answered are left to the table of reasons."""


def cut_reply_sentences(scored: ScoredRun) -> Iterator[str]:
    """A line on a run's replies that were cut in their reasoning, and one on those that were cut in their answers."""
    replies = sum(len(benchmark.predictions) for benchmark in scored.benchmarks)
    reasons = Counter(p.reason for benchmark in scored.benchmarks for p in benchmark.predictions)
    model = scored.manifest.model
    if cut := reasons["reasoning cut off"]:
        way_out = _more_reasoning(model) if ":" in model else "raise --max-new-tokens"
        yield (
            f"{cut} of {replies} replies were cut in their reasoning, before any answer; {way_out} (and another --name)"
        )
    if (cut := reasons["cut off"]) > NOTEWORTHY * replies:
        yield (
            f"{cut} of {replies} replies were cut by the length limit before they had answered; raise --max-new-tokens "
            "(and another --name)"
        )


def empty_reply_sentences(scored: ScoredRun) -> Iterator[str]:
    """A line on the replies that say nothing, where there are any, and how many of them call a tool."""
    reasons = Counter(p.reason for benchmark in scored.benchmarks for p in benchmark.predictions)
    calls = reasons["tool call"]
    if empty := reasons["empty"] + calls:
        replies = sum(len(benchmark.predictions) for benchmark in scored.benchmarks)
        way_out = (
            f" (tool calls: {calls:,}; have its server offer the model no tools)" if calls else ""
        )
        yield f"{empty:,} of {replies:,} replies {'is' if empty == 1 else 'are'} empty{way_out}"


FEWEST_WORDS_OF_SENTENCE = 5
MOST_SENTENCES = 0.05
"""The share of replies up to which sentences that a metric compares as a whole are not mentioned."""


def whole_text_sentences(scored: ScoredRun) -> Iterator[str]:
    """A line on each metric that counted replies in sentences as wrong because it compares whole texts."""
    counts: dict[str, Counter[str]] = {}
    for benchmark in scored.benchmarks:
        metrics = {name for _, _, name in benchmark.score_rows if declared(name).whole_text}
        if not metrics:
            continue
        in_sentences = set()
        for prediction in benchmark.predictions:
            if len((prediction.text or "").split()) >= FEWEST_WORDS_OF_SENTENCE:
                in_sentences.add((prediction.sample_id, prediction.turn))
        for name in metrics:
            count = counts.setdefault(name, Counter())
            for score in benchmark.scores_of(name):
                count["scored"] += score.value is not None
                is_sentence = (score.sample_id, score.turn) in in_sentences
                count["lost"] += score.value == 0 and is_sentence
    for name, count in sorted(counts.items()):
        if count["lost"] > MOST_SENTENCES * count["scored"]:
            yield (
                f"{count['lost']:,} of {count['scored']:,} replies scored by {name} are sentences and count as wrong, because "
                "it compares whole texts: ask for a word or a phrase, or add the metric typed_match"
            )


def _more_reasoning(model: str) -> str:
    budget = parse_spec(model).options.get("reasoning_tokens", "")
    more = 2 * int(budget) if budget.isdecimal() and int(budget) else DEFAULT_REASONING_TOKENS
    bare = model.replace(f"reasoning_tokens={budget}", "").rstrip("?&") if budget else model
    return f"give it room to reason: {model_string(bare, reasoning_tokens=more)}"
