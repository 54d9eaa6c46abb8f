"""The replies behind the numbers of a run: how each was read, and how some were labelled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from msgspec import Struct

from snellen.plugin_api import (
    CorpusCountMetric,
    Declaration,
    Prediction,
    QuestionCounts,
    Score,
    ScoredBenchmark,
    ScoredRun,
    Variant,
    find_metric,
    labelled_declaration,
    metric_of,
    shortened,
)
from snellen_lab.audit.estimate import AuditedPart, Contribution, Counts
from snellen_lab.audit.right_each_time import LabelledQuestion, right_each_time

ACCURACY = "accuracy"
CIRCULAR = "circular_accuracy"
WORDLESS = "no words"
"""The reading of a reply without words. It names no option, and needs no label."""
Question = tuple[str, int]
"""The identifier of a sample and the index of one of its rounds."""


class Meaning(Struct, frozen=True):
    """What a drawn reply means according to its label."""

    choice: int | None
    """Index of the option that the reply names, before options were shuffled; None for none."""
    weight: float
    """How many replies it represents: 1 / the probability with which it was drawn."""


ReplyKey = tuple[str, str, str, Variant]
"""Benchmark, protocol, sample and presentation of a reply."""
Meanings = Mapping[ReplyKey, Meaning]


def reply_key(reply: Prediction) -> ReplyKey:
    """Return the key by which labels refer to a reply."""
    return reply.benchmark, reply.protocol, reply.sample_id, reply.variant


def reading_of(reply: Prediction) -> str:
    """Return how sure the reading of a reply is, as a word.

    This is the confidence of the rules (`certain`, `likely`). For a reply that the rules could not
    read, it is what read it (such as `judge`), `open` if nothing could, or `WORDLESS` if it has no
    words.
    """
    if reply.unparsed_text is not None and not shortened(reply.unparsed_text):
        return WORDLESS
    return reply.confidence or reply.extraction_method or "open"


def _doubt_order(reading: str) -> tuple[int, str]:
    """Return a sort key for readings, from the most to the least doubtful.

    The order is `open` (not read), read by a judge or otherwise, `likely`, `certain`, `WORDLESS`.
    """
    ranks = {"open": 0, "likely": 2, "certain": 3, WORDLESS: 4}
    return ranks.get(reading, 1), reading


class AuditedUnit(Struct, frozen=True, gc=False):
    """Replies that are drawn together.

    This is a single reply or, if a question is only right when all its replies are, all of these.
    """

    question: Question
    replies: tuple[Prediction, ...]
    share: float
    """Share of its question."""

    @property
    def reading(self) -> str:
        """Return the most doubtful of the readings of its replies."""
        return min(map(reading_of, self.replies), key=_doubt_order)

    @property
    def to_label(self) -> list[Prediction]:
        """Return the replies that a person must label: all except those without words."""
        return [reply for reply in self.replies if reading_of(reply) != WORDLESS]

    def choices(self, meanings: Meanings) -> list[int | None] | None:
        """Return the option that each reply names by its label (None for no option).

        None is returned in place of the list unless all replies that need a label have one.
        """
        choices: list[int | None] = []
        for reply in self.replies:
            if reading_of(reply) == WORDLESS:
                choices.append(None)
                continue
            meaning = meanings.get(reply_key(reply))
            if meaning is None:
                return None
            choices.append(meaning.choice)
        return choices

    def weight(self, meanings: Meanings) -> float:
        """Return how many units this one represents; 0 if it has no label.

        The weight is 1 / the probability with which the unit was drawn.
        """
        for reply in self.to_label:
            meaning = meanings.get(reply_key(reply))
            if meaning is not None:
                return meaning.weight
        return 0.0


class AuditedProtocol(Struct, frozen=True, dict=True):
    """The replies to a benchmark under one protocol, such as `circular`."""

    scored: ScoredBenchmark
    protocol: str

    @property
    def benchmark(self) -> str:
        return self.scored.spec.name

    @property
    def declaration(self) -> Declaration:
        return labelled_declaration(self.protocol)

    @cached_property
    def scores(self) -> list[Score]:
        """Return the accuracy scores of all questions that have one."""
        return [
            score
            for score in _scores(self.scored, self.protocol, ACCURACY)
            if score.value is not None
        ]

    @cached_property
    def units(self) -> list[AuditedUnit]:
        """Return the units of the draw.

        These are single replies, or all replies to a question if the protocol requires all to be
        right.
        """
        n_presentations: dict[Question, int] = {}
        for score in self.scores:
            n_presentations[score.sample_id, score.turn] = score.n_presentations
        draws_questions = not why_not_audited(self.scored, self.protocol, CIRCULAR)

        replies_by_question: dict[Question, list[Prediction]] = defaultdict(list)
        for reply in self.scored.predictions:
            question = (reply.sample_id, reply.turn)
            if reply.protocol != self.protocol or reply.error is not None:
                continue
            if question not in n_presentations:
                continue
            if draws_questions or self.declaration.is_unbiased(reply.variant):
                replies_by_question[question].append(reply)

        units = []
        for question, replies in replies_by_question.items():
            if draws_questions:
                in_order = tuple(sorted(replies, key=lambda reply: reply.variant.test))
                units.append(AuditedUnit(question, in_order, 1.0))
            else:
                share = 1 / n_presentations[question]
                units.extend(AuditedUnit(question, (reply,), share) for reply in replies)
        return units

    def part(self, metric: str, meanings: Meanings) -> AuditedPart | None:
        """Return the replies behind a number, with their labels; None if labels cannot correct it."""
        is_corpus_count = isinstance(metric_of(metric), CorpusCountMetric)
        if metric not in (ACCURACY, CIRCULAR) and not is_corpus_count:
            return None
        if why_not_audited(self.scored, self.protocol, metric):
            return None
        if metric == CIRCULAR:
            return self._circular_part(meanings)
        if metric == ACCURACY:
            return self._accuracy_part(meanings)
        return self._corpus_part(metric, meanings)

    def _groups(self, questions: Sequence[Question]) -> list[str]:
        """Return the group of each question; questions about one image share a group."""
        return [self.scored.samples[sample_id].group for sample_id, _ in questions]

    def _contributions(
        self,
        questions: Sequence[Question],
        meanings: Meanings,
        count: Callable[[Question, int | None], Counts],
        *cell: str,
    ) -> Iterator[Contribution]:
        """Yield what each reply contributes to a number, as read and, if it has a label, in truth.

        Presentations that do not count in the plain (vanilla) accuracy are left out.

        Args:
            questions: The questions of the number, in order.
            meanings: The labels.
            count: Function from a question and the option that a reply names to what the metric
                counts.
            cell: The first elements of the keys of cells.
        """
        indexes = {question: index for index, question in enumerate(questions)}
        possible_by_question: dict[Question, tuple[Counts, ...]] = {}
        for unit in self.units:
            index = indexes.get(unit.question)
            if index is None:
                continue
            if unit.question not in possible_by_question:
                sample_id, turn = unit.question
                n_options = len(self.scored.samples[sample_id].rounds[turn].options)
                possible_choices = (None, *range(n_options))  # None if the reply names no option
                possible = [count(unit.question, choice) for choice in possible_choices]
                possible_by_question[unit.question] = tuple(dict.fromkeys(possible))
            for reply in unit.replies:
                if not self.declaration.is_unbiased(reply.variant):
                    continue
                reading = reading_of(reply)
                counted = count(unit.question, reply.choice)
                meaning = meanings.get(reply_key(reply))
                weight = 0.0
                truth: Counts = ()
                if meaning is not None:
                    weight = meaning.weight
                    truth = count(unit.question, meaning.choice)
                yield Contribution(
                    question=index,
                    cell=(*cell, reading, counted),
                    counted=counted,
                    unit=reply_key(reply),
                    share=unit.share,
                    weight=weight,
                    truth=truth,
                    possible=possible_by_question[unit.question],
                    is_settled=reading == WORDLESS,
                )

    def _accuracy_part(self, meanings: Meanings) -> AuditedPart | None:
        """Return the replies behind the accuracy of this protocol; None if it has no questions."""
        questions = [(score.sample_id, score.turn) for score in self.scores]
        if not questions:
            return None
        contributions = list(self._contributions(questions, meanings, self._is_right, ACCURACY))
        counts = [(score.value or 0.0,) for score in self.scores]
        return AuditedPart(self._groups(questions), counts, contributions)

    def _is_right(self, question: Question, choice: int | None) -> Counts:
        """Return (1.0,) if an option is a correct answer to a question, else (0.0,)."""
        return (float(choice in self.scored.answers[question].options),)

    def _corpus_part(self, metric: str, meanings: Meanings) -> AuditedPart | None:
        """Return the replies behind a number that is computed from sums, such as POPE's F1.

        None is returned if the metric is none of these, or has counted nothing.
        """
        corpus_metric = metric_of(metric)
        tallies = _tallies(self.scored, self.protocol, metric)
        if not isinstance(corpus_metric, CorpusCountMetric) or not tallies:
            return None
        row = corpus_metric.names.index(metric)
        questions = [(tally.sample_id, tally.turn) for tally in tallies]
        count = partial(_counted_choice, self.scored, corpus_metric)
        contributions = self._contributions(
            questions, meanings, count, metric, self.benchmark, self.protocol
        )
        return AuditedPart(
            self._groups(questions),
            [tally.counts for tally in tallies],
            list(contributions),
            lambda sums: corpus_metric.compute(sums)[row],
            corpus_metric.rows[row].bounds,
        )

    def _circular_part(self, meanings: Meanings) -> AuditedPart | None:
        """Return the replies behind a number for which all replies to a question have to be right.

        None is returned if there are too few labels (`right_each_time`) or no questions.
        """
        values: dict[Question, float] = {}
        for score in _scores(self.scored, self.protocol, CIRCULAR):
            if score.value is not None:
                values[score.sample_id, score.turn] = score.value

        cells: dict[Question, Hashable] = {}
        labelled: dict[Question, LabelledQuestion] = {}
        settled: set[Question] = set()
        n_open_in_cell: Counter[Hashable] = Counter()
        for unit in self.units:
            if unit.question not in values:
                continue
            cell = (CIRCULAR, unit.reading, (values[unit.question],))
            cells[unit.question] = cell
            # A reply without words is wrong for certain. So the question is not right, and needs no label.
            if len(unit.to_label) < len(unit.replies):
                settled.add(unit.question)
                continue
            n_open_in_cell[cell] += 1
            choices = unit.choices(meanings)
            if choices is not None:
                weight = unit.weight(meanings)
                labelled[unit.question] = self._labelled_question(unit, choices, cell, weight)

        truths = right_each_time(list(labelled.values()), n_open_in_cell)
        if truths is None or not values:
            return None
        truth_by_question = dict(zip(labelled, truths, strict=True))
        contributions = []
        for index, (question, value) in enumerate(values.items()):
            weight = 0.0
            truth: Counts = ()
            if question in labelled:
                weight = labelled[question].weight
                truth = (truth_by_question[question],)
            contributions.append(
                Contribution(
                    question=index,
                    cell=cells[question],
                    counted=(value,),
                    unit=question,
                    share=1.0,
                    weight=weight,
                    truth=truth,
                    is_settled=question in settled,
                )
            )
        counts = [(value,) for value in values.values()]
        return AuditedPart(self._groups(list(values)), counts, contributions)

    def _labelled_question(
        self, unit: AuditedUnit, choices: Sequence[int | None], cell: Hashable, weight: float
    ) -> LabelledQuestion:
        """Return a question that was asked several times, with whether each reply is correct by its label.

        A reply is correct if it names a correct option, and the same one as the first reply.

        Args:
            unit: The question with its replies.
            choices: The option that each reply names by its label; None for none.
            cell: Key of its reading cell.
            weight: How many questions it represents.
        """
        correct_options = self.scored.answers[unit.question].options
        is_correct = []
        for choice in choices:
            is_correct.append(choice in correct_options and choice == choices[0])
        sample_id, _ = unit.question
        n_presentations = self.declaration.n_presentations(self.scored.samples[sample_id])
        return LabelledQuestion(cell, weight, is_correct, n_presentations)


def _counted_choice(
    scored: ScoredBenchmark,
    metric: CorpusCountMetric,
    question: Question,
    choice: int | None,
) -> Counts:
    """Return what a metric counts for a reply that names an option, such as one true positive.

    Args:
        scored: The benchmark.
        metric: The metric.
        question: The question.
        choice: Index of the option that the reply names; None if it names none.

    Returns:
        The counts; empty if the metric does not count such a reply.
    """
    sample_id, turn = question
    options = scored.samples[sample_id].rounds[turn].options
    references = [options[index] for index in scored.answers[question].options]
    reply = "" if choice is None else options[choice]
    counts = metric.count([reply], [references])[0]
    if isinstance(counts, str):
        return ()
    return tuple(float(count) for count in counts)


def _is_cut_short(scores: Sequence[Score]) -> bool:
    """Return whether a series of requests, such as a dialogue, broke off before its end."""
    return any(score.broken for score in scores)


def _scores(scored: ScoredBenchmark, protocol: str, metric: str) -> list[Score]:
    """Return the scores by one metric of all questions that were answered by generation."""
    return list(scored.score_rows.get((protocol, "generation", metric), ()))


def _tallies(scored: ScoredBenchmark, protocol: str, metric: str) -> list[QuestionCounts]:
    """Return what a corpus metric, such as POPE's F1, counted on each question under one protocol.

    Args:
        scored: The benchmark.
        protocol: The protocol.
        metric: Name of one of the numbers that the metric computes.
    """
    # A benchmark may have many thousand tallies of few metrics, so each metric is looked up once.
    has_row: dict[str, bool] = {}
    tallies = []
    for tally in scored.tallies:
        if tally.protocol != protocol or not tally.counts:
            continue
        if tally.metric not in has_row:
            has_row[tally.metric] = metric in find_metric(tally.metric).names
        if has_row[tally.metric]:
            tallies.append(tally)
    return tallies


FREE_TEXT = "free text is scored without reading an option from it"
REASONS = {
    "groups": "it combines all replies about an image, but the audit draws single replies",
    "judge": "a judge read the replies: `snellen agree --judge` compares it with people",
    "ratings": "people gave it",
    "choices": "it describes how replies vary, not whether they are correct",
    "derived": "not all of its parts can be corrected",
}
"""Why metrics cannot be corrected, by what they are computed over."""


def why_not_audited(scored: ScoredBenchmark, protocol: str, metric: str) -> str:
    """Return why labels of replies cannot correct a number; "" if they can."""
    if labelled_declaration(protocol).conclude:
        return "its answer follows from several steps, and no single reply states it"
    if scored.answers_missing:
        return "the answers are not available"
    if _is_cut_short(_scores(scored, protocol, ACCURACY)):
        return "some dialogues stopped early, so it is not a plain mean over replies"
    if metric == CIRCULAR and _is_cut_short(_scores(scored, protocol, CIRCULAR)):
        return (
            "some requests failed or the run was stopped, so it is not a plain mean over questions"
        )
    if metric in (ACCURACY, CIRCULAR):
        if (protocol, "generation", metric) in scored.score_rows:
            return ""
        return "it was not requested"

    declaring_metric = metric_of(metric)
    if declaring_metric is None:
        return REASONS["derived"]
    if isinstance(declaring_metric, CorpusCountMetric):
        tallies = _tallies(scored, protocol, metric)
        if tallies and all(_has_options(scored, tally) for tally in tallies):
            return ""
    return REASONS.get(declaring_metric.computed_over, FREE_TEXT)


def _has_options(scored: ScoredBenchmark, tally: QuestionCounts) -> bool:
    return bool(scored.samples[tally.sample_id].rounds[tally.turn].options)


def audited_protocols(run: ScoredRun) -> Iterator[AuditedProtocol]:
    """Yield each pair of a benchmark and a protocol of a run whose accuracy labels can correct."""
    for scored in run.benchmarks:
        for protocol, method, metric in scored.score_rows:
            if metric != ACCURACY or method != "generation":
                continue
            if why_not_audited(scored, protocol, ACCURACY):
                continue
            audited = AuditedProtocol(scored, protocol)
            if audited.scores:
                yield audited
