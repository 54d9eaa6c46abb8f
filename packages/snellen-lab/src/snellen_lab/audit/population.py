"""The replies that numbers of a run are made of, as they were read, and what each number becomes by labels of some."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from msgspec import Struct

from snellen.plugin_api import (
    CorpusCountMetric,
    Counts,
    Declaration,
    Prediction,
    QuestionCounts,
    ReplyKey,
    Score,
    ScoredBenchmark,
    ScoredRun,
    find_metric,
    is_censored,
    labelled_declaration,
    metric_of,
    shortened,
)
from snellen_lab.audit.estimate import (
    AuditedPart,
    Contribution,
    LabelledQuestion,
    right_each_time,
)

ACCURACY, CIRCULAR = "accuracy", "circular_accuracy"
WORDLESS = "no words"
"""The reading of a reply without words. It means no option, so nobody labels it."""


class Meaning(Struct, frozen=True):
    """What a label says of a drawn reply."""

    choice: int | None
    """The option meant, by identity, or None for none."""
    weight: float
    """How many replies it stands for: 1 / the probability with which it was drawn."""


Meanings = Mapping[ReplyKey, Meaning]


def reply_key(reply: Prediction) -> ReplyKey:
    """What a label is of."""
    return reply.benchmark, reply.protocol, reply.sample_id, reply.variant


def reading_of(reply: Prediction) -> str:
    """How sure the rules are of what they read (`certain`, `likely`); else what read it (`judge`, ...), or `open`."""
    if reply.unparsed_text is not None and not shortened(reply.unparsed_text):
        return WORDLESS
    return reply.confidence or reply.extraction_method or "open"


def _doubt(reading: str) -> tuple[int, str]:
    """Sort key: the reading that is most in doubt comes first."""
    places = {"open": 0, "likely": 2, "certain": 3, WORDLESS: 4}
    return places.get(reading, 1), reading


class AuditedUnit(Struct, frozen=True, gc=False):
    """Replies that are drawn together: one, or all to a question that has to be right each time."""

    question: tuple[str, int]
    replies: tuple[Prediction, ...]
    share: float
    """How much of its question it is."""

    @property
    def reading(self) -> str:
        """That of the reply most in doubt."""
        return min(map(reading_of, self.replies), key=_doubt)

    @property
    def to_label(self) -> list[Prediction]:
        return [reply for reply in self.replies if reading_of(reply) != WORDLESS]

    def meanings(self, meanings: Meanings) -> list[int | None] | None:
        """What each reply means; None unless all of them are labelled."""
        wordless = Meaning(None, 1.0)
        said = [
            wordless if reading_of(r) == WORDLESS else meanings.get(reply_key(r))
            for r in self.replies
        ]
        return [meaning.choice for meaning in said if meaning] if all(said) else None

    def weight(self, meanings: Meanings) -> float:
        """How many units it stands for; 0 without a label."""
        return next(
            (
                meaning.weight
                for reply in self.to_label
                if (meaning := meanings.get(reply_key(reply)))
            ),
            0.0,
        )


class AuditedProtocol(Struct, frozen=True, dict=True):
    """The replies of a benchmark under a protocol that its accuracies are made of."""

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
        """The questions with an accuracy."""
        return [s for s in _scores(self.scored, self.protocol, ACCURACY) if s.value is not None]

    @cached_property
    def units(self) -> list[AuditedUnit]:
        """Single replies; all of a question under a protocol that asks for all to be right."""
        presentations = {
            (score.sample_id, score.turn): score.n_presentations for score in self.scores
        }
        together = not why_not_audited(self.scored, self.protocol, CIRCULAR)
        by_question: dict[tuple[str, int], list[Prediction]] = defaultdict(list)
        for reply in self.scored.predictions:
            question = reply.sample_id, reply.turn
            is_asked = (
                reply.protocol == self.protocol
                and reply.error is None
                and question in presentations
            )
            if is_asked and (together or self.declaration.is_unbiased(reply.variant)):
                by_question[question].append(reply)
        if together:
            return [
                AuditedUnit(
                    question, tuple(sorted(replies, key=lambda reply: reply.variant.test)), 1.0
                )
                for question, replies in by_question.items()
            ]
        return [
            AuditedUnit(question, (reply,), 1 / presentations[question])
            for question, replies in by_question.items()
            for reply in replies
        ]

    def part(self, metric: str, meanings: Meanings) -> AuditedPart | None:
        """One of its numbers with what these labels say of it; None where it has no value to correct."""
        if metric not in (ACCURACY, CIRCULAR) and not isinstance(
            metric_of(metric), CorpusCountMetric
        ):
            return None
        if why_not_audited(self.scored, self.protocol, metric):
            return None
        if metric == CIRCULAR:
            return self._circular(meanings)
        return self._accuracy(meanings) if metric == ACCURACY else self._summed(metric, meanings)

    def _groups(self, questions: Sequence[tuple[str, int]]) -> list[str]:
        return [self.scored.samples[sample_id].group for sample_id, _ in questions]

    def _of_replies(
        self,
        questions: Sequence[tuple[str, int]],
        meanings: Meanings,
        count: Callable[[tuple[str, int], int | None], Counts],
        *cell: str,
    ) -> Iterator[Contribution]:
        """What each unbiased reply counts. `count` says what a question counts where that option is meant."""
        places = {question: place for place, question in enumerate(questions)}
        possible: dict[tuple[str, int], tuple[Counts, ...]] = {}
        for unit in self.units:
            if (place := places.get(unit.question)) is None:
                continue
            if unit.question not in possible:
                sample_id, turn = unit.question
                options = range(len(self.scored.samples[sample_id].rounds[turn].options))
                counts = (count(unit.question, choice) for choice in (None, *options))
                possible[unit.question] = tuple(dict.fromkeys(counts))
            for reply in unit.replies:
                if self.declaration.is_unbiased(reply.variant):
                    meaning, reading = meanings.get(reply_key(reply)), reading_of(reply)
                    counted = count(unit.question, reply.choice)
                    truth = count(unit.question, meaning.choice) if meaning else ()
                    yield Contribution(
                        place,
                        (*cell, reading, counted),
                        counted,
                        reply_key(reply),
                        unit.share,
                        meaning.weight if meaning else 0.0,
                        truth,
                        possible[unit.question],
                        reading == WORDLESS,
                    )

    def _accuracy(self, meanings: Meanings) -> AuditedPart | None:
        questions = [(score.sample_id, score.turn) for score in self.scores]
        given = self._of_replies(questions, meanings, self._is_right, ACCURACY)
        counts = [(score.value or 0.0,) for score in self.scores]
        return AuditedPart(self._groups(questions), counts, list(given)) if questions else None

    def _is_right(self, question: tuple[str, int], choice: int | None) -> Counts:
        return (float(choice in self.scored.answers[question].options),)

    def _summed(self, metric: str, meanings: Meanings) -> AuditedPart | None:
        """A number that follows from sums, as POPE's F1."""
        declaring, tallies = metric_of(metric), _tallies(self.scored, self.protocol, metric)
        if not isinstance(declaring, CorpusCountMetric) or not tallies:
            return None
        row, questions = (
            declaring.names.index(metric),
            [(tally.sample_id, tally.turn) for tally in tallies],
        )
        count = partial(_counted_choice, self.scored, declaring)
        given = self._of_replies(questions, meanings, count, metric, self.benchmark, self.protocol)
        counts = [tally.counts for tally in tallies]
        return AuditedPart(
            self._groups(questions),
            counts,
            list(given),
            lambda sums: declaring.compute(sums)[row],
            declaring.rows[row].bounds,
        )

    def _circular(self, meanings: Meanings) -> AuditedPart | None:
        scores = [s for s in _scores(self.scored, self.protocol, CIRCULAR) if s.value is not None]
        values = {(score.sample_id, score.turn): score.value or 0.0 for score in scores}
        units = [unit for unit in self.units if unit.question in values]
        cells = {
            unit.question: (CIRCULAR, unit.reading, (values[unit.question],)) for unit in units
        }
        # A question with a reply without words is not right, and need not be labelled.
        open_units = [unit for unit in units if len(unit.to_label) == len(unit.replies)]
        sizes: Counter[Hashable] = Counter(cells[unit.question] for unit in open_units)
        labelled = {
            unit.question: self._labelled(
                unit, choices, cells[unit.question], unit.weight(meanings)
            )
            for unit in open_units
            if (choices := unit.meanings(meanings)) is not None
        }
        values_in_truth = right_each_time(list(labelled.values()), sizes)
        if values_in_truth is None:
            return None
        truths = dict(zip(labelled, values_in_truth, strict=True))
        settled = {unit.question for unit in units} - {unit.question for unit in open_units}
        given = [
            Contribution(
                place,
                cells[question],
                (values[question],),
                question,
                1.0,
                labelled[question].weight if question in labelled else 0.0,
                (truths[question],) if question in truths else (),
                is_settled=question in settled,
            )
            for place, question in enumerate(values)
        ]
        return (
            AuditedPart(self._groups(list(values)), [(value,) for value in values.values()], given)
            if given
            else None
        )

    def _labelled(
        self, unit: AuditedUnit, choices: Sequence[int | None], cell: Hashable, weight: float
    ) -> LabelledQuestion:
        """Two right options in turn are not right: the passes disagree."""
        golds = self.scored.answers[unit.question].options
        right = [choice in golds and choice == choices[0] for choice in choices]
        promised = self.declaration.n_presentations(self.scored.samples[unit.question[0]])
        return LabelledQuestion(cell, weight, right, promised)


