"""Spot checks on real requests during a run: a seeded share is answered by the reference too.

A self-check sees a handful of texts when a model is loaded; these are the texts that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.noise import Tolerance, largest_difference
from snellen.models.hf.reference import Scores, reference_reply, reference_scores
from snellen.models.hf.reply_check import REPLY
from snellen.records import Request

ONE_IN = 1000
"""Of so many requests one is checked, chosen by its key, besides the first of each kind."""


@dataclass
class SpotChecks:
    """Checks requests of one run, and remembers the largest difference from the reference."""

    layout: ModelLayout
    tolerance: Tolerance
    stepwise: bool = False
    """Whether a reply is checked by one forward pass for each of its first tokens, and not by one for all: texts change
    what is said of those before them."""
    checked: dict[str, int] = field(default_factory=dict)
    """Requests checked, by kind."""
    score_difference: float = 0.0
    """The largest difference of a token's log-probability, in nats."""
    reply_deficit: float = 0.0
    """How much likelier another token was than the one that a greedy reply has, at most, in nats."""

    unrepeatable: int = 0
    """Requests checked of which the processor made other inputs a second time."""

    def drawn(self, request: Request) -> bool:
        """Whether `request` is to be checked; sampled replies are not."""
        if request.kind == "generate" and request.decoding.temperature > 0:
            return False
        return request.kind not in self.checked or int(request.key, 16) % ONE_IN == 0

    def check_scores(self, prompt: ContinuedPrompt, scores: Scores) -> bool:
        """Whether scores agree with the reference within the tolerance."""
        off = largest_difference(reference_scores(self.layout, [prompt]), [scores])
        self._count("loglikelihood")
        self.score_difference = max(self.score_difference, off)
        return off <= self.tolerance.token

    def check_reply(self, row: EncodedPrompt, tokens: Sequence[int]) -> bool:
        """Whether a greedy reply agrees with the reference within the tolerance."""
        ends = self.layout.end_tokens
        count = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
        count = next((i for i, token in enumerate(tokens[:count]) if token == self.layout.image_token), count)
        count = min(count, REPLY) if self.stepwise else count
        reference = reference_reply(self.layout, row, tokens[:count], stepwise=self.stepwise) if count else None
        deficit = max(reference.deficits) if reference else 0.0
        self._count("generate")
        self.reply_deficit = max(self.reply_deficit, deficit)
        return deficit <= self.tolerance.token

    @property
    def findings(self) -> tuple[str, ...]:
        """One sentence for each kind of request, for the manifest of the run."""
        off = {
            "loglikelihood": f"largest difference of a token's log-probability {self.score_difference:.2g} nats",
            "generate": f"largest lead of another token than the one written {self.reply_deficit:.2g} nats",
        }
        changed = f"spot checks: requests of which the processor made other inputs a second time: {self.unrepeatable}"
        return (changed,) * bool(self.unrepeatable) + tuple(
            f"spot checks ({kind}): {count} request{'s' * (count != 1)} answered one row at a time too, {off[kind]} "
            f"(noise allows {self.tolerance.token:.2g})"
            for kind, count in sorted(self.checked.items())
        )

    def _count(self, kind: str) -> None:
        self.checked[kind] = self.checked.get(kind, 0) + 1
