"""A protocol: each question twice, the options in their own order and mirrored."""

from __future__ import annotations

from snellen import Sample
from snellen.plugin_api import (
    Declaration,
    LabelStyle,
    Method,
    PromptRenderer,
    ProtocolSettings,
    RequestGenerator,
    Variant,
    labels_for,
)


class Mirrored(ProtocolSettings, frozen=True):
    """Options forwards and backwards: how often does the choice change? `mirrored?labels=number` for numbers."""

    labels: LabelStyle = "upper"

    @property
    def method(self) -> Method:
        return "generation"

    @property
    def declaration(self) -> Declaration:
        """Two presentations, whose choices are compared; the first one alone is a vanilla accuracy."""
        return Declaration(presentations=2, unbiased=(0,), instability=True)

    def applies(self, sample: Sample) -> bool:
        """Only to questions with options."""
        return sample.formulation == "choice"

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Both presentations in one wave; the replies decide nothing."""
        count = len(sample.options)
        forwards = tuple(range(count))
        labels = labels_for(self.labels, count, sample.benchmark, sample.id, "labels")
        template = prompt.template_ids("generation")[0]
        yield [
            prompt.generate(
                sample, Variant(test=test, template=template, order=order, labels=labels)
            )
            for test, order in enumerate((forwards, forwards[::-1]))
        ]
