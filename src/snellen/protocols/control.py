"""Controls: what another protocol asks, with a grey picture, the picture of another question, or none."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from snellen.common.images import BLANK
from snellen.errors import UnknownNameError
from snellen.protocols.base import OfAnother, Protocol, RequestGenerator
from snellen.protocols.declaration import Declaration, declaration_of
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import Sample

Picture = Literal["blank", "shuffled", "text"]
SHOWN: dict[Picture, str] = {
    "blank": "a grey picture", "shuffled": "another question's picture", "text": "no picture",
}  # fmt: skip


class Control(OfAnother, frozen=True):
    """Another protocol's requests, with something else to see: what of its score does not need the picture.

    A sample that has no picture is not asked. With `shuffled`, samples come with the pictures of others
    (`snellen.runs.plan`).
    """

    picture: Picture = "blank"

    def __post_init__(self) -> None:
        if declaration_of(self.inner).control_of:
            raise UnknownNameError(f"{self.of} is a control itself; name the protocol that is to be controlled")

    @cached_property
    def label(self) -> str:
        return f"control?picture={self.picture}&{self.quoted}"

    @property
    def declaration(self) -> Declaration:
        return replace(
            declaration_of(self.inner),
            sees_images=False,
            control_of=self.inner.label,
            shown=SHOWN[self.picture],
            other_pictures=self.picture == "shuffled",
        )

    def applies(self, sample: Sample) -> bool:
        return bool(sample.images) and self.inner.applies(sample)

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        if self.picture == "text":
            sample = replace(sample, images=())
        elif self.picture == "blank":
            sample = replace(sample, images=(BLANK,) * len(sample.images))
        return (yield from self.inner.ask(sample, prompt, history))


def with_controls(protocols: tuple[Protocol, ...], pictures: tuple[Picture, ...]) -> tuple[Protocol, ...]:
    """The protocols, then for each one that shows pictures a control with each kind of picture."""
    shows = [protocol for protocol in protocols if declaration_of(protocol).sees_images]
    controls = [Control(picture=picture, of=protocol.label) for protocol in shows for picture in pictures]
    return (*protocols, *(control for control in controls if control not in protocols))
