"""The eye chart: the same images and questions everywhere, and golds that the scene itself confirms."""

from __future__ import annotations

import hashlib
import io
import math
import random
import zlib
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.common.seeds import rng_for
from snellen.errors import DataError, UnknownNameError
from snellen.formats import png
from snellen.scoring.answers import open_answers
from snellen.suites.eyechart.reader import (
    TASKS,
    DrawnQuestion,
    captions,
    make_question,
    phrase,
    read,
)
from snellen.suites.eyechart.scenes import (
    CANVAS,
    LEVELS,
    PLACES,
    SCENE_PALETTE,
    SHAPE_COLOURS,
    SHAPE_KINDS,
    WORDS,
    Level,
    Scene,
    Shape,
    paint,
    to_png,
)

ROUNDS = 150
VERSIONS = {
    "caption": "7dc41dc07a20cc9d",
    "caption-choice": "863bcee9f2ea93e6",
    "colour": "3033ffa5cd8cc381",
    "count": "c381eaab460f23fe",
    "dialogue": "205a0e8dab2563e7",
    "exists": "f7e994d1a35f6502",
    "match": "ddd092fa63c38be3",
    "odd": "8d29d3557a2ac7f3",
    "place": "22dfe0c23418e20f",
    "position": "753fdd481e536247",
    "relation": "18e9350a0a227663",
    "shape": "4ed8673de2b54098",
    "size": "4cf2f2ac61ed46fe",
    "word": "39b8e84a63b62202",
}
PICTURES = {
    "shape": "b0ac8b62ad1258d2f6c6e2727c5978d46381479d0de21eb0826a87e336926357",
    "colour": "ddbed764663a32aec17dfad8ee9c754510467b6ec79c5eae201c810fb6e55eb1",
    "count": "7828558f159cb4b73ee745c10270a0834e5e77d5858a22542196ca3ba3775023",
    "relation": "2219a6321dff68ce86b9d7d096883d900b3bd8eb87528adcf9d44b462d4af93c",
    "word": "60605c70f92765b98acdc63e3d44c079055db3e94f6f35f66dc7c0d6df304535",
    "place": "feeeecd1e146682ca1c3f679296200ee46cad4fcb808f3fb8694817e7fa6c53e",
}


def made(task: str, level: Level, number: int) -> tuple[Scene, tuple[DrawnQuestion, ...]]:
    return make_question(task, level, rng_for("eyechart", task, "test", level, number))


# --- the same everywhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "digest"), PICTURES.items())
def test_a_picture_has_the_same_bytes_on_any_machine(task: str, digest: str) -> None:
    scene, _ = made(task, "hard", 0)
    assert hashlib.sha256(to_png(paint(scene))).hexdigest() == digest


@pytest.mark.slow
def test_the_versions_of_the_suite_are_what_they_were(eyechart: Mapping[str, Benchmark]) -> None:
    # A version digests all questions, answers and images of 300 samples.
    assert {task: benchmark.manifest.version for task, benchmark in eyechart.items()} == VERSIONS


def test_the_suite_has_the_counts_that_its_entries_promise(
    eyechart: Mapping[str, Benchmark],
) -> None:
    for task, benchmark in eyechart.items():
        assert benchmark.manifest.warnings == ()
        assert benchmark.manifest.counts.samples == 300
        assert (
            benchmark.manifest.counts.questions
            == benchmark.manifest.counts.answers
            == 300 * (1 + 3 * (task == "dialogue"))
        )
        assert benchmark.manifest.tags["level"] == dict.fromkeys(sorted(LEVELS), 100)


def test_train_and_test_share_no_picture(eyechart: Mapping[str, Benchmark]) -> None:
    shown = {
        image.digest for b in eyechart.values() for sample in b.samples() for image in sample.images
    }
    for task in TASKS:
        train = read({"task": task, "split": "train", "count": 60}, None)
        assert not shown & {
            hashlib.sha256(d.images[0]).hexdigest() for d in train if isinstance(d.images[0], bytes)
        }


