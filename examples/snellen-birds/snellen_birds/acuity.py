"""A psychometric test: how small may a bird be for a model to see where it looks?"""

from __future__ import annotations

from snellen.plugin_api import Stimulus, Trial, acuity_test, disc, stimulus

RIGHT = (disc(0.35, 0.6, 0.3), disc(0.65, 0.3, 0.2), (((0.8, 0.2), (1.0, 0.3), (0.8, 0.4)),))
LEFT = tuple(tuple(tuple((1 - x, y) for x, y in contour) for contour in part) for part in RIGHT)


@acuity_test(
    "bird-size", "height of a bird", "px", (3, 4, 6, 8, 12, 16, 24, 32, 48, 64), exemplars=4
)
def bird_size(trial: Trial) -> Stimulus:
    """Body, head and beak of a black bird that looks to the left or right."""
    canvas, side = trial.canvas(), trial.one_of(("left", "right"))
    canvas.put(LEFT if side == "left" else RIGHT, trial.level, trial.corner(canvas, trial.level))
    return stimulus(canvas, "To which side does the bird look?", ("left", "right"), side)
