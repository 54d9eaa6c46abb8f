"""What a check of questions declares, and what it is given. Another package adds one by the entry point group
`snellen.checks`.

Pictures that show the same although their bytes differ: saved again, in another format or size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Literal

from msgspec import Struct

from snellen.analysis.lint.material import LintMaterial, gather_material
from snellen.building.benchmark import Benchmark
from snellen.common.images import Images, decode_picture
from snellen.experiments.evaluation import silent
from snellen.records import Estimate, ImageRef
from snellen.runs.finding import Announce
from snellen.runs.plan import ProgressListener, ignore_progress

GREY_SIDE, COLOUR_SIDE = 32, 8
"""Pixels of the two reductions that are compared. Compression keeps brightness better than colours."""
GREY_LEVELS, COLOUR_LEVELS, QUARTER_LEVELS = 16, 24, 4
"""Of 256, by how much a pixel of them may differ, and the brightness of a quarter of the picture. An object that covers
a thousandth of the picture makes more of a difference."""
PROPORTIONS = 0.05


class Reduction(Struct, frozen=True):
    """What is compared of a picture."""

    proportion: float
    quarters: bytes
    """The brightness of each."""
    colours: bytes
    greys: bytes


def alike_pictures(images: Images, pictures: Sequence[ImageRef]) -> dict[str, str]:
    """For each picture, by digest, the first one that shows the same: colours and brightnesses of all its parts are
    nearly equal, and so are the proportions."""
    first: dict[str, str] = {}
    seen: dict[tuple[int, ...], list[tuple[str, Reduction]]] = defaultdict(list)
    for picture in pictures:
        own = _reduction(images, picture)
        # Whose quarters differ by no more than QUARTER_LEVELS is in the same cell of this width, or in one beside it.
        cell = tuple(level // (QUARTER_LEVELS + 1) for level in own.quarters)
        near = (seen.get(other, ()) for other in product(*((place, place - 1, place + 1) for place in cell)))
        same = (digest for group in near for digest, other in group if _shows_the_same(own, other))
        first[picture.digest] = first.get(next(same, ""), picture.digest)
        seen[cell].append((picture.digest, own))
    return first


def _shows_the_same(one: Reduction, other: Reduction) -> bool:
    return (
        _near(one.quarters, other.quarters, QUARTER_LEVELS)
        and abs(one.proportion / other.proportion - 1) <= PROPORTIONS
        and _near(one.colours, other.colours, COLOUR_LEVELS)
        and _near(one.greys, other.greys, GREY_LEVELS)
    )


def _near(one: bytes, other: bytes, levels: int) -> bool:
    return all(abs(a - b) <= levels for a, b in zip(one, other, strict=True))


def _reduction(images: Images, picture: ImageRef) -> Reduction:
    from PIL import Image

    whole = decode_picture(images.read(picture), f"image {picture.digest[:12]}").upright
    box = Image.Resampling.BOX
    small = whole.resize((GREY_SIDE, GREY_SIDE), box)
    colours, greys = small.resize((COLOUR_SIDE, COLOUR_SIDE), box), small.convert("L")
    quarters = greys.resize((2, 2), box).tobytes()
    return Reduction(whole.width / whole.height, quarters, colours.tobytes(), greys.tobytes())


Votes = Literal["majority", "all"]
"""How many of the jury's votes condemn an option: more than half of those that could be read, or every one."""


class Solvers(Struct, frozen=True):
    """The models that checks may ask, and how."""

    jury: tuple[Any, ...] = ()
    """Models, as strings or objects, that see the picture and vote on each option."""
    blind: tuple[Any, ...] = ()
    """Models that must not do better than chance without the picture, or with another one."""
    votes: Votes = "majority"
    wrongly: float = 0.3
    """Of the questions set apart because they were solved blind, the share that may be good ones."""
    runs: str = "runs"
    progress: ProgressListener = ignore_progress
    announce: Announce = silent


class ItemFault(Struct, frozen=True):
    """Why a question does not pass."""

    sample_id: str
    reason: str
    avoid: str = ""
    """The distractor at fault: with another one the question may be good. Empty where the question itself is."""


class CheckOutcome(Struct, frozen=True):
    """What a check found."""

    faults: Sequence[ItemFault]
    checked: int
    by: tuple[str, ...] = ()
    detail: str = ""
    estimate: Estimate | None = None
    """Of blind models: the highest of their accuracies on the questions that are not at fault."""
    chance: float | None = None
    """What guessing would score in its place."""


class CheckMaterial(Struct, frozen=True, dict=True):
    """What checks look at."""

    benchmark: Benchmark
    solvers: Solvers = Solvers()

    @cached_property
    def lint(self) -> LintMaterial:
        """The questions with their answers, texts folded."""
        return gather_material(self.benchmark)

    @cached_property
    def alike(self) -> dict[str, str]:
        """For each picture, by digest, the first one that shows the same."""
        return alike_pictures(self.benchmark.images, list(self.lint.pictures.values()))


class Check(Struct, frozen=True):
    """A check of questions, one by one."""

    title: str
    """What a question that fails has, in words."""
    run: Callable[[CheckMaterial], CheckOutcome]
    needs: Literal["", "jury", "blind"] = ""
    """The models that it asks; it is carried out only where some are named."""


def beyond_chance(hits: int, misses: int, chance: float) -> int:
    """How many of the hits luck does not explain, given the misses: without these the share of hits is chance."""
    return max(0, round(hits - misses * chance / (1 - chance)))
