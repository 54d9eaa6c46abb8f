"""What a protocol declares about itself, so that scoring and reports need not know any protocol by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.protocols.prompts.templates import Templates
from snellen.records import Exchange, Request, Response, Sample, Variant


class Conclusion(Struct, frozen=True):
    """The answer to which the steps of a protocol led, as if one request had asked for it."""

    request: Request
    """Says who was asked and, in its variant, how the options were shown."""
    response: Response
    """The answer alone, or the failure of a step."""
    undecided: bool = False
    """Whether the protocol came to its end without an answer; the response is then what it ended with."""


Conclude = Callable[[Sample, Sequence[Exchange]], Conclusion | None]
"""(sample, exchanges of all of its steps, in order) -> the conclusion, or None while it is not reached."""


class Declaration(Struct, frozen=True):
    """What scoring and reports have to know about how a protocol asks. The defaults fit a protocol that declares
    nothing.

    A presentation is a request that is not a baseline, identified by its whole `Variant`. A baseline is identified by
    the variant of its presentation with `baseline` filled in.
    """

    presentations: int | Callable[[Sample], int] | None = None
    """How many presentations of each question it promises; None when it promises none."""
    stops_early: bool = False
    """Whether replies may make it stop early. Later presentations then cover a biased selection of questions."""
    unbiased: tuple[int, ...] | None = None
    """Numbers (`Variant.test`) of the presentations whose mean is a vanilla accuracy; None when all are."""
    baselines: bool = False
    """Whether it asks for baselines: requests whose scores are only subtracted from those of their presentations."""
    circular: bool = False
    """Whether a question is right only when all its presentations are (MMBench 4.1)."""
    instability: bool = False
    """Whether the entropy of the options chosen over all presentations is meaningful (ReForm-Eval 3.3.2)."""
    repeated_for: int = 0
    """The k of pass@k, where its presentations are the same request again and again; 0 where they are not."""
    needs_temperature: bool = False
    """Whether it is pointless at temperature 0; a run then refuses it."""
    sees_images: bool = True
    """Whether the model is shown the pictures."""
    control_of: str = ""
    """The label of the protocol for whose number it is a control: the same questions with something else to see."""
    shown: str = ""
    """What a control shows in place of the pictures, in words."""
    dose: tuple[str, float] | None = None
    """How much of one degradation a control adds to the pictures; None where it adds none, or several."""
    other_pictures: bool = False
    """Whether it asks about each sample with the pictures of another one, which the plan puts in their place."""
    roles: tuple[str, ...] = ()
    """The other models that it asks, by role. Its accuracy stands for the model only where nothing else does."""
    words: Callable[[Templates], str] | None = None
    """The version of its words besides instructions, so that no run mixes two; None where it has none."""
    conclude: Conclude | None = None
    """How the answer follows from the steps; None where each request asks for the answer itself."""

    @property
    def stands_for_model(self) -> bool:
        """Whether its accuracy may stand for the model: it is shown the pictures, and as they are."""
        return self.sees_images and not self.control_of

    def n_presentations(self, sample: Sample) -> int:
        """How many presentations of each question of `sample` are promised; 1 when none are."""
        promised = self.presentations
        return promised(sample) if callable(promised) else promised or 1

    def is_unbiased(self, variant: Variant) -> bool:
        """Whether a presentation counts in a vanilla accuracy."""
        return self.unbiased is None or variant.test in self.unbiased

    @property
    def n_unbiased(self) -> int:
        """How many presentations a vanilla accuracy is promised to rest on, whatever the sample; 0 when none are."""
        if self.unbiased is not None:
            return len(self.unbiased)
        return self.presentations if isinstance(self.presentations, int) else 0


UNDECLARED = Declaration()


def declaration_of(protocol: object) -> Declaration:
    """The protocol's `declaration`, or the defaults for a class without one."""
    declared: Declaration = getattr(protocol, "declaration", UNDECLARED)
    return declared
