"""Another protocol's questions about pictures that were made worse: what a dose of blur or noise costs."""

from __future__ import annotations

from functools import cached_property

from msgspec.structs import replace

from snellen.common.degradations import DEGRADATIONS, check_doses, degraded_ref, described
from snellen.errors import UnknownNameError
from snellen.protocols.base import OfAnother, RequestGenerator
from snellen.protocols.declaration import Declaration, declaration_of
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import Sample


class Perturb(OfAnother, frozen=True):
    """Another protocol's requests with degraded pictures: `perturb?blur=2`, `perturb?jpeg=20&noise=10`.

    Its number is a control of the other protocol's: the same questions, paired. A sample without a picture is not
    asked.
    """

    rotate: float | None = None
    crop: float | None = None
    scale: float | None = None
    grey: float | None = None
    gamma: float | None = None
    contrast: float | None = None
    blur: float | None = None
    noise: float | None = None
    jpeg: float | None = None

    def __post_init__(self) -> None:
        if not self.doses:
            raise UnknownNameError(f"perturb needs a dose of {', '.join(DEGRADATIONS)}, such as perturb?blur=2")
        check_doses(self.doses)
        if declaration_of(self.inner).control_of:
            raise UnknownNameError(f"{self.of} is a control itself; name the protocol that is to be perturbed")

    @cached_property
    def doses(self) -> dict[str, float]:
        """The doses given, by name."""
        given = {name: getattr(self, name) for name in DEGRADATIONS}
        return {name: dose for name, dose in given.items() if dose is not None}

    @cached_property
    def label(self) -> str:
        terms = [f"{name}={dose:g}" for name, dose in self.doses.items()]
        return f"perturb?{'&'.join(terms if self.of == 'vanilla' else (*terms, self.quoted))}"

    @property
    def declaration(self) -> Declaration:
        return replace(
            declaration_of(self.inner),
            control_of=self.inner.label,
            shown=f"the picture {described(self.doses)}",
            dose=next(iter(self.doses.items())) if len(self.doses) == 1 else None,
        )

    def applies(self, sample: Sample) -> bool:
        return bool(sample.images) and self.inner.applies(sample)

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        worse = tuple(degraded_ref(image, self.doses) for image in sample.images)
        return (yield from self.inner.ask(replace(sample, images=worse), prompt, history))
