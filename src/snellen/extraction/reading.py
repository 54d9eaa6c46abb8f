"""Reading of one reply: a probability for each option and for "gives no answer", and what follows from them.

How to use a reading:

- `choice` is the most probable reading. A headline that counts it says how often the model is right if each reply
  means what it most probably means.
- `probabilities` has one entry for each option in the order shown, and a last one for "gives no answer". They add up
  to 1 and are calibrated on real replies, so that `probability_of(correct)` is the expected score of the reply, and
  `1 - probability` the chance that `choice` misreads it. A published rule knows no probabilities: its reading has
  probability 1.
- `confidence` is `certain` for an explicit statement that nothing contradicts. Only other readings are worth a judge.
- `reason` says why a reply gives no answer, if that is the most probable reading: it is empty, refuses (`refused`),
  is cut (`cut off`, `reasoning cut off`), repeats itself (`loop`), leaves several options open (`ambiguous`), only
  denies options (`negated`), or names none (`no match`).

A `Prediction` keeps all of it by the identity of the options (`Prediction.probabilities`, `Prediction.probability_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from snellen.errors import HookError
from snellen.reasons import NoChoiceReason

RuleMethod = Literal["label", "label+text", "text", "own rule"]
"""How rules find an option: by its label, by its label and its own text beside it, by its text alone, or by a function
that says no more than which option it is."""
Confidence = Literal["certain", "likely", "none"]
STATED = "stated as the answer"
OPTIONAL_ARGUMENTS = ("finish", "question")
"""Names of the arguments that an extractor may take besides reply, options and labels."""


class ExtractedChoice(Struct, frozen=True, omit_defaults=True):
    """The option that an extractor read in a reply, or the reason why it read none. It is never a guess.

    Examples:
        >>> ExtractedChoice(1, "label", "certain", span=(13, 16)).choice
        1
    """

    choice: int | None
    """Index of the option in the order in which the options were passed in, which is the order shown; None if no option
    was found. The caller translates it into the order of the question."""
    extraction_method: RuleMethod | None
    """How the option was found; None when none was."""
    confidence: Confidence
    """`certain`: the reply says plainly which option it means. `likely`: it is the most probable
    reading, and probable enough."""
    detail: str = ""
    """One short phrase for the reader of a report."""
    span: tuple[int, int] | None = None
    """Range of the deciding words in the reply as received: [start, end)."""
    follows_format: bool = False
    """Whether the reply has the requested format: it names exactly one of the labels shown, in upper or lower case."""
    reason: NoChoiceReason | None = None
    """Why no option was found; None if one was found."""
    probabilities: tuple[float, ...] = ()
    """For each option in the order shown, and last for "gives no answer": how probable it is that the reply means it.
    Empty for a rule that knows no probabilities; then `choice` has probability 1."""
    mentioned: tuple[int, ...] = ()
    """For a rule by which naming an option is enough: the indices, in the order shown, of all options that it names."""

    @property
    def probability(self) -> float:
        """Probability of `choice` or, if it is None, that the reply gives no answer."""
        if not self.probabilities:
            return 1.0
        return self.probabilities[-1 if self.choice is None else self.choice]

    def probability_of(self, places: Collection[int]) -> float:
        """Return how probable it is that the reply means one of these options."""
        if not self.probabilities:
            return float(self.choice in places)
        return sum(self.probabilities[place] for place in places)


class Extractor(Protocol):
    """A function that reads which option a reply chooses.

    It gets the reply, the options in the order shown, and their labels in the same order. The result depends on nothing
    else, and it raises no error. An extractor of another package need not take `finish` and `question`, and may return
    just the index of an option, or None.

    Examples:
        >>> def last_letter(reply, options, labels=()):
        ...     if reply[-1:] not in labels:
        ...         return no_choice("no match")
        ...     return ExtractedChoice(labels.index(reply[-1]), "label", "certain")
        >>> last_letter("I choose B", ["a cat", "a dog"], ["A", "B"]).choice
        1
    """

    def __call__(
        self,
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        *,
        finish: str | None = None,
        question: str = "",
    ) -> ExtractedChoice:
        """Return the option that a reply chooses.

        Args:
            reply: The reply as received.
            options: Texts of the options in the order shown.
            labels: Labels of the options, such as A and B; empty if they were shown without labels.
            finish: Why the model stopped; "length" means that the reply was cut off. Published rules ignore it.
            question: The text of the question. Published rules ignore it.
        """
        ...


def no_limit(labels: Sequence[str]) -> str:
    """Return an empty text: the extractor can read replies to options with or without labels."""
    return ""


def labels_alone(labels: Sequence[str]) -> str:
    """Return a warning for an extractor that finds only labels, if no labels were shown; else an empty text."""
    return "" if labels else "finds labels alone, and options were listed without any"


def texts_alone(labels: Sequence[str]) -> str:
    """Return a warning for an extractor that finds only texts of options, if labels were shown; else an empty text."""
    if not labels:
        return ""
    return "finds the texts of options alone, and options were shown with labels to answer by"


class NamedExtractor(Struct, frozen=True):
    """An extractor of the registry's group `extractors`.

    Examples:
        >>> def last_letter(reply, options, labels=()):
        ...     if reply[-1:] not in labels:
        ...         return no_choice("no match")
        ...     return ExtractedChoice(labels.index(reply[-1]), "label", "certain")
        >>> extractor = NamedExtractor("last-letter-1", last_letter)
        >>> extractor.read("I choose B", ["a cat", "a dog"], ["A", "B"]).choice
        1
    """

    version: str
    """What is stored with a prediction: other rules are another version."""
    read: Extractor
    limit: Callable[[Sequence[str]], str] = no_limit
    """Says, for the labels with which options are shown (empty: no labels), why a reply may not be read though it names
    an option. The text is empty if such replies are read."""
    allowing: Callable[[float], NamedExtractor] | None = None
    """Makes the same extractor for another error rate: it reads no option if it may be wrong with a greater probability.
    None if the extractor has no error rate that can be set."""

    def reading(
        self,
        of: str,
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        finish: str | None = None,
        question: str = "",
    ) -> ExtractedChoice:
        """Return what the extractor reads in a reply. Its function may return just the index of an option, or None.

        Raises:
            HookError: The function raises an error or returns anything else. The message names the sample, `of`.
        """
        try:
            choice: Any = self.read(reply, options, labels, finish=finish, question=question)
        except Exception as error:  # a rule of others: anything may be raised
            raise HookError(f"the extractor {self.version}, on {of}", error) from error
        index = choice.choice if isinstance(choice, ExtractedChoice) else choice
        is_index = type(index) is int and 0 <= index < len(options)
        if index is None or is_index:
            if isinstance(choice, ExtractedChoice):
                return choice
            if index is None:
                return no_choice("no match")
            return ExtractedChoice(index, extraction_method="own rule", confidence="certain")
        raise HookError(
            f"the extractor {self.version} returned {choice!r} for {of}; it has to be None, the index of one of the "
            f"{len(options)} options as they were shown, or an ExtractedChoice with such a choice"
        )


def no_choice(reason: NoChoiceReason) -> ExtractedChoice:
    """Return an extraction without an option, and the reason.

    Examples:
        >>> no_choice("refusal").choice is None
        True
    """
    return ExtractedChoice(choice=None, extraction_method=None, confidence="none", reason=reason)


def published_rule(
    rule: Callable[[str, Sequence[str], Sequence[str]], ExtractedChoice],
) -> Extractor:
    """Return an extractor by the rule of a paper, which takes only the reply, the options and their labels."""

    def extract(
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        *,
        finish: str | None = None,
        question: str = "",
    ) -> ExtractedChoice:
        del finish, question
        return rule(reply, options, labels)

    return extract
