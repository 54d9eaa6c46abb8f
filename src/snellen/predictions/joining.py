"""Which question of a built benchmark a row is of: found by its id or its text, and checked by all that the row has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath

from snellen.benchmark import Benchmark
from snellen.predictions.placed import Key, PlacedRow
from snellen.predictions.rows import Findings, PredictedRow, count_named, name_of
from snellen.predictions.texts import folded, places_of
from snellen.records import Sample
from snellen.scoring.answers import open_answers


class QuestionFinder:
    """Finds the question of each row among those of a benchmark, or says in `findings` why it has none."""

    def __init__(self, benchmark: Benchmark, findings: Findings) -> None:
        self.samples = {sample.id: sample for sample in benchmark.samples()}
        self._findings = findings
        self._answers = open_answers(benchmark.folder)
        self._by_text: dict[str, dict[Key, None]] = defaultdict(dict)
        self._by_text_and_options: dict[tuple[str, frozenset[str]], dict[Key, None]] = defaultdict(dict)
        self._option_sets: Counter[frozenset[str]] = Counter()
        for sample in self.samples.values():
            for turn, question in enumerate(sample.rounds):
                options = frozenset(map(folded, question.options))
                self._option_sets[options] += 1
                for text in _wordings(sample, turn):
                    self._by_text[text][sample.id, turn] = None
                    self._by_text_and_options[text, options][sample.id, turn] = None
        self._lines = {text.count("\n") + 1 for text in self._questions()}
        self._indexes = {row.index: name for name, origin in benchmark.origins().items() for row in origin.rows}

    def _questions(self) -> Iterator[str]:
        for sample in self.samples.values():
            yield from (question.question.strip() for question in sample.rounds)

    def place(self, row: PredictedRow) -> PlacedRow | None:
        """The row with its question and the order of its options; None, which is noted, where it has none."""
        key, fault = self._by_id(row)
        if key is None and (by_text := self._by_question(row)):
            if len(by_text) == 1:
                key, fault = by_text[0], ""
                self._findings.add("rows joined by the text of their question, as no id is theirs", name_of(row))
            else:
                fault = "whose question several samples share, so that only an id can tell which is theirs"
        if key is None or fault:
            self._findings.add(f"rows left out, {fault}", name_of(row))
            return None
        return self._placed(row, key)

    def _by_id(self, row: PredictedRow) -> tuple[Key | None, str]:
        """The question with the row's id if all else agrees, and why it is not that."""
        name = row.id if row.id in self.samples else self._indexes.get(row.id, "")
        if not name and (name := self._by_picture(row)):
            self._findings.add("rows joined by the name of their picture, as no id is theirs", name_of(row))
        if not name:
            missing = "with an id that is not among the questions" if row.id else "without an id or a known question"
            return None, missing
        sample = self.samples[name]
        turn = row.turn or 0
        if turn >= len(sample.rounds):
            return None, f"of a round that their dialogue does not have (it has {len(sample.rounds)})"
        return self._checked(row, (name, turn))

    def _by_picture(self, row: PredictedRow) -> str:
        """The sample that is called by the row's picture: by as much of the end of its path as can be."""
        parts = PurePosixPath(row.picture).parts
        ends = ["/".join(parts[first:]) for first in range(len(parts))]
        names = [name for end in ends for name in (end, str(PurePosixPath(end).with_suffix("")))]
        return next((name for name in names if name in self.samples), "")

    def _checked(self, row: PredictedRow, key: Key) -> tuple[Key | None, str]:
        sample, turn = self.samples[key[0]], key[1]
        options = sample.rounds[turn].options
        if row.method == "likelihood" and not options:
            return None, "with likelihoods, of an open question"
        if row.options and not options:
            return None, "with options, of an open question"
        if row.options and not _same_options(row, options):
            return None, "with other options than their question has"
        if row.scores and len(row.scores) != len(row.options or options):
            return None, "whose scores are not one for each option"
        if row.chosen is not None and not 0 <= row.chosen < len(row.options or options):
            return None, "whose prediction is none of their options"
        if not (row.question or row.prompt):
            if not row.options:
                self._findings.add("rows joined by their id alone, as they have nothing to check it by", name_of(row))
            return key, ""
        own = _wordings(sample, turn)
        if any(text in own for text in self._texts(row)) or self._identified(row, key):
            return key, ""
        return None, "with the id of a question but the text of another"

    def _identified(self, row: PredictedRow, key: Key) -> bool:
        """Whether a row that words its question otherwise has options or references that no other question has."""
        if row.options:
            return self._option_sets[frozenset(map(folded, row.options))] == 1
        answer = self._answers.get(key)
        return bool(row.references) and answer is not None and set(row.references) == set(answer.texts)

    def _by_question(self, row: PredictedRow) -> list[Key]:
        """The questions whose text and options the row has; of several, two."""
        options = frozenset(map(folded, row.options))
        keys: dict[Key, None] = {}
        for text in self._texts(row):
            known = self._by_text_and_options.get((text, options), {}) if options else self._by_text.get(text, {})
            keys.update(dict.fromkeys(islice((key for key in known if self._agrees(row, key)), 2)))
            if len(keys) > 1:
                break
        return list(keys)[:2]

    def _texts(self, row: PredictedRow) -> Iterator[str]:
        """The row's question; of a prompt, each stretch of lines that is as long as some question."""
        if row.question:
            yield folded(row.question)
            return
        lines = row.prompt.strip().splitlines()
        for count in self._lines:
            for first in range(len(lines) - count + 1):
                yield folded("\n".join(lines[first : first + count]))

    def _agrees(self, row: PredictedRow, key: Key) -> bool:
        sample, turn = self.samples[key[0]], key[1]
        question = sample.rounds[turn]
        if row.turn is not None and row.turn != turn:
            return False
        if row.options:
            return _same_options(row, question.options)
        shown = folded(row.prompt)
        return not shown or row.method == "likelihood" or all(folded(option) in shown for option in question.options)

    def _placed(self, row: PredictedRow, key: Key) -> PlacedRow:
        sample, turn = self.samples[key[0]], key[1]
        question = sample.rounds[turn]
        order = places_of(row.options, question.options) if row.options else tuple(range(len(question.options)))
        self._check_gold(row, key, order or ())
        wordings = _wordings(sample, turn)
        asked = folded(row.question)
        return PlacedRow(row, sample.id, turn, order or (), wordings.index(asked) if asked in wordings else 0)

    def _check_gold(self, row: PredictedRow, key: Key, order: Sequence[int]) -> None:
        answer = self._answers.get(key)
        if answer is None:
            return
        golds = {order[place] for place in row.gold if place < len(order)}
        differs = golds and golds != set(answer.options)
        if differs or (row.references and answer.texts and set(row.references) != set(answer.texts)):
            self._findings.add("rows whose file has another right answer; the benchmark's counts", name_of(row))


def _wordings(sample: Sample, turn: int) -> list[str]:
    """The folded texts of a question, the original first."""
    return [folded(text) for text in (sample.rounds[turn].question, *(sample.rewordings if not turn else ()))]


def _same_options(row: PredictedRow, options: Sequence[str]) -> bool:
    return len(row.options) == len(options) and places_of(row.options, options) is not None


def absent_questions(samples: Sequence[Sample], placed: Sequence[PlacedRow]) -> list[str]:
    """How many rows there are of how many questions, and which questions have none."""
    keys = {row.key for row in placed}
    all_keys = [(sample.id, turn) for sample in samples for turn in range(len(sample.rounds))]
    lost = [f"{name} round {turn}" if turn else name for name, turn in all_keys if (name, turn) not in keys]
    notes = [f"{len(placed):,} rows of {len(keys):,} questions"]
    if lost:
        notes.append(f"questions of {len(all_keys):,} without any row: {count_named(lost)}")
    return notes
