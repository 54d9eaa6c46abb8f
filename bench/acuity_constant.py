"""A real reader at all levels of a test alike, with images that no test asks, as the judge of its placed threshold.

    python bench/acuity_constant.py tesseract jpeg                       # 48 images a level
    python bench/acuity_constant.py efficientnet-lite0 letter-size --each 96
    python bench/acuity_constant.py tesseract jpeg --answers jpeg.json   # keeps what was answered, or reads it again

Prints the share right and the share of replies that name no option at each level, the threshold by all these answers
(constant stimuli), and what 48 questions find that are placed anew, `--repeats` times, in 24 of them a level: the
spread of the thresholds, and how many of their intervals hold the constant one. `acuity_readers.py` says what each
reader needs.
"""

from __future__ import annotations

import argparse
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from acuity_readers import worker_of
from snellen import registry
from snellen.extraction import find_extractor
from snellen_lab.acuity import BUDGET, WIDTH
from snellen_lab.acuity.level_choice import batch_size, is_known, next_levels
from snellen_lab.acuity.thresholds import LevelScale, Threshold, threshold_of
from snellen_lab.acuity.trials import AcuityTest, Stimulus

LEARNT, POOL, CHANCE = 60, 24, 0.25
"""Exemplars of a level that a test asks or a reader has learnt from; those that a test may ask; one of four options."""
Answers = Mapping[float, Sequence[tuple[bool, bool]]]
"""By level, whether each was right, and whether it named no option."""


def reads(reader: str) -> Callable[[Stimulus], tuple[bool, bool]]:
    """What a reader makes of a question: right, and silent."""
    worker, extractor = worker_of(reader), find_extractor("standard")

    def answer(shown: Stimulus) -> tuple[bool, bool]:
        picture = Image.open(io.BytesIO(shown.images[-1]))
        if reader == "efficientnet-lite0":
            likely = int(np.argmax(worker.loglikelihood([], [picture], list(shown.options))))
            return likely == shown.right, False
        text = worker.generate([], [picture])
        choice = extractor.read(text, shown.options, tuple("ABCD")).choice if text else None
        return choice == shown.right, choice is None

    return answer


def asked(test: AcuityTest, reader: str, each: int, kept: Path | None) -> Answers:
    if kept is not None and kept.exists():
        return {
            float(level): [tuple(pair[:2]) for pair in own]
            for level, own in json.loads(kept.read_text()).items()
        }
    answer, answers = reads(reader), {}
    for level in test.levels:
        answers[level] = [
            answer(shown) for _, shown in list(test.at(level, exemplars=LEARNT + each))[LEARNT:]
        ]
        shares = [sum(column) / each for column in zip(*answers[level], strict=True)]
        print("{:8g}: {:.2f} right, {:.2f} silent".format(level, *shares), flush=True)
    if kept is not None:
        kept.write_text(json.dumps(answers))
    return answers


def threshold(test: AcuityTest, answers: Sequence[tuple[float, bool, bool]]) -> Threshold:
    pairs = [(level, bool(right)) for level, right, _ in answers]
    return threshold_of(test, "", "", pairs, CHANCE, silent=sum(silent for *_, silent in answers))


def placed(test: AcuityTest, answers: Answers, seed: int) -> Threshold:
    """What questions find that are placed in some of these answers, as `snellen acuity` places them."""
    scale, rng, given = LevelScale.of(test), random.Random(seed), list[tuple[float, bool, bool]]()
    free = [
        rng.sample(list(answers[level]), min(POOL, len(answers[level]))) for level in scale.levels
    ]
    while len(given) < BUDGET:
        pairs = [(level, bool(right)) for level, right, _ in given]
        known = scale.posterior(pairs, CHANCE, sum(silent for *_, silent in given))
        if is_known(known, WIDTH * scale.unit):
            break
        count = min(batch_size(len(given)), BUDGET - len(given))
        for place in next_levels(known, list(map(len, free)), count, rng):
            given.append((scale.levels[place], *free[place].pop()))
    return threshold(test, given)


def holds(found: Threshold, value: float) -> bool:
    least, most = found.bounds
    return (least is None or least <= value) and (most is None or value <= most)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reader", choices=["tesseract", "efficientnet-lite0"])
    parser.add_argument("test")
    parser.add_argument("--each", type=int, default=48, help="images of each level")
    parser.add_argument("--repeats", type=int, default=24)
    parser.add_argument("--answers", type=Path)
    words = parser.parse_args()
    test: AcuityTest = registry.find_registered("acuity_tests", words.test)
    answers = asked(test, words.reader, words.each, words.answers)
    constant = threshold(test, [(level, *pair) for level, own in answers.items() for pair in own])
    print(
        f"constant stimuli, {constant.trials}: {constant.text}; lapses {constant.lapse.value:.2f}"
    )
    found = [placed(test, answers, seed) for seed in range(words.repeats)]
    values = [each.value for each in found if each.value is not None]
    spread = ", ".join(f"{value:.3g}" for value in np.quantile(values, [0.025, 0.5, 0.975]))
    held = sum(holds(each, constant.value or 0.0) for each in found if each.value is not None)
    print(
        f"placed anew: {len(values)} of {len(found)} thresholds; 2.5%, middle, 97.5%: {spread}; {held} intervals hold"
    )


if __name__ == "__main__":
    main()
