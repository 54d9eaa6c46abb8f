"""The questions without their pictures: how far a model gets with the text alone."""

from __future__ import annotations

from msgspec.structs import replace

from snellen.prompts.rendering import PromptRenderer
from snellen.protocols.base import RequestGenerator, protocol_label
from snellen.protocols.choice import Vanilla
from snellen.protocols.control import SHOWN
from snellen.protocols.declaration import Declaration
from snellen.records import Sample


class Blind(Vanilla, frozen=True):
    """Every question once, without its picture: what the text alone gives away."""

    @property
    def declaration(self) -> Declaration:
        return Declaration(
            presentations=1, sees_images=False, control_of=protocol_label("vanilla", self), shown=SHOWN["text"]
        )

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        yield from super().ask(replace(sample, images=()), prompt, history)