def test_a_larger_count_keeps_the_questions_of_a_smaller() -> None:
    few, many = (list(read({"task": "count", "count": count}, None)) for count in (6, 12))
    assert many[:6] == few


@pytest.mark.parametrize(
    ("params", "kind", "fault"),
    [
        (
            {"task": "colours"},
            UnknownNameError,
            "unknown eyechart task 'colours'; did you mean colour",
        ),
        ({}, DataError, "missing required field `task`"),
        ({"task": "word", "size": 3}, DataError, "unknown field 'size'"),
        ({"task": "word", "levels": ["extreme"]}, DataError, "Invalid enum value 'extreme'"),
    ],
)
def test_wrong_parameters_are_refused(
    params: dict[str, object], kind: type[Exception], fault: str
) -> None:
    with pytest.raises(kind, match=fault):
        list(read(params, None))


# --- images ----------------------------------------------------------------------------------------------------


@given(
    st.integers(1, 70), st.integers(1, 9), st.integers(0, 2**32), st.sampled_from([1, 2, 5, 256])
)
def test_pillow_decodes_the_pixels_that_were_encoded(
    width: int, height: int, seed: int, colours: int
) -> None:
    rng = random.Random(seed)
    palette = [(rng.randrange(256), rng.randrange(256), rng.randrange(256)) for _ in range(colours)]
    run = rng.choice([1, 3, 300])
    drawn = bytes(rng.randrange(colours) for _ in range(width * height // run + 1))
    pixels = b"".join(bytes([value]) * run for value in drawn)[: width * height]
    with Image.open(io.BytesIO(png.encode_png(width, height, pixels, palette))) as picture:
        assert (picture.size, picture.mode) == ((width, height), "P")
        assert picture.tobytes() == pixels
        assert picture.convert("RGB").tobytes() == b"".join(
            bytes(palette[value]) for value in pixels
        )


@st.composite
def rows(draw: st.DrawFn) -> tuple[bytes, int]:
    """Rows of a filter byte and so many others, of which most are as the row above; and how many."""
    width = draw(st.integers(1, 300))
    same = png.UP + bytes(width)
    drawn = st.lists(
        st.binary(max_size=4).map(lambda start: (start + same)[: width + 1])
        | st.just(same)
        | st.just(same * 40)
    )
    return b"".join(draw(drawn)), width


@given(
    st.tuples(st.binary(max_size=2000), st.integers(1, 40))
    | st.tuples(
        st.builds(lambda value, n: bytes([value]) * n, st.integers(0, 255), st.integers(0, 2000)),
        st.just(7),
    )
    | rows()
)
def test_zlib_inflates_what_was_deflated(content: tuple[bytes, int]) -> None:
    assert zlib.decompress(png._deflate(*content)) == content[0]


@given(st.integers(1, 600), st.integers(1, 50))
def test_rows_at_once_have_the_codes_of_each_row(width: int, count: int) -> None:
    bits, size = 0, 0
    for _ in range(count):
        for code, code_size in (png._repeated(png.UP[0], 1), png._repeated(0, width)):
            bits |= code << size
            size += code_size
    assert png._same_rows(width, count) == (bits, size)


def test_a_picture_of_the_chart_stays_small() -> None:
    # Indexed images of one kilobyte or a few: the whole suite is built in seconds and copied in no time.
    sizes = [len(to_png(paint(made(task, level, 0)[0]))) for task in TASKS for level in LEVELS]
    assert max(sizes) < 12_000


def test_a_colour_in_the_scene_is_the_colour_in_the_picture() -> None:
    for number in range(60):
        scene, _ = made("colour", LEVELS[number % 3], number)
        picture = paint(scene).convert("RGB")
        for thing in scene.shapes:
            assert picture.getpixel((thing.x, thing.y)) == SCENE_PALETTE[thing.colour]


def test_shapes_stay_on_the_canvas_and_apart_in_crowds() -> None:
    for task in ("colour", "count", "odd"):
        for number in range(ROUNDS):
            scene, _ = made(task, LEVELS[number % 3], number)
            for i, thing in enumerate(scene.shapes):
                assert thing.radius <= min(
                    thing.x, thing.y, CANVAS - 1 - thing.x, CANVAS - 1 - thing.y
                )
                for other in scene.shapes[:i]:
                    assert (
                        max(abs(thing.x - other.x), abs(thing.y - other.y))
                        > thing.radius + other.radius - 2
                    )


def test_every_word_can_be_drawn_inside_the_picture() -> None:
    for number in range(ROUNDS):
        scene, _ = made("word", LEVELS[number % 3], number)
        (x, y), scale = scene.word_at, scene.word_scale
        assert x >= 0
        assert y >= 0
        assert x + (6 * len(scene.word) - 1) * scale <= CANVAS
        assert y + 7 * scale <= CANVAS


# --- golds, checked from the scene by other means than the question's own ----------------------------------------


def corner(thing: Shape) -> str:
    angle = math.degrees(math.atan2(CANVAS / 2 - thing.y, thing.x - CANVAS / 2)) % 360
    return ("top right", "top left", "bottom left", "bottom right")[int(angle // 90)]


def side(first: Shape, second: Shape) -> str:
    angle = math.degrees(math.atan2(second.y - first.y, first.x - second.x)) % 360
    return ("right of", "above", "left of", "below")[int(((angle + 45) % 360) // 90)]


def by_kind(scene: Scene, kind: str) -> Shape:
    [thing] = [thing for thing in scene.shapes if thing.kind == kind]
    return thing


def truths(task: str, scene: Scene, question: str) -> set[str]:
    """All options that are true of the scene."""
    things, words = scene.shapes, question.rstrip("?").split()
    described = {phrase(thing) for thing in things}
    match task:
        case "shape":
            return {thing.kind for thing in things}
        case "place":
            return {scene.place}
        case "colour":
            return {by_kind(scene, words[-1]).colour}
        case "count":
            return {str(sum(words[2] in (thing.kind + "s", thing.kind + "es") for thing in things))}
        case "size":
            extent = (max if words[-1] == "larger" else min)(thing.radius for thing in things)
            return {f"the {thing.kind}" for thing in things if thing.radius == extent}
        case "exists":
            return {"yes" if any(one in question for one in described) else "no"}
        case "match":
            return {"yes" if question.partition(": ")[2].rstrip("?") in described else "no"}
        case "odd":
            return {
                kind
                for kind, count in Counter(thing.kind for thing in things).items()
                if count == 1
            }
        case "position":
            return {corner(thing) for thing in things}
        case "relation":
            return {side(by_kind(scene, words[3]), by_kind(scene, words[-1]))}
        case "caption-choice":
            return described
    raise AssertionError(task)


CHOICES = [task for task in TASKS if task not in ("word", "caption", "dialogue")]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("task", CHOICES)
def test_the_gold_is_the_only_option_that_is_true_of_the_scene(task: str, level: Level) -> None:
    for number in range(ROUNDS):
        scene, [item] = made(task, level, number)
        true = truths(task, scene, item.question)
        assert [option for option in item.options if option in true] == [item.options[item.gold]], (
            number,
            item,
        )


@pytest.mark.parametrize("level", LEVELS)
def test_every_round_of_a_dialogue_is_about_the_one_shape_there_is(level: Level) -> None:
    for number in range(ROUNDS):
        scene, items = made("dialogue", level, number)
        [thing] = scene.shapes
        shape, colour, place, claim = items
        assert shape.options[shape.gold] == thing.kind
        assert colour.options[colour.gold] == thing.colour
        assert place.options[place.gold] == corner(thing)
        assert claim.options[claim.gold] == ("yes" if phrase(thing) in claim.question else "no")


@pytest.mark.parametrize("level", LEVELS)
def test_open_questions_have_the_references_that_the_scene_gives(level: Level) -> None:
    for number in range(ROUNDS):
        scene, [item] = made("word", level, number)
        assert item.texts == (scene.word,)
        assert scene.word in WORDS[level]
        scene, [item] = made("caption", level, number)
        assert len(set(item.texts)) == 5
        assert item.texts == captions(scene)
        assert all(
            thing.colour in item.texts[0] and thing.kind in item.texts[0] for thing in scene.shapes
        )
        if len(scene.shapes) == 2:
            first, second = sorted(scene.shapes, key=lambda thing: item.texts[0].index(thing.kind))
            assert f" {side(first, second)} " in item.texts[0]


@pytest.mark.parametrize("task", TASKS)
def test_options_are_distinct_and_known_words(task: str) -> None:
    known = {
        *SHAPE_KINDS,
        *SHAPE_COLOURS,
        *PLACES,
        "yes",
        "no",
        *(f"the {kind}" for kind in SHAPE_KINDS),
    }
    for number in range(ROUNDS):
        _, items = made(task, LEVELS[number % 3], number)
        for item in items:
            assert len(set(item.options)) == len(item.options) != 1
            assert (item.gold >= 0) == bool(item.options) != bool(item.texts)
            if task in ("shape", "place", "colour", "size", "exists", "match", "odd"):
                assert set(item.options) <= known


def test_the_gold_stands_in_every_place_about_equally_often(
    eyechart: Mapping[str, Benchmark],
) -> None:
    for task, benchmark in eyechart.items():
        sizes = {
            (s.id, turn): len(r.options)
            for s in benchmark.samples()
            for turn, r in enumerate(s.rounds)
        }
        places = Counter(
            (sizes[key], a.options[0])
            for key, a in open_answers(benchmark.folder).items()
            if a.options
        )
        for size in {count for count, _ in places}:
            total = sum(n for (count, _), n in places.items() if count == size)
            share = [places[size, place] / total for place in range(size)]
            room = 5 * math.sqrt(
                (1 / size) * (1 - 1 / size) / total
            )  # five standard errors of a fair die
            assert max(abs(one - 1 / size) for one in share) < room, (task, size, share)


@pytest.mark.parametrize("level", LEVELS)
def test_the_numbers_that_are_offered_tell_nothing_of_how_many_there_are(level: Level) -> None:
    golds = Counter(
        (item.options, item.gold) for n in range(4000) for item in made("count", level, n)[1]
    )
    for options in {options for options, _ in golds}:
        shown = [golds[options, place] for place in range(4)]
        assert max(shown) - min(shown) < 8 * math.sqrt(sum(shown) / 4), (options, shown)


@pytest.mark.parametrize("level", LEVELS)
def test_captions_that_are_offered_are_alike_so_that_none_looks_like_their_source(
    level: Level,
) -> None:
    for number in range(ROUNDS):
        [item] = made("caption-choice", level, number)[1]
        words = Counter(word for option in item.options for word in option.split()[1:])
        assert set(words.values()) == {1 if level == "easy" else 2}


def test_every_kind_of_answer_occurs(eyechart: Mapping[str, Benchmark]) -> None:
    def golds(task: str) -> set[str]:
        options = {sample.id: sample.options for sample in eyechart[task].samples()}
        answers = open_answers(eyechart[task].folder).values()
        return {options[answer.sample_id][answer.options[0]] for answer in answers}

    assert golds("shape") == golds("odd") == set(SHAPE_KINDS)
    assert golds("colour") == set(SHAPE_COLOURS)
    assert golds("place") == set(PLACES)
    assert golds("relation") == {"left of", "right of", "above", "below"}
    assert golds("count") == {str(number) for number in range(1, 10)}


def test_the_embedded_suite_is_a_source_by_name() -> None:
    assert registry.find_registered("readers", "eyechart") is read
