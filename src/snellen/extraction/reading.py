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

import hashlib
import inspect
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import HookError
from snellen.reasons import NoChoiceReason

RuleMethod = Literal["label", "label+text", "text", "own rule"]
"""How rules find an option: by its label, by its label and its own text beside it, by its text alone, or by a function
that says no more than which option it is."""
Confidence = Literal["certain", "likely", "none"]
STATED = "stated as the answer"
_TOLD = ("finish", "question")
"""What an extractor is told besides reply, options and labels."""


class ExtractedChoice(Struct, frozen=True, omit_defaults=True):
    """The option that a reply names, as the place it was shown in, or None; never a guess."""

    choice: int | None
    """Index of the PLACE into the options as they were passed in; the caller maps places to identities."""
    extraction_method: RuleMethod | None
    """How the option was found; None when none was."""
    confidence: Confidence
    """`certain`: the reply plainly says so, and nothing else; `likely`: weighed, and probable enough."""
    detail: str = ""
    """One short phrase for the reader of a report."""
    span: tuple[int, int] | None = None
    """Where in the reply, as received, the deciding words stand: [start, end)."""
    follows_format: bool = False
    """The reply kept the asked-for format: it names exactly one of the labels shown, as a label (either case)."""
    reason: NoChoiceReason | None = None
    """Why no option was found; None when one was."""
    probabilities: tuple[float, ...] = ()
    """For each option in the order shown, and last for "gives no answer": how probable it is that the reply means it.
    Empty for a rule that knows no probabilities; then `choice` has probability 1."""
    mentioned: tuple[int, ...] = ()
    """The places of all options that the reply names, of a rule by which a mention is enough."""

    @property
    def probability(self) -> float:
        """How probable `choice` is, or, if it is None, that the reply gives no answer."""
        if not self.probabilities:
            return 1.0
        return self.probabilities[-1 if self.choice is None else self.choice]

    def probability_of(self, places: Collection[int]) -> float:
        """How probable it is that the reply means one of these options."""
        if not self.probabilities:
            return float(self.choice in places)
        return sum(self.probabilities[place] for place in places)


class Extractor(Protocol):
    """(reply, options in the order shown, labels in the same order) -> what the reply names. Pure, never raises.

    One of another package may leave out `finish` and `question`, and return the index of an option, or None.
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
        """`finish` is why the model stopped ("length": cut), `question` what was asked; published rules use neither."""
        ...


def no_limit(labels: Sequence[str]) -> str:
    """A rule that reads replies by label and by text."""
    return ""


def labels_alone(labels: Sequence[str]) -> str:
    """The limit of a rule that reads no texts."""
    return "" if labels else "finds labels alone, and options were listed without any"


def texts_alone(labels: Sequence[str]) -> str:
    """The limit of a rule that reads no labels."""
    return (
        "finds the texts of options alone, and options were shown with labels to answer by"
        if labels
        else ""
    )


class NamedExtractor(Struct, frozen=True):
    """An extractor of the registry's group `extractors`."""

    version: str
    """What is stored with a prediction: other rules are another version."""
    read: Extractor
    limit: Callable[[Sequence[str]], str] = no_limit
    """Why a right reply may go unread where options are shown with these labels, or none; empty where it is read."""
    allowing: Callable[[float], NamedExtractor] | None = None
    """The same extractor where so great a share of its readings may be wrong; None where none can be set."""

    def reading(
        self,
        of: str,
        reply: str,
        options: Sequence[str],
        labels: Sequence[str],
        finish: str | None = None,
        question: str = "",
    ) -> ExtractedChoice:
        """What `read` makes of a reply; a rule may return no more than the index of an option, or None.

        Raises HookError, naming the sample `of` which the reply is, where the rule raises an error or returns anything
        else.
        """
        try:
            choice: Any = self.read(reply, options, labels, finish=finish, question=question)
        except Exception as error:  # a rule of others: anything may be raised
            raise HookError(f"the extractor {self.version}, on {of}", error) from error
        place = choice.choice if isinstance(choice, ExtractedChoice) else choice
        if place is None or (type(place) is int and 0 <= place < len(options)):
            if isinstance(choice, ExtractedChoice):
                return choice
            return (
                no_choice("no match")
                if place is None
                else ExtractedChoice(place, "own rule", "certain")
            )
        raise HookError(
            f"the extractor {self.version} returned {choice!r} for {of}; it has to be None, the index of one of the "
            f"{len(options)} options as they were shown, or an ExtractedChoice with such a choice"
        )


def as_extractor(name: str, registered: Any) -> NamedExtractor:
    """What is registered under a name: a `NamedExtractor`, or a function of reply, options and labels, whose version
    is its name with a digest of its file. Either need not take `finish` and `question`.

    Raises HookError for anything else.
    """
    if isinstance(registered, NamedExtractor):
        extractor = registered
    elif callable(registered) and not isinstance(registered, type):
        extractor = NamedExtractor(f"{name}-{_digest_of_file(registered)}", registered)
    else:
        raise HookError(
            f"the extractor {name!r} is {registered!r}; it has to be a NamedExtractor, or a function of reply, options "
            "and labels"
        )
    read = _called_with_what_it_takes(name, extractor.read)
    return extractor if read is extractor.read else replace(extractor, read=read)


def _digest_of_file(function: Callable[..., Any]) -> str:
    """Of the file in which a function is written; of what it is called where it has none, as one that was typed in."""
    try:
        text = Path(inspect.getfile(function)).read_bytes()
    except (TypeError, OSError):
        text = repr(type(function)).encode()
    return hashlib.sha256(text).hexdigest()[:8]


def _called_with_what_it_takes(name: str, read: Callable[..., Any]) -> Extractor:
    signature = inspect.signature(read)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    told = [
        key
        for key in _TOLD
        if key in signature.parameters or inspect.Parameter.VAR_KEYWORD in kinds
    ]
    try:
        signature.bind("", (), (), **dict.fromkeys(told))
    except TypeError:
        raise HookError(
            f"the extractor {name!r} takes {signature}; it has to take (reply, options, labels)"
        ) from None
    if len(told) == len(_TOLD):
        return read
    return lambda reply, options, labels, **more: read(
        reply, options, labels, **{key: more[key] for key in told}
    )


def no_choice(reason: NoChoiceReason) -> ExtractedChoice:
    """No option, and why."""
    return ExtractedChoice(None, None, "none", reason=reason)


def published_rule(
    rule: Callable[[str, Sequence[str], Sequence[str]], ExtractedChoice],
) -> Extractor:
    """A rule of a paper as an extractor: it knows neither the question nor why the model stopped."""

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
