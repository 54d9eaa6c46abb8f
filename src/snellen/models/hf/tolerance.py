"""Measure how far the scores of a fast path may differ from the reference because of rounding alone."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.load import free_memory, input_device
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores, reference_scores

WIDER = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}
"""The number format in which rounding is measured, for each format."""
LEAST = {"float32": 1e-4, "float16": 0.005, "bfloat16": 0.02}
"""Minimum tolerances in nats. Noise is measured on a few prompts, and rounding may have a larger effect on others."""
UNMEASURED = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.08}
"""Tolerances if the weights do not fit in memory a second time, or cannot be widened."""
MOST = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.2}
"""Maximum tolerances in nats. Larger differences from a wider format are not due to rounding."""
FACTOR = 4.0
"""Multiple of the measured noise, because a path rounds independently and more tokens are compared than were measured."""


@dataclass(frozen=True)
class Tolerance:
    """Maximum differences of scores from the reference."""

    token: float
    """For each token, in nats."""
    option: float
    """For the sum over a continuation, in nats. An option that leads by more must still lead."""
    noise: float | None = None
    """Largest difference of a token's score due to rounding, in nats; None if it was not measured."""


class UnrepeatableError(ValueError):
    """The model scores the same prompt differently in two forward passes, or its processor changes the prompt."""


def measure_tolerance(
    layout: ModelLayout, prompts: Sequence[ContinuedPrompt], scores: Sequence[Scores]
) -> Tolerance:
    """Return the tolerance for scores, which is a multiple of the measured noise.

    The noise is the larger of two differences from the reference scores: that of a second
    computation, and that of a computation in a wider number format, such as float32 instead of
    bfloat16.

    Args:
        layout: The model.
        prompts: The prompts on which noise is measured.
        scores: Their reference scores.

    Raises:
        UnrepeatableError: A second computation of the reference gives other scores.
    """
    number_format = str(layout.model.dtype).removeprefix("torch.")
    assumed = UNMEASURED.get(number_format, UNMEASURED["bfloat16"])
    repeated_difference = largest_difference(scores, reference_scores(layout, prompts))
    wide_scores = _wide_scores(layout, prompts, number_format)
    if repeated_difference > assumed:
        raise UnrepeatableError(
            f"two scores of the same prompt differ by {repeated_difference:.2g} nats, so scores of this model are "
            "unreliable; check whether a part of it is in training mode (dropout)"
        )
    if wide_scores is None:
        return Tolerance(assumed, 2 * assumed)
    noise = max(largest_difference(scores, wide_scores), repeated_difference)
    option_noise = max(largest_difference(_sums(scores), _sums(wide_scores)), noise)
    least = LEAST.get(number_format, LEAST["bfloat16"])
    most = MOST.get(number_format, MOST["bfloat16"])
    return Tolerance(
        token=min(most, max(least, FACTOR * noise)),
        option=min(2 * most, max(2 * least, FACTOR * option_noise)),
        noise=noise,
    )


def flaw(expected: Sequence[Scores], scored: Sequence[Scores], tolerance: Tolerance) -> str:
    """Return "differs" or "chooses another option" if scores differ too much from the reference; otherwise empty.

    Args:
        expected: For each prompt, the reference scores of the tokens of each continuation, in nats.
        scored: The same from a fast path.
        tolerance: The maximum difference of a token, and of the sum over a continuation.
    """
    if not largest_difference(expected, scored) <= tolerance.token:  # also if it is NaN
        return "differs"
    for reference_tails, tails in zip(expected, scored, strict=True):
        reference_sums = [sum(tail) for tail in reference_tails]
        sums = [sum(tail) for tail in tails]
        chosen = sums.index(max(sums))
        if max(reference_sums) - reference_sums[chosen] > tolerance.option:
            return "chooses another option"
    return ""


def largest_difference(expected: Sequence[Scores], scored: Sequence[Scores]) -> float:
    """Return the largest difference between two log-probabilities of a token, in nats.

    Infinite if one is NaN or missing.

    Args:
        expected: For each prompt and each of its continuations, the log-probability of each token.
        scored: The same, computed in another way.
    """
    largest = 0.0
    for expected_tails, scored_tails in zip(expected, scored, strict=True):
        for expected_tail, scored_tail in zip(expected_tails, scored_tails, strict=True):
            for first, second in zip_longest(expected_tail, scored_tail, fillvalue=math.nan):
                difference = abs(first - second)
                if math.isnan(difference):
                    return math.inf
                largest = max(largest, difference)
    return largest


def _sums(scores: Sequence[Scores]) -> list[Scores]:
    """Return scores with one value per continuation: the sum over its tokens."""
    sums: list[Scores] = []
    for tails in scores:
        sums.append([[sum(tail)] for tail in tails])
    return sums


def _wide_scores(
    layout: ModelLayout, prompts: Sequence[ContinuedPrompt], form: str
) -> list[Scores] | None:
    """Return the reference scores of prompts, computed in a wider number format.

    Returns None if the wider weights do not fit in memory, or if the model cannot compute in that
    format.
    """
    import torch

    if form not in WIDER or not _fits_twice(layout.model, getattr(torch, WIDER[form])):
        return None
    try:
        with _widened(layout.model, getattr(torch, WIDER[form])):
            return reference_scores(layout, prompts)
    except (RuntimeError, TypeError, ValueError, MemoryError):
        # A part of the model computes in a format of its own. Nothing is lost: the tolerance is then assumed.
        return None


@contextlib.contextmanager
def _widened(model: Any, wide: Any) -> Iterator[None]:
    """Convert the weights of a model to the number format `wide` inside the block.

    At its end, the model has its original tensors again.
    """
    narrow = [
        part for part in chain(model.parameters(), model.buffers()) if _is_narrower(part, wide)
    ]
    narrow_values = [part.data for part in narrow]
    try:
        for part in narrow:
            part.data = part.data.to(wide)
        yield
    finally:
        for part, values in zip(narrow, narrow_values, strict=True):
            part.data = values


def _is_narrower(part: Any, wide: Any) -> bool:
    """Return whether a tensor holds floating-point numbers of a narrower format than `wide`."""
    return bool(part.dtype.is_floating_point and part.dtype.itemsize < wide.itemsize)


def _fits_twice(model: Any, wide: Any) -> bool:
    """Return whether a copy of a model's weights in a wider number format would fill less than half of the free memory.

    False if the weights are on several devices or quantised.

    Args:
        model: The model.
        wide: The wider format, such as `torch.float64`.
    """
    tensors = list(chain(model.parameters(), model.buffers()))
    device = input_device(model)
    is_on_one_device = {tensor.device for tensor in tensors} == {device}
    if not is_on_one_device or getattr(model, "is_quantized", False):
        return False
    n_values = sum(tensor.numel() for tensor in tensors if _is_narrower(tensor, wide))
    needed_bytes: int = n_values * wide.itemsize
    return needed_bytes < free_memory(device) / 2
