"""How far a run came: how many of its questions its protocols have begun, and how many they have asked to the end."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.scoring.choice_metrics import settles
from snellen.scoring.questions import AT_ONCE, AskedQuestion


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
        words = [f"{self.begun:,} of {self.questions:,} questions begun, {self.finished:,} finished"]
        words += [f"more of {', '.join(self.wanting)} to come by --until"] if self.wanting else []
        words += [f"which of two models is better in {', '.join(self.undecided)} not decided"] if self.undecided else []
        return ", and ".join(words)

    def plus(self, other: RunExtent) -> RunExtent:
        return RunExtent(self.questions + other.questions, self.begun + other.begun, self.finished + other.finished)


def extent_of(questions: Sequence[AskedQuestion]) -> RunExtent:
    """How far one protocol came with some questions, all rounds of each dialogue among them.

    Of a protocol that promises no number of presentations, a question is finished with its first answer."""
    failed = {question.sample.id for question in questions if any(p.error for p in question.predictions)}
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
