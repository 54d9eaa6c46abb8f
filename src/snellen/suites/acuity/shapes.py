"""Shapes in place of letters, for whoever does not read: how small, as on the chart of Lea symbols (Hyvärinen 1980)."""

from __future__ import annotations

import math

from snellen.psychometrics.stimuli.canvas import Shape
from snellen.psychometrics.stimuli.optotypes import UNITS, disc, rectangle
from snellen.psychometrics.stimuli.trials import Stimulus, Trial, acuity_test, stimulus


def _polygon(*corners: tuple[float, float]) -> Shape:
    return ((corners,),)


def _star() -> Shape:
    """Ten corners, every second at 0.38 of the radius, as in a regular pentagram."""
    radii = (UNITS / 2, UNITS / 2 * 0.382)
    angles = (math.radians(36 * step - 90) for step in range(10))
    corners = ((radii[step % 2], angle) for step, angle in enumerate(angles))
    return _polygon(*((round(2.5 + r * math.cos(a), 9), round(2.5 + r * math.sin(a), 9)) for r, a in corners))


SHAPES: dict[str, Shape] = {
    "circle": (disc(2.5, 2.5, 2.5),),
    "square": (rectangle(0.25, 0.25, 4.75, 4.75),),
    "triangle": _polygon((2.5, 0), (5, 4.5), (0, 4.5)),
    "diamond": _polygon((2.5, 0), (4.25, 2.5), (2.5, 5), (0.75, 2.5)),
    "cross": (rectangle(0, 1.75, 5, 3.25), rectangle(1.75, 0, 3.25, 5)),
    "star": _star(),
}
"""In a square of 5 x 5 units, of the proportions of the `eyechart`."""
PAPER, INK = 236, 20
"""Grey values of the `eyechart`'s ground and of its black."""
SIZES = (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)
WHICH_SHAPE = "What shape is in the picture?"


@acuity_test(
    "shape-size", "height of a shape", "px", SIZES,
    side=256, signs=SHAPES.__getitem__, chart=tuple(SHAPES), needs="shapes of {} px",
)  # fmt: skip
def shape_size(trial: Trial) -> Stimulus:
    """A circle, square, triangle, diamond, cross or star, dark on light, anywhere in the picture."""
    return _shape(trial, trial.level, INK)


LARGE = 96
"""Height of a shape in pixels where its contrast varies."""
CONTRASTS = tuple(step / PAPER for step in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 216))


@acuity_test(
    "shape-contrast", "Weber contrast of a shape of 96 px", "", CONTRASTS,
    side=256, signs=SHAPES.__getitem__, height=lambda _: LARGE, needs="shapes of a contrast of {}",
)  # fmt: skip
def shape_contrast(trial: Trial) -> Stimulus:
    """(ground - shape) / ground in pixel values, the ground being 236: each level is a whole grey value."""
    return _shape(trial, LARGE, round(PAPER * (1 - trial.level)))


def _shape(trial: Trial, height: float, ink: int) -> Stimulus:
    shape, *others = trial.rng.sample(sorted(SHAPES), 4)
    others.insert(trial.turn % 4, shape)
    canvas = trial.canvas(PAPER)
    canvas.put(SHAPES[shape], height / UNITS, trial.corner(canvas, height), ink)
    return stimulus(canvas, WHICH_SHAPE, others, shape)
