"""Rounds of an adaptive run: how many images of each benchmark are evaluated next."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from snellen.building.benchmark import RandomPart
from snellen.runs.plan import RunPlan

MIN_NEW_IMAGES = 16
"""Images of each benchmark in the first round, and the least number that a later round adds."""
GROWTH_FACTOR = 1.25
"""Factor by which the number of images grows from one round to the next.

It is small, so that few requests are sent after the result is clear. Many rounds cost little, because scoring is cheap.
"""
GROWTH_FACTOR_IF_RELOADED = 2.0
"""The same factor for runs in which each round starts processes that load the model."""


def empty_parts(plan: RunPlan, rules: Mapping[str, str]) -> dict[str, RandomPart]:
    """Return, for each benchmark of a plan, a random part of it that has no image yet.

    It is the start of an adaptive run, in whose rounds the parts become larger.

    Args:
        plan: The plan of the run.
        rules: The rule that stops each benchmark, by the benchmark's name.
    """
    seed = plan.question.seed
    parts = {}
    for use in plan.benchmarks:
        name = use.benchmark.name
        parts[name] = use.benchmark.random_part(use.selection, seed, rules[name])
    return parts


def larger_part(part: RandomPart, *, reloads: bool) -> RandomPart:
    """Return how many images an adaptive run evaluates in its next round, as a larger random part of the benchmark.

    The number grows by a factor, and by at least `MIN_NEW_IMAGES`, up to all images: from 0 to 16, 32, 48, 64, 80.

    Args:
        part: The images that were evaluated so far.
        reloads: Whether each round loads the model again. The factor is then larger, so that there are fewer rounds.
    """
    growth_factor = GROWTH_FACTOR_IF_RELOADED if reloads else GROWTH_FACTOR
    n_by_factor = math.ceil(part.images * growth_factor)
    n_by_addition = part.images + MIN_NEW_IMAGES
    n_images = min(part.total_images, max(n_by_factor, n_by_addition))
    return replace(part, images=n_images)


def next_parts(
    parts: Mapping[str, RandomPart], open_benchmarks: Collection[str], *, reloads: bool
) -> dict[str, RandomPart]:
    """Return which random part of each benchmark an adaptive run evaluates next.

    Args:
        parts: The parts so far, by the name of the benchmark.
        open_benchmarks: The benchmarks that no stopping rule has stopped. Only their parts become larger.
        reloads: Whether each round loads the model again.
    """
    following = dict(parts)
    for name in open_benchmarks:
        following[name] = larger_part(parts[name], reloads=reloads)
    return following