def _counted_choice(
    scored: ScoredBenchmark,
    metric: CorpusCountMetric,
    question: tuple[str, int],
    choice: int | None,
) -> Counts:
    sample_id, turn = question
    options, golds = (
        scored.samples[sample_id].rounds[turn].options,
        scored.answers[question].options,
    )
    [counts] = metric.count(
        ["" if choice is None else options[choice]], [[options[gold] for gold in golds]]
    )
    return tuple(map(float, counts)) if not isinstance(counts, str) else ()


def _scores(scored: ScoredBenchmark, protocol: str, metric: str) -> list[Score]:
    return list(scored.score_rows.get((protocol, "generation", metric), ()))


def _tallies(scored: ScoredBenchmark, protocol: str, metric: str) -> list[QuestionCounts]:
    """What a metric of the whole counted on each question with options."""
    names = {tally.metric for tally in scored.tallies if tally.protocol == protocol}
    own = {name for name in names if metric in find_metric(name).names}
    return [t for t in scored.tallies if t.protocol == protocol and t.metric in own and t.counts]


def why_not_audited(scored: ScoredBenchmark, protocol: str, metric: str) -> str:
    """Why labels of replies cannot correct a number; empty where they can."""
    if labelled_declaration(protocol).conclude:
        return "its answer follows from several steps, and no reply says it alone"
    if scored.golds_absent:
        return "the answers are not here"
    if is_censored(_scores(scored, protocol, ACCURACY)):
        return "rounds broke off, so that it is no plain mean over replies"
    if metric == CIRCULAR and is_censored(_scores(scored, protocol, CIRCULAR)):
        return "requests failed, or it was stopped, so that it is no plain mean over questions"
    if metric in (ACCURACY, CIRCULAR):
        return (
            "" if (protocol, "generation", metric) in scored.score_rows else "it was not asked for"
        )
    declaring = metric_of(metric)
    tallies = _tallies(scored, protocol, metric) if isinstance(declaring, CorpusCountMetric) else []
    if tallies and all(
        scored.samples[tally.sample_id].rounds[tally.turn].options for tally in tallies
    ):
        return ""
    return REASONS.get(declaring.computed_over if declaring else "derived", FREE_TEXT)


FREE_TEXT = "free text is scored as it stands: no rule reads an option in it"
REASONS = {
    "groups": "it takes all replies about a picture together, and single ones are drawn",
    "judge": "a judge read the replies: `snellen agree --judge` compares it with people",
    "ratings": "people gave it",
    "choices": "it is about how replies vary and are worded, as they were read",
    "derived": "not all numbers that it is made of can be corrected",
}


def audited_protocols(run: ScoredRun) -> Iterator[AuditedProtocol]:
    """What labels of single replies can correct in a run."""
    for scored in run.benchmarks:
        for protocol, method, metric in scored.score_rows:
            if (
                metric == ACCURACY
                and method == "generation"
                and not why_not_audited(scored, protocol, ACCURACY)
            ):
                audited = AuditedProtocol(scored, protocol)
                if audited.scores:
                    yield audited
