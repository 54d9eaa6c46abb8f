"""Tests when a model is loaded which fast paths reproduce its own scores.

The architecture's name is not enough: a cached prefix is right for LLaVA, but wrong for GIT and, if it is
only the image, for PaliGemma; a tree mask is silently wrong where layers have a sliding window. So every
fast path scores a small probe, and is used only if it agrees with the plain path token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from snellen.models.hf.cached_forward import prefill
from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.engine import PLAIN, Engine, FastPaths
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.prefix_sharing import Scores

TOLERANCE = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.2}
"""Largest difference of a token's log-probability, in nats. Half precision differs by 0.1 from
batch to batch without any cache; wrong paths were off by 0.2 to 2 in every architecture measured."""
CACHE, MEMO, BACKWARDS = "a cached prompt", "keeping features", "the reverse order"
WIDER = {
    "shared": "a shared picture",
    "ragged": "unequal rows in a cache",
    "tree": "a tree in one forward",
    "at_once": "prefix and tree in one forward",
    "prefix_cache": "a prefix of the last call",
}
"""Fast paths to try once prompts may be cached."""
NEEDS = {"at_once": "tree", "prefix_cache": "ragged"}
"""Fast paths that another one requires."""
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, NotImplementedError)
"""Errors that architectures raise when they cannot be run in parts."""


@dataclass(frozen=True)
class SelfCheckResult:
    """Which fast paths a model allows, and why not the others."""

    fast_paths: FastPaths
    differences: dict[str, float]
    """Largest difference of a token's log-probability from the plain path, in nats, for each path tried."""
    refusals: dict[str, str]

    @property
    def line(self) -> str:
        """One line on the paths that failed; empty when all agreed."""
        wrong = [
            f"{name} is off by {value:.2g} nats" for name, value in self.differences.items() if name in self.refusals
        ]
        failed = [f"{name}: {reason}" for name, reason in self.refusals.items() if name not in self.differences]
        if not (wrong or failed):
            return ""
        return f"scoring falls back to {self.fast_paths.name} ({'; '.join([*wrong, *failed])})"


def choose_fast_paths(engine: Engine, probe: Sequence[ContinuedPrompt]) -> SelfCheckResult:
    """The fast paths that agree with the plain path on `probe`.

    The probe asks two questions of different length about one picture and one about another, with
    continuations of unequal length.
    """
    limit = TOLERANCE.get(str(engine.layout.model.dtype).removeprefix("torch."), 0.2)
    plain = engine.score(probe, PLAIN)
    differences: dict[str, float] = {}
    refusals: dict[str, str] = {}

    def agrees(name: str, fast_paths: FastPaths, backwards: bool = False) -> bool:
        prompts, expected = (probe[::-1], plain[::-1]) if backwards else (probe, plain)
        engine.prefix_cache.clear()
        served = engine.prefix_cache.served
        try:
            if fast_paths.prefix_cache:
                engine.score(prompts[:1], fast_paths)
            differences[name] = largest_difference(expected, engine.score(prompts, fast_paths))
        except REFUSALS as error:
            refusals[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        else:
            if not differences[name] <= limit:
                refusals[name] = "differs"
            elif fast_paths.prefix_cache and engine.prefix_cache.served == served:
                del differences[name]
                refusals[name] = "its cache cannot be kept"
        return name not in refusals

    chosen = PLAIN
    if not engine.layout.encoder_decoder and agrees(CACHE, replace(chosen, cache=True)):
        chosen = replace(chosen, cache=True)
        for field, name in WIDER.items():
            if field in NEEDS and not getattr(chosen, NEEDS[field]):
                continue
            if field != "shared" and has_sliding_window(engine.layout, probe[0]):
                refusals[name] = "some layers see a sliding window"
            elif agrees(name, wider := replace(chosen, **{field: True})):
                chosen = wider
    if agrees(MEMO, wider := replace(chosen, vision_cache=True)):
        chosen = wider
    if chosen != PLAIN and not agrees(BACKWARDS, chosen, backwards=True):
        chosen = PLAIN
    engine.prefix_cache.clear()
    return SelfCheckResult(chosen, differences, refusals)


def has_sliding_window(layout: ModelLayout, prompt: ContinuedPrompt) -> bool:
    """Whether layers have a sliding window: their masks count cache positions, which holes and trees shift.

    A probe is shorter than the window of a real model, so scores cannot reveal this.
    """
    import torch

    with torch.inference_mode():
        state = prefill(layout, [prompt.context])
    return any(getattr(layer, "is_sliding", False) for layer in state.cache.layers)


def largest_difference(expected: Sequence[Scores], scored: Sequence[Scores]) -> float:
    """Largest difference of any token's log-probability, in nats; infinite where one is NaN."""
    values = [
        abs(a - b)
        for scores, fast_scores in zip(expected, scored, strict=True)
        for tail, fast_tail in zip(scores, fast_scores, strict=True)
        for a, b in zip(tail, fast_tail, strict=True)
    ]
    return max((value if value == value else float("inf") for value in values), default=0.0)
