"""A letter behind blur, noise, compression or cover."""

from __future__ import annotations

import math

from snellen.psychometrics.stimuli.canvas import GREY, Canvas, rasterise
from snellen.psychometrics.stimuli.degrade import REACH, blurred, jpeg, noisy
from snellen.psychometrics.stimuli.optotypes import SLOAN, UNITS, put_letter
from snellen.psychometrics.stimuli.trials import Stimulus, Trial, acuity_test, stimulus
from snellen.suites.acuity.letters import WHICH_LETTER

SIGMAS = (0.5, 0.7, 1, 1.4, 2, 2.4, 2.8, 3.4, 4, 4.8, 5.6, 6.8, 8, 9.6, 11, 13.5, 16)


@acuity_test("blur", "standard deviation of a Gaussian blur of a letter of 48 px", "px", SIGMAS, "smaller")
def blur(trial: Trial) -> Stimulus:
    """Black on white before the blur, which is cut off at 3.5 standard deviations."""
    canvas, (letter, options) = trial.canvas(), trial.letter()
    mask, _ = blurred(rasterise(SLOAN[letter], 48 / UNITS), trial.level)
    canvas.put_mask(mask, trial.corner(canvas, 48 + 2 * math.ceil(REACH * trial.level)))
    return stimulus(canvas, WHICH_LETTER, options, letter)


RATIOS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
IN_NOISE = 64
"""Height of a letter in noise, in pixels."""
NOISE = 32
"""Largest standard deviation of the noise, in grey values: no pixel is cut off at black or white."""


@acuity_test(
    "noise", "difference of a letter from the ground by the noise's deviation", "", [r / NOISE for r in RATIOS],
    side=224, signs=SLOAN.__getitem__, height=lambda _: IN_NOISE,
)  # fmt: skip
def noise_ratio(trial: Trial) -> Stimulus:
    """A letter of 64 px, darker than the ground by level x 32, at most 64 grey values; noise on every pixel."""
    difference = min(round(trial.level * NOISE), 64)
    canvas, (letter, options) = trial.canvas(GREY + difference // 2), trial.letter()
    put_letter(canvas, letter, IN_NOISE, trial.corner(canvas, IN_NOISE), GREY + difference // 2 - difference)
    canvas.image = noisy(canvas.image, difference / trial.level, trial.rng)
    return stimulus(canvas, WHICH_LETTER, options, letter)


PALE = 160
QUALITIES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 90)


@acuity_test("jpeg", "JPEG quality of a picture with a pale letter of 8 px", "", QUALITIES)
def jpeg_quality(trial: Trial) -> Stimulus:
    """As libjpeg counts quality; of its losses those of quantisation alone. The letter is of a grey of 160 on white."""
    side = trial.side - trial.side % 8
    canvas, (letter, options) = Canvas(side, side), trial.letter()
    put_letter(canvas, letter, 8, trial.corner(canvas, 8), PALE)
    canvas.change(jpeg(canvas.image.tobytes(), side, side, int(trial.level)))
    return stimulus(canvas, WHICH_LETTER, options, letter)


SHARES = (
    *(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8),
    *(0.83, 0.86, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99),
)
COVER = 10
"""Cells in a row and a column of what covers the letter, and their width in pixels."""


@acuity_test("occlusion", "share of the square of a letter that is covered", "", SHARES, "smaller")
def occlusion(trial: Trial) -> Stimulus:
    """A letter of 100 px, of whose square so many hundredths, drawn at random, are painted grey."""
    canvas, (letter, options) = trial.canvas(), trial.letter()
    left, top = trial.corner(canvas, COVER * COVER)
    put_letter(canvas, letter, COVER * COVER, (left, top))
    for cell in trial.rng.sample(range(COVER * COVER), round(trial.level * COVER * COVER)):
        canvas.fill(left + cell % COVER * COVER, top + cell // COVER * COVER, COVER, COVER, GREY)
    return stimulus(canvas, WHICH_LETTER, options, letter)
