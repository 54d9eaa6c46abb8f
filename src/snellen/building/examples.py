"""Questions that are set apart as examples, to be shown with their answers before others."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import asdict

from snellen.building.checking import Question
from snellen.catalogue import BenchmarkSpec
from snellen.common.conditions import Condition
from snellen.common.drafts import Draft
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import Example

ALL = "all"


class ExampleDrawer:
    """Lets the questions of a stream pass, except those that are set apart, which are in `questions` when the stream
    has ended.

    `which` is a number, a condition on tags, or `all`. Of a number the first pictures in a random order are taken whole
    until there are as many questions with a known answer. Raises DataError for what is none of these.
    """

    def __init__(self, choice: str, spec: BenchmarkSpec, seed: int) -> None:
        self.questions: list[Question] = []
        self._which, self._spec, self._seed = choice.strip(), spec, seed
        self._count = int(self._which) if self._which.isdecimal() else None
        if self._count == 0:
            raise DataError("--examples 0 sets nothing apart; leave it out, or give a number from 1 up")
        is_condition = self._count is None and self._which not in ("", ALL)
        self._condition = Condition(self._which, flag="--examples") if is_condition else None

    def without_examples(self, questions: Iterable[Question]) -> Iterator[Question]:
        """The questions that are not set apart."""
        if self._count is not None:
            yield from self._first_pictures(questions, self._count)
        else:
            for question in questions:
                if self._is_example(question[0]):
                    self.questions.append(question)
                else:
                    yield question
        if self._which and not self.questions:
            raise DataError(f"{self._spec.name}: no question fits --examples {self._which!r}")

    def _is_example(self, draft: Draft) -> bool:
        if self._condition is not None:
            return self._condition.holds({**self._spec.facts(), **draft.tags, **draft.answer_tags})
        return self._which == ALL

    def _first_pictures(self, questions: Iterable[Question], count: int) -> Iterator[Question]:
        """All questions but those about the first pictures in a random order that have `count` of them together."""
        chosen: dict[str, list[Question]] = defaultdict(list)
        latest: list[tuple[float, str]] = []
        total, limit = 0, 1.0
        for question in questions:
            _, sample, golds = question
            group = sample.group
            place = rng_for(self._spec.name, group, "examples", self._seed).random()
            if place >= limit or not golds:
                yield question
                continue
            if group not in chosen:
                heapq.heappush(latest, (-place, group))
            chosen[group].append(question)
            total += 1
            while total - len(chosen[latest[0][1]]) >= count:
                negative_place, last = heapq.heappop(latest)
                limit = -negative_place
                total -= len(chosen[last])
                yield from chosen.pop(last)
        if total < count:
            raise DataError(
                f"{self._spec.name}: only {total} questions have a known answer, so {count} cannot be set apart as "
                "examples; give a smaller number, or `all` for a benchmark of examples alone"
            )
        self.questions = [question for _, group in sorted(latest, reverse=True) for question in chosen[group]]

    def examples(self) -> Iterator[Example]:
        """The questions set apart, with their answers. Raises DataError for a dialogue, and for a hidden answer."""
        for draft, sample, golds in self.questions:
            if sample.turns:
                raise DataError(f"{draft.where}: a dialogue cannot be an example; set apart questions of one round")
            if not golds:
                raise DataError(f"{draft.where}: the answer is hidden, so the question cannot be an example")
            [gold] = golds
            yield Example(**asdict(sample), gold=gold.options, texts=gold.texts)
