"""What happens to replies that no rule could read: step 2 and 3 of MMBench 4.2, each a step on its own.

A step takes what is unread and gives, for each, the prediction it makes of it. What it leaves open stays
unread, and is counted as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.extract import semantic
from snellen.judge.panel import Panel
from snellen.prompts.judging import shortened
from snellen.prompts.marks import marks_for
from snellen.protocols.matching import PAPER, Matching
from snellen.protocols.verdict import Verdict, majority
from snellen.records import Prediction, Turn
from snellen.seeds import rng_for

RANDOM_VERSION = "legacy-random-1"


class Unread(Struct, frozen=True):
    """A reply that names no option so far."""

    prediction: Prediction
    turn: Turn
    reply: str

    @property
    def places(self) -> tuple[int, ...]:
        """places[i] is the option that was shown in place i."""
        return self.prediction.variant.order or tuple(range(len(self.turn.options)))

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(self.turn.options[i] for i in self.places)

    @property
    def says_something(self) -> bool:
        return self.prediction.way != "empty" and bool(shortened(self.reply))


Step = Callable[[Sequence[Unread]], Sequence[Prediction]]


def nearest_in_meaning(unread: Sequence[Unread]) -> list[Prediction]:
    """Step 2b: the option nearest in meaning, where one is near enough and no other is.

    Only replies that name no option are compared: the embedding does not see that an option is denied, and
    several named ones are all near. Raises MissingExtraError without the model.
    """
    asked = [one for one in unread if one.prediction.way == "no-match" and one.says_something]
    found = semantic.nearest([(shortened(one.reply), one.shown) for one in asked])
    made = {id(one): _near(one, near) for one, near in zip(asked, found, strict=True)}
    return [made.get(id(one), one.prediction) for one in unread]


def _near(unread: Unread, near: semantic.Nearest) -> Prediction:
    place = near.chosen()
    if place is None:
        return unread.prediction
    return replace(
        unread.prediction,
        choice=unread.places[place],
        way="semantic",
        reader=f"{unread.prediction.reader} + {semantic.VERSION}",
        notes=(*unread.prediction.notes, f"cosine {near.cosine:.2f}, margin {near.margin:.2f}"),
    )


def matched_by(panel: Panel, version: str = PAPER) -> Step:
    """Step 2: judges name the option that is meant, or none; the majority of valid verdicts counts.

    Empty replies are not sent.
    """

    def step(unread: Sequence[Unread]) -> list[Prediction]:
        asked = [one for one in unread if one.says_something]
        errands = [matching(one, version, panel.max_new_tokens, panel.structured) for one in asked]
        verdicts = panel.verdicts(errands)
        made = {id(one): _judged(one, panel.name, version, row) for one, row in zip(asked, verdicts, strict=True)}
        return [made.get(id(one), one.prediction) for one in unread]

    return step


def matching(unread: Unread, version: str = PAPER, max_new_tokens: int = 16, structured: bool = False) -> Matching:
    """What a judge is asked about a reply."""
    prediction, options = unread.prediction, unread.shown
    return Matching(
        prediction.benchmark,
        prediction.sample_id,
        prediction.variant,
        unread.turn.question,
        options,
        prediction.variant.marks or marks_for("upper", len(options), rng_for()),
        unread.reply,
        version,
        max_new_tokens,
        structured,
    )


def _judged(unread: Unread, judge: str, version: str, verdicts: Sequence[Verdict]) -> Prediction:
    verdict = majority(verdicts)
    return replace(
        unread.prediction,
        choice=None if verdict.value is None else unread.places[verdict.value],
        way="judge" if verdict.outcome == "given" else f"judge: {verdict.outcome}",
        reader=f"{unread.prediction.reader} + {judge} ({version})",
        notes=(*unread.prediction.notes, f"rules: {unread.prediction.way}"),
    )


def drawn_by_lot(seed: int) -> Step:
    """Step 3 as published (`legacy`): one of the options or none, each equally likely, marked as drawn.

    The draw depends on the question, its presentation and `seed` alone.
    """

    def step(unread: Sequence[Unread]) -> list[Prediction]:
        return [_drawn(one.prediction, len(one.turn.options), seed) for one in unread]

    return step


def _drawn(prediction: Prediction, options: int, seed: int) -> Prediction:
    purpose = f"unread {prediction.protocol} {prediction.turn} {prediction.variant.test}"
    lot = rng_for(prediction.benchmark, prediction.sample_id, purpose, seed).randrange(options + 1)
    return replace(
        prediction,
        choice=lot if lot < options else None,
        way="random",
        reader=f"{prediction.reader} + {RANDOM_VERSION} (seed {seed})",
        notes=(*prediction.notes, f"before the lot: {prediction.way}"),
    )
