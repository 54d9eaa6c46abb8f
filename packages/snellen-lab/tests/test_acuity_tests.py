"""The psychometric tests: the same images everywhere, levels measured in pixels, nothing else tells the answer."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snellen as sn
from acuity import NAMES, SMALL_SIDE, declared, digest, ink, picture, read_by_templates, stimuli
from observers import pool
from snellen import registry
from snellen.catalogue import entries
from snellen.errors import DataError, UnknownNameError
from snellen_lab.acuity.trials import Stimulus, acuity_test, written_level
from snellen_lab.acuity_suite.degraded import CELL_SIDE
from snellen_lab.acuity_suite.reader import read
from snellen_lab.acuity_suite.scenes import GROUND
from snellen_lab.acuity_suite.signs import (
    CROWDED,
    PAPER,
    PLACES_PER_ROW,
    READ_LETTERS,
)

DIGESTS = json.loads(Path(__file__).with_name("acuity_digests.json").read_text())
ndimage = pytest.importorskip("scipy.ndimage")


def answer(shown: Stimulus) -> str:
    return shown.options[shown.right]


def pixels(shown: Stimulus, number: int = 0) -> Any:
    """The share of ink in each pixel of an image in black on white."""
    return np.asarray(ink(shown, number), float) / 255


def things(shown: Stimulus) -> list[tuple[float, float, float]]:
    """Area and middle (x, y) of each connected thing, largest first."""
    share = pixels(shown)
    labels, count = ndimage.label(share > 0, structure=np.ones((3, 3)))
    areas = ndimage.sum_labels(share, labels, range(1, count + 1))
    middles = ndimage.center_of_mass(share, labels, range(1, count + 1))
    return sorted(((area, x, y) for area, (y, x) in zip(areas, middles, strict=True)), reverse=True)


# --- all of them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_test_draws_the_same_on_any_machine(name: str) -> None:
    """`python tests/acuity.py` writes the digests anew, where a test is changed on purpose."""
    assert digest(name) == DIGESTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_levels_are_in_order_and_read_back_from_their_tags(name: str) -> None:
    test = declared(name)
    assert list(test.levels) == sorted(set(test.levels)) and 16 <= len(test.levels) <= 144
    assert [float(written_level(level)) for level in test.levels] == [
        float(level) for level in test.levels
    ]


@pytest.mark.parametrize("name", NAMES)
def test_each_place_and_where_options_are_fixed_each_option_is_right_equally_often_at_a_level(
    name: str,
) -> None:
    test = declared(name)
    for level in (test.levels[1], test.levels[-2]):
        shown = stimuli(name, level, test.exemplars, SMALL_SIDE.get(name, 0))
        assert set(Counter(one.right for one in shown).values()) == {
            test.exemplars // len(shown[0].options)
        }
        assert all(len(set(one.options)) == len(one.options) for one in shown)
        assert len({one.images for one in shown}) == len(shown)


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_says_what_its_test_has(name: str) -> None:
    spec, test = entries()[f"acuity/{name}"], declared(name)
    assert (spec.expected.samples, spec.source.params["test"]) == (
        len(test.levels) * test.exemplars,
        name,
    )
    assert spec.source.params["exemplars"] == test.exemplars
    assert spec.source.params.get("side", test.side) == test.side


def test_a_level_has_the_same_pictures_whatever_other_levels_there_are() -> None:
    whole = {name: shown for _, name, shown in declared("aspect").stimuli(exemplars=4)}
    assert whole["aspect-1.25-02"] == stimuli("aspect", 1.25)[2]


@pytest.mark.parametrize(
    ("params", "kind", "fault"),
    [
        (
            {"test": "letter-sise"},
            UnknownNameError,
            "unknown acuity test 'letter-sise'; did you mean letter-size",
        ),
        ({}, DataError, "missing required field `test`"),
        ({"test": "blur", "size": 3}, DataError, "unknown field 'size'"),
        (
            {"test": "letter-size", "side": 100},
            DataError,
            "level 96 needs 96 px and a margin, more than fits an image",
        ),
    ],
)
def test_wrong_parameters_are_refused(
    params: dict[str, object], kind: type[Exception], fault: str
) -> None:
    with pytest.raises(kind, match=fault):
        list(read(params, None))


def test_who_always_says_the_same_is_at_chance_at_every_level(tmp_path: Path) -> None:
    results = sn.evaluate("snellen:always-a", pool("shape-contrast"), "vanilla", runs=tmp_path)
    assert results.value("accuracy", benchmark="acuity/shape-contrast") == 0.25


# --- levels, measured in pixels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["letter-size", "landolt-size", "tumbling-e-size", "second-picture"]
)
def test_a_sign_is_as_high_as_its_level(name: str) -> None:
    for level in declared(name).levels:
        shown = stimuli(name, level, 1, SMALL_SIDE[name])[0]
        left, top, right, bottom = ink(shown, len(shown.images) - 1).getbbox() or (0, 0, 0, 0)
        assert {bottom - top, right - left} - {math.ceil(level) - 1} == {
            math.ceil(level)
        }  # a gap takes a little


def test_a_shape_is_as_high_or_as_wide_as_its_level() -> None:
    for level in declared("shape-size").levels[3:]:
        sizes = []
        for shown in stimuli("shape-size", level, 12, SMALL_SIDE["shape-size"]):
            left, top, right, bottom = ink(shown).getbbox() or (0, 0, 0, 0)
            assert max(right - left, bottom - top) <= level, answer(shown)
            sizes.append(max(right - left, bottom - top) / level)
        assert max(sizes) == 1 and min(sizes) > 0.85


def test_levels_that_no_decimal_holds_are_those_of_their_tags() -> None:
    thirds = acuity_test("thirds", "thirds", "", (1 / 3, 2 / 3))(declared("contrast").draw)
    assert [level for level, *_ in thirds.stimuli()][::24] == [
        written_level(level) for level in thirds.levels
    ]
    assert (
        [float(level) for level, *_ in thirds.stimuli()][::24]
        == list(thirds.levels)
        == [0.3333333333, 0.6666666667]
    )


def test_a_gap_is_as_long_as_its_level() -> None:
    for level in declared("gap").levels:
        for shown in stimuli("gap", level):
            share = pixels(shown)
            rows = np.nonzero(share.any(axis=1))[0]
            upper, lower = share[: rows[0] + 40].sum(), share[rows[0] + 40 :].sum()
            assert max(upper, lower) == 4 * 160
            assert max(upper, lower) - min(upper, lower) == pytest.approx(4 * level, abs=0.02)
            assert (upper < lower) == (answer(shown) == "the upper one")


def test_the_upper_line_is_off_by_its_level() -> None:
    for level in declared("vernier").levels:
        for shown in stimuli("vernier", level):
            upper, lower = sorted(things(shown), key=lambda thing: thing[2])
            assert upper[1] - lower[1] == pytest.approx(
                level if answer(shown) == "right" else -level, abs=0.006
            )


def test_a_line_leans_by_its_level() -> None:
    for level in declared("angle").levels:
        for shown in stimuli("angle", level):
            share = pixels(shown)
            rows = np.nonzero(share.sum(axis=1) > 3.9)[0][3:-3]
            middles = (share[rows] * np.arange(share.shape[1])).sum(axis=1) / share[rows].sum(
                axis=1
            )
            lean = -math.degrees(math.atan(np.polyfit(rows, middles, 1)[0]))
            assert lean == pytest.approx(
                level if answer(shown) == "right" else -level, rel=0.02, abs=0.005
            )


def test_the_further_thing_is_further_by_its_level() -> None:
    for level in declared("distance").levels:
        for shown in stimuli("distance", level):
            # Circle 154 px, square 144, cross 68.
            circle, square, cross = things(shown)
            to_circle, to_square = (math.dist(thing[1:], cross[1:]) for thing in (circle, square))
            assert max(to_circle, to_square) / min(to_circle, to_square) == pytest.approx(
                level, rel=2e-3
            )
            assert (to_circle < to_square) == (answer(shown) == "the circle")


@pytest.mark.parametrize(("name", "ground"), [("contrast", GROUND), ("shape-contrast", PAPER)])
def test_contrast_is_exact_in_grey_values(name: str, ground: int) -> None:
    for level in declared(name).levels:
        shown = picture(stimuli(name, level, 1, SMALL_SIDE[name])[0])
        low, high = shown.getextrema()
        assert high == ground and (high - low) / high == pytest.approx(level, abs=1e-10)  # type: ignore[operator]


def test_colours_differ_by_their_level() -> None:
    for level in declared("colour-difference").levels:
        for shown in stimuli("colour-difference", level):
            assert float(shown.tags["difference"]) == pytest.approx(level, rel=0.0105)


def test_dots_are_as_many_as_the_right_option_says() -> None:
    for level in declared("numerosity").levels:
        shown = stimuli("numerosity", level)
        assert [len(things(one)) for one in shown] == [int(answer(one)) for one in shown]
        assert sum(int(option) for option in shown[0].options) / 4 == level


def test_one_sign_points_another_way_where_the_answer_is_yes() -> None:
    for level in declared("search").levels:
        for shown in stimuli("search", level):
            share = pixels(shown)
            labels, count = ndimage.label(share, structure=np.ones((3, 3)))
            assert count == level + 1
            kinds = Counter(share[box].tobytes() for box in ndimage.find_objects(labels))
            assert sorted(kinds.values()) == ([1, level] if answer(shown) == "yes" else [level + 1])


def test_flankers_stand_at_their_distance() -> None:
    for level in declared("crowding").levels:
        left, top, right, bottom = ink(stimuli("crowding", level, 1)[0]).getbbox() or (0, 0, 0, 0)
        assert (bottom - top, right - left) == (CROWDED + 2 * level * CROWDED,) * 2


def test_a_line_has_its_letters_and_one_of_the_words_alone() -> None:
    for level in declared("line-length").levels:
        shown = stimuli("line-length", level, 1)[0]
        assert len(things(shown)) == level
        assert all(
            sum(a != b for a, b in zip(answer(shown), option, strict=True)) <= 1
            for option in shown.options
        )


@pytest.mark.parametrize(
    ("side", "cells"), [(168, range(PLACES_PER_ROW * PLACES_PER_ROW)), (672, (0, 11, 78, 132, 143))]
)
def test_places_are_in_their_cells_and_where_their_tags_say(
    side: int, cells: Sequence[int]
) -> None:
    for cell in cells:
        for shown in stimuli("place", cell, 4, side):
            x, y = map(int, shown.tags["place"].split(","))
            left, top, right, bottom = ink(shown).getbbox() or (0, 0, 0, 0)
            assert (top, bottom) == (y - 6, y + 6) and left >= x - 6 and right <= x + 6
            assert (min(x * PLACES_PER_ROW // side, 11), min(y * PLACES_PER_ROW // side, 11)) == (
                cell % PLACES_PER_ROW,
                cell // PLACES_PER_ROW,
            )


def test_pictures_have_the_size_and_shape_of_their_level() -> None:
    for name in ("picture-size", "resolution"):
        assert all(
            picture(stimuli(name, side, 1)[0]).size == (side, side)
            for side in declared(name).levels
        )
    for ratio in declared("aspect").levels:
        width, height = picture(stimuli("aspect", ratio, 1)[0]).size
        assert width / height == ratio and width * height == pytest.approx(448**2, rel=0.04)


def test_the_covered_share_is_exact() -> None:
    for level in declared("occlusion").levels:
        shown = picture(stimuli("occlusion", level, 1, SMALL_SIDE["occlusion"])[0])
        cells = shown.histogram()[128] / CELL_SIDE**2
        assert cells == pytest.approx(100 * level, abs=1)  # a rounded edge may have that grey, too


# --- a reader by templates ---------------------------------------------------------------------------------------

READ = {
    "letter-size": lambda level: level,
    "landolt-size": lambda level: level,
    "tumbling-e-size": lambda level: level,
    "second-picture": lambda level: level,
    "resolution": lambda level: level / 16,
    "picture-size": lambda level: 24,
    "aspect": lambda level: 24,
    "place": lambda level: 12,
    "contrast": lambda level: 120,
    "shape-size": lambda level: level,
    "shape-contrast": lambda level: 96,
    "blur": lambda level: 48,
    "noise": lambda level: 64,
    "jpeg": lambda level: 8,
    "occlusion": lambda level: 100,
}


def share_right(name: str, level: float, exemplars: int) -> float:
    ring = name in ("landolt-size", "contrast")
    shown = stimuli(name, level, exemplars, SMALL_SIDE.get(name, 0))
    right = [
        read_by_templates(one, READ[name](level), ring=ring, number=len(one.images) - 1)
        == one.right
        for one in shown
    ]
    return sum(right) / len(right)


@pytest.mark.parametrize("name", READ)
def test_who_knows_the_signs_reads_the_easiest_level(name: str) -> None:
    test = declared(name)
    easiest = test.levels[0 if test.easier == "smaller" else -1]
    assert share_right(name, easiest, 8) == 1


@pytest.mark.parametrize("name", ["noise", "occlusion", "jpeg"])
def test_and_not_the_hardest_where_the_picture_does_not_say(name: str) -> None:
    test = declared(name)
    hardest = test.levels[-1 if test.easier == "smaller" else 0]
    assert share_right(name, hardest, 12) < 0.75


def test_letters_that_are_offered_are_no_labels_of_options() -> None:
    assert not set(READ_LETTERS) & set("ABCDEFG")


def test_the_suite_is_a_source_by_name() -> None:
    assert registry.find_registered("readers", "acuity") is read and len(NAMES) == 24
