"""Spatial understanding, and expressions that refer to regions: CLEVR, VSR, Matterport3D, RefCOCO."""

from __future__ import annotations

import io
import pickle
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pictures

import reform
import small
from snellen.building.recipe import Recipe
from snellen.common.images import ImageStore
from snellen.suites.reform_eval.readers.matterport import (
    WRONG_RELATIONS,
    HouseImage,
    HouseObject,
    Relation,
    View,
    project_box,
    spatial_facts,
)

OBJECTS = (
    ("dog", "animal"),
    ("cat", "animal"),
    ("horse", "animal"),
    ("cow", "animal"),
    ("person", "person"),
)


def refcoco(folder: Path, by: str = "p") -> None:
    """Ten regions in five images, two expressions each; one object belongs to another split."""
    annotations, refs = [], []
    for number in range(11):
        picture = number % 5
        reform.write_picture(
            folder / "train2014" / f"COCO_train2014_{picture:012d}.jpg", picture, (120, 90)
        )
        box = [5.5 + number, 7.25, 40, 30]
        category = number % 5 + 1
        annotations.append(
            {
                "id": 900 + number,
                "image_id": picture,
                "category_id": category,
                "bbox": box,
                "iscrowd": 0,
            }
        )
        name = OBJECTS[number % 5][0]
        texts = (f"{name} number {number}", f"the {number}th {name} over there", "left one")[
            : 3 if number < 2 else 2
        ]
        refs.append(
            {
                "ref_id": number,
                "ann_id": 900 + number,
                "category_id": category,
                "image_id": picture,
                "file_name": f"COCO_train2014_{picture:012d}_{number}.jpg",
                "split": "testA" if number == 10 else "val",
                "sent_ids": [],
                "sentences": [
                    {
                        "sent_id": number * 3 + place,
                        "sent": text,
                        "raw": text.upper(),
                        "tokens": text.split(),
                    }
                    for place, text in enumerate(texts)
                ],
            }
        )
    content = {
        "images": [{"id": n, "file_name": f"COCO_train2014_{n:012d}.jpg"} for n in range(5)],
        "annotations": annotations,
        "categories": [
            {"id": i, "name": name, "supercategory": group}
            for i, (name, group) in enumerate(OBJECTS, 1)
        ],
    }
    reform.write_json(folder / "refcoco" / "instances.json", content)
    if by == "p":
        (folder / "refcoco" / "refs(unc).p").write_bytes(pickle.dumps(refs, protocol=0))
    else:
        reform.write_json(folder / "refcoco" / "refs(unc).json", refs)


FAMILIES: dict[int, tuple[list[str], tuple[str, ...]]] = {
    0: (
        ["scene", "filter_color", "unique", "relate", "filter_shape", "count"],
        ("0", "1", "2", "3", "4"),
    ),
    1: (["scene", "unique", "relate", "exist"], ("yes", "no")),
    2: (
        ["scene", "unique", "relate", "unique", "relate", "query_shape"],
        ("cube", "sphere", "cylinder"),
    ),
    3: (
        ["scene", "relate", "scene", "relate", "intersect", "unique", "query_color"],
        ("red", "blue", "gray", "cyan"),
    ),
    7: (["scene", "relate", "union", "count"], ("1", "2")),
    8: (["scene", "relate", "query_size", "equal_size"], ("yes", "no")),
    9: (["scene", "relate", "count", "less_than"], ("yes", "no")),
    10: (["scene", "same_color", "exist"], ("yes", "no")),
}
"""Functions and answers by family; the first four are about space alone."""


def clevr(folder: Path) -> None:
    questions = []
    for number in range(48):
        family = list(FAMILIES)[number % 8]
        functions, answers = FAMILIES[family]
        name = f"CLEVR_val_{number // 4:06d}.png"
        reform.write_picture(folder / "CLEVR_v1.0" / "images" / "val" / name, number // 4)
        questions.append(
            {
                "question_index": number,
                "question_family_index": family,
                "image_index": number // 4,
                "image_filename": name,
                "split": "val",
                "question": f"What is it, number {number}?",
                "answer": answers[number // 8 % len(answers)],
                "program": [
                    {"function": one, "inputs": [], "value_inputs": []} for one in functions
                ],
            }
        )
    reform.write_json(
        folder / "CLEVR_v1.0" / "questions" / "CLEVR_val_questions.json",
        {"info": {}, "questions": questions},
    )


RELATIONS = (
    "under",
    "left of",
    "contains",
    "touching",
    "in front of",
    "far from",
    "beneath",
    "facing",
)


def vsr(folder: Path) -> None:
    """Sixteen pairs; every third is false."""
    rows = []
    for number in range(16):
        relation = RELATIONS[number % 8]
        verb = "" if relation == "contains" else "is "
        image = f"{number:012d}.jpg"
        reform.write_picture(folder / ("train2017", "val2017")[number % 2] / image, number)
        rows.append(
            {
                "image": image,
                "image_link": f"http://images.cocodataset.org/train2017/{image}",
                "caption": f"The cat number {number} {verb}{relation} the laptop.",
                "label": int(number % 3 > 0),
                "relation": relation,
                "annotator_id": 1,
                "reference_frame": None,
            }
        )
    small.write(rows, folder / "splits" / "random" / "test.jsonl")


SIZE, FOCAL, CENTRE = (300, 240), 150, (150, 120)
THINGS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float], float]] = {
    "table": ((-0.8, 0, -3), (0.3, 0.3, 0.1), 2.95),
    "lamp": ((0.8, 0, -3), (0.3, 0.3, 0.1), 2.95),
    "picture#frame": ((-0.8, 1, -3), (0.3, 0.3, 0.1), 2.95),
    "sofa": ((0, -1.5, -5), (0.7, 0.4, 0.2), 4.9),
    "stool": ((0.25, -0.5, -1.2), (0.15, 0.15, 0.1), 1.15),
    "chair": ((0.8, 1, -3), (0.3, 0.3, 0.1), 1.5),
    "window": ((1.6, 1, -3.4), (0.2, 0.2, 0.1), 3.4),
    "wall": ((0, 0, -6), (2, 2, 0.1), 6),
}
"""Centre, radii and measured depth in metres. Something stands before the chair; there are two windows."""


def house(name: str, panoramas: int) -> str:
    """A `.house` file: a room per panorama, all alike, cameras at the origin."""
    lines = ["ASCII 1.1", f"H  {name}  -  6 1 0 0 0 9 9 1 0 1  0 0 0 0 0  0 0 0 1 1 1  0 0 0 0 0"]
    lines += ["P  0  0 1  -  0 0 0 1 1 1  0 0 0 0"]
    lines += [f"P  pano{p}  {p} {p}  0  0 0 0  0 0 0 0 0" for p in range(panoramas)]
    pose = "1 0 0 0  0 1 0 0  0 0 1 0  0 0 0 1"
    camera = f"{FOCAL} 0 {CENTRE[0]}  0 {FOCAL} {CENTRE[1]}  0 0 1  {SIZE[0]} {SIZE[1]}"
    lines += [
        f"I  {n} {p}  pano{p} {n // 2} {n % 2}  {pose}  {camera}  0 0 0  0 0 0 0 0"
        for p in range(panoramas)
        for n in range(6)
    ]
    lines += [
        f"C  {i}  {i} {thing}  3 {'wall' if thing == 'wall' else 'furniture'}  0 0 0 0 0"
        for i, thing in enumerate(THINGS)
    ]
    for p in range(panoramas):
        for i, (thing, ((x, y, z), radii, _)) in enumerate(THINGS.items()):
            sides = " ".join(map(str, radii))
            lines.append(f"O  {i} {p} {i}  {x} {y} {z}  1 0 0  0 1 0  {sides}  0 0 0 0 0 0 0 0")
            if thing == "window":
                lines.append(
                    f"O  {i} {p} {i}  {-x} {y} {z}  1 0 0  0 1 0  {sides}  0 0 0 0 0 0 0 0"
                )
    return "\n".join([*lines, "E  0 0 0 1  0 0 0  0 0 0 1 1 1  0 0 0 0 0", ""])


def matterport(folder: Path, *, annotated: str = "csv") -> None:
    scan = folder / "v1" / "scans" / "1pXnuDYAj8r" / "1pXnuDYAj8r"
    (scan / "house_segmentations").mkdir(parents=True)
    (scan / "house_segmentations" / "1pXnuDYAj8r.house").write_text(house("1pXnuDYAj8r", 3))
    metres = array("H", [8 * 4000] * (SIZE[0] * SIZE[1]))
    for (x, up, z), _, measured in THINGS.values():
        column, row = CENTRE[0] + FOCAL * x / -z, SIZE[1] - CENTRE[1] - FOCAL * up / -z
        for y in range(int(row) - 6, int(row) + 7):
            metres[y * SIZE[0] + int(column) - 6 : y * SIZE[0] + int(column) + 7] = array(
                "H", [int(measured * 4000)] * 13
            )
    depth = Pictures.frombytes("I;16", SIZE, metres.tobytes())
    for panorama in range(3):
        for yaw in range(2):
            colour = scan / "undistorted_color_images" / f"pano{panorama}_i1_{yaw}.jpg"
            reform.write_picture(colour, panorama * 2 + yaw, SIZE)
            path = scan / "undistorted_depth_images" / f"pano{panorama}_d1_{yaw}.png"
            path.parent.mkdir(exist_ok=True)
            depth.save(path)
    rows = []
    for number in range(4):
        reform.write_picture(folder / "by_hand" / f"{number}.jpg", 40 + number)
        relation = ("on top of", "next to")[number % 2]
        rows.append(
            {
                "image": f"by_hand/{number}.jpg",
                "subject": "vase",
                "relation": relation,
                "object": "shelf",
            }
        )
    if annotated:
        small.write(rows, folder / f"annotated.{annotated}")


MINIATURES: dict[str, tuple[Callable[[Path], None], int]] = {
    "refcoco-res": (refcoco, 22),
    "clevr": (clevr, 24),
    "vsr": (vsr, 10),
    "mp3d-spatial": (matterport, 22),
}


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "official"
    MINIATURES[request.param][0](folder)
    return folder


@pytest.mark.parametrize(
    ("name", "source"), [(name, name) for name in MINIATURES], indirect=["source"]
)
def test_a_benchmark_goes_through_build_run_and_score(
    name: str, source: Path, tmp_path: Path
) -> None:
    benchmark = reform.made(name, source, tmp_path)
    assert benchmark.manifest.counts.samples == MINIATURES[name][1]
    assert {len(sample.options) for sample in benchmark.samples()} == {4}
    reform.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "source", "built"),
    [
        ("refcoco-res", "refcoco-res", 22),
        ("clevr", "clevr", 2),
        ("vsr", "vsr", 1),
        ("mp3d-spatial", "mp3d-spatial", 2),
    ],
    indirect=["source"],
)
def test_the_paper_draws_a_part(name: str, source: Path, built: int, tmp_path: Path) -> None:
    assert reform.made(name, source, tmp_path, Recipe()).manifest.counts.samples == built


@pytest.mark.parametrize("source", ["refcoco-res"], indirect=True)
def test_distractors_refer_to_another_category_of_the_same_group(
    source: Path, tmp_path: Path
) -> None:
    benchmark = reform.made("refcoco-res", source, tmp_path)
    animals = [name for name, group in OBJECTS if group == "animal"]
    for sample in reform.scored_samples(benchmark):
        mentioned = Counter(
            name for option in sample.options for name, _ in OBJECTS if name in option
        )
        category = sample.tags["category"]
        if sample.tags["supercategory"] == "animal":
            assert "person" not in mentioned
        # `left one` is said of a dog and of a cat: for a dog or a cat it may be right.
        if category in ("dog", "cat") and "left one" not in sample.options:
            assert mentioned[category] == 1
        if category in ("dog", "cat"):
            assert sum("left one" in option for option in sample.options) <= (
                sample.id in ("2", "5")
            )
    assert set(animals) | {"person"} == set(reform.scored_tags(benchmark, "category"))


@pytest.mark.parametrize("source", ["refcoco-res"], indirect=True)
def test_the_region_is_drawn_as_a_red_box_of_two_pixels(source: Path, tmp_path: Path) -> None:
    benchmark = reform.made("refcoco-res", source, tmp_path)
    sample = next(sample for sample in benchmark.samples() if sample.id == "0")
    picture = Pictures.open(
        io.BytesIO(ImageStore(benchmark.folder / "images").read(sample.images[0]))
    ).convert("RGB")
    red = {(x, y) for x in range(120) for y in range(90) if picture.getpixel((x, y)) == (255, 0, 0)}
    # The box [5.5, 7.25, 40, 30] has its corners at (5, 7) and (45, 37).
    frame = {(x, y) for x in range(5, 46) for y in range(7, 38)}
    inner = {(x, y) for x in range(7, 44) for y in range(9, 36)}
    assert red == frame - inner
    assert sample.regions[0].box == (5.5, 7.25, 40, 30)


def test_references_in_json_are_read_as_those_in_a_pickle(tmp_path: Path) -> None:
    versions = []
    for form in ("p", "json"):
        refcoco(tmp_path / form, form)
        versions.append(
            reform.made("refcoco-res", tmp_path / form, tmp_path / f"made-{form}").manifest.version
        )
    assert versions[0] == versions[1]


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path) -> None:
    refcoco(tmp_path)
    (tmp_path / "refcoco" / "refs(unc).p").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    reform.refused("refcoco-res", tmp_path, tmp_path / "made", r"refs\(unc\).p: asks for os.system")


@pytest.mark.parametrize("source", ["clevr"], indirect=True)
def test_only_programs_that_walk_by_relations_are_asked_about(source: Path, tmp_path: Path) -> None:
    benchmark = reform.made("clevr", source, tmp_path)
    assert benchmark.manifest.tags["type"] == {"0": 6, "1": 6, "2": 6, "3": 6}
    for sample in benchmark.samples():
        answers = set(FAMILIES[int(sample.tags["type"])][1])
        fill = {"1": {"Not sure", "Unknown"}, "2": {"Not sure"}}.get(sample.tags["type"], set())
        assert set(sample.options) - answers == fill
        assert len(set(sample.options) & answers) == 4 - len(fill)


@pytest.mark.parametrize("source", ["vsr"], indirect=True)
def test_options_say_other_relations_in_whole_sentences(source: Path, tmp_path: Path) -> None:
    benchmark = reform.made("vsr", source, tmp_path)
    for sample in benchmark.samples():
        number = int(sample.group.removesuffix(".jpg"))
        assert number % 3 > 0
        for option in sample.options:
            assert option.startswith(f"The cat number {number} ") and option.endswith(
                " the laptop."
            )
            assert (" is " in option) == ("contains" not in option)
        said = " ".join(sample.options)
        # Of relations that may hold at once only one is an option.
        assert ("under" in said) + ("beneath" in said) < 2 or sample.tags["relation"] not in (
            "under",
            "beneath",
        )
        assert not ("contains" in said and sample.tags["relation"] == "touching")
        assert len(sample.rewordings) == 3
    assert benchmark.manifest.build_info.rejected["says the same as another right answer"] > 0


@pytest.mark.parametrize("source", ["mp3d-spatial"], indirect=True)
def test_relations_follow_from_boxes_and_depth(source: Path, tmp_path: Path) -> None:
    benchmark = reform.made("mp3d-spatial", source, tmp_path)
    counts = {
        "left": 3,
        "right": 3,
        "above": 3,
        "under": 3,
        "close": 3,
        "far": 3,
        "on top of": 2,
        "next to": 2,
    }
    assert reform.scored_tags(benchmark, "relation") == dict(sorted(counts.items()))
    asked = {
        (sample.tags["relation"], sample.question) for sample in reform.scored_samples(benchmark)
    }
    where = "Where is the {} with respect to the {}?".format
    observer = "Where is the {} with respect to you, the observer?".format
    assert asked == {
        ("left", where("table", "lamp")),
        ("right", where("lamp", "table")),
        ("above", where("picture frame", "table")),
        ("under", where("table", "picture frame")),
        ("close", observer("stool")),
        ("far", observer("sofa")),
        ("on top of", where("vase", "shelf")),
        ("next to", where("vase", "shelf")),
    }
    assert {sample.group for sample in benchmark.samples() if "pano0" in sample.group} < {
        "pano0_i1_0",
        "pano0_i1_1",
    }


def test_annotations_may_be_missing_which_is_said_or_be_json(tmp_path: Path) -> None:
    matterport(tmp_path / "none", annotated="")
    alone = reform.made("mp3d-spatial", tmp_path / "none", tmp_path / "a").manifest
    assert alone.counts.samples == 18 and any("next to" in warning for warning in alone.warnings)
    matterport(tmp_path / "json", annotated="jsonl")
    assert (
        reform.made("mp3d-spatial", tmp_path / "json", tmp_path / "b").manifest.counts.samples == 22
    )


HOUSE = "v1/scans/1pXnuDYAj8r/1pXnuDYAj8r/house_segmentations/1pXnuDYAj8r.house"
QUESTIONS = "CLEVR_v1.0/questions/CLEVR_val_questions.json"
PAIRS = "splits/random/test.jsonl"


@pytest.mark.parametrize(
    ("source", "file", "old", "new", "fault"),
    [
        (
            "refcoco-res",
            "refcoco/instances.json",
            '"id": 903',
            '"id": 9903',
            r"p: refs\[3\]: there is no annotation 903",
        ),
        (
            "refcoco-res",
            "refcoco/instances.json",
            '"image_id": 4',
            '"image_id": 3',
            r"refs\[4\]: .* of another image",
        ),
        (
            "clevr",
            QUESTIONS,
            '"answer": "red"',
            '"answer": ""',
            r"questions\[3\]: the answer is empty",
        ),
        (
            "clevr",
            QUESTIONS,
            '"answer": "red"',
            '"answer": 1',
            r"questions\[3\]: Expected `str`, got `int`",
        ),
        (
            "clevr",
            QUESTIONS,
            "CLEVR_val_000002.png",
            "CLEVR_val_9.png",
            r"questions\[\d\]: cannot .*CLEVR_val_9.png",
        ),
        (
            "vsr",
            PAIRS,
            "is left of",
            "is right of",
            r"jsonl:2: the relation 'left of' is not in the caption",
        ),
        ("vsr", PAIRS, '"label": 1', '"label": 2', r"test.jsonl:2: Invalid enum value 2"),
        (
            "vsr",
            PAIRS,
            "000000000001.jpg",
            "1.jpg",
            r"jsonl:2: the image 1.jpg is in none of .*val2017",
        ),
        (
            "mp3d-spatial",
            HOUSE,
            "O  0 0 0  -0.8",
            "O  0 0 0  west",
            r"house:\d+: could not convert string to float",
        ),
        ("mp3d-spatial", HOUSE, "O  0 0 0", "O  0 0 99", r"house:\d+: there is no category 99"),
        ("mp3d-spatial", HOUSE, "O  0 0 0", "O  0 0", r"house:\d+: 23 fields, a line of O has 24"),
        ("mp3d-spatial", HOUSE, "ASCII", "BINARY", r"house:1: no .house file"),
        (
            "mp3d-spatial",
            "annotated.csv",
            "on top of",
            "upon",
            r"annotated.csv:2: Invalid enum value 'upon'",
        ),
        (
            "mp3d-spatial",
            "annotated.csv",
            "on top of",
            "far",
            r"csv:2: the relation 'far' is of a subject alone",
        ),
        (
            "mp3d-spatial",
            "annotated.csv",
            "by_hand/2",
            "by_hand/9",
            r"csv:4: cannot read the image .*by_hand/9.jpg",
        ),
    ],
    indirect=["source"],
)
def test_a_broken_file_is_refused_with_file_and_place(
    request: pytest.FixtureRequest,
    source: Path,
    file: str,
    old: str,
    new: str,
    fault: str,
    tmp_path: Path,
) -> None:
    name = request.node.callspec.params["source"]
    reform.broken(source / file, old, new)
    reform.refused(name, source, tmp_path, fault)


@pytest.mark.parametrize("source", ["mp3d-spatial"], indirect=True)
def test_a_depth_image_that_is_none_is_refused(source: Path, tmp_path: Path) -> None:
    for path in (source / HOUSE).parent.parent.glob("undistorted_depth_images/pano1*"):
        path.write_bytes(small.picture(3))
    reform.refused(
        "mp3d-spatial", source, tmp_path, r"house:\d+: .*pano1_d1_\d.png is no 16-bit depth image"
    )
    for path in (source / HOUSE).parent.parent.glob("undistorted_depth_images/pano1*"):
        path.unlink()
    reform.refused("mp3d-spatial", source, tmp_path, r"cannot read the image .*pano1_d1_\d.png")


def test_a_folder_without_houses_is_refused(tmp_path: Path) -> None:
    reform.refused("mp3d-spatial", tmp_path, tmp_path / "made", "no house_segmentations")


side = st.floats(0, 280)
views = st.builds(
    lambda name, left, top, width, height, depth: View(
        name, left, top, left + width, top + height, depth
    ),
    st.sampled_from("abcdef"),
    side,
    side,
    st.floats(24, 150),
    st.floats(24, 150),
    st.floats(0.3, 8),
)


@given(st.lists(views, max_size=5, unique_by=lambda view: view.name), st.floats(50, 500))
def test_no_wrong_option_holds_of_the_same_things(shown: list[View], focal: float) -> None:
    held: dict[tuple[str, str], set[Relation]] = {}
    for fact in spatial_facts(shown, focal):
        held.setdefault((fact.subject, fact.object), set()).add(fact.relation)
    mirrored: dict[Relation, Relation] = {
        "left": "right",
        "right": "left",
        "above": "under",
        "under": "above",
    }
    for (subject, other), relations in held.items():
        for relation in relations:
            assert not relations & set(WRONG_RELATIONS[relation])
            if relation in mirrored:
                assert mirrored[relation] in held[other, subject]


@given(*[st.tuples(*[st.floats(-3, 3)] * 3)] * 2)
def test_a_picture_does_not_change_when_camera_and_thing_move_together(
    centre: tuple[float, float, float], step: tuple[float, float, float]
) -> None:
    centre = (centre[0], centre[1], centre[2] - 6)
    moved = (centre[0] + step[0], centre[1] + step[1], centre[2] + step[2])
    pose = (1, 0, 0, -step[0], 0, 1, 0, -step[1], 0, 0, 1, -step[2], 0, 0, 0, 1)
    one = project_box(_thing(centre), _image((1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)))
    other = project_box(_thing(moved), _image(pose))
    assert one is not None and other is not None
    assert other == pytest.approx(one, abs=1e-6)


def test_a_camera_that_looks_sideways_sees_what_lies_there() -> None:
    # The camera looks along the house's x axis, its right is the house's -y, its up is z.
    image = _image((0, -1, 0, 0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 1))
    left, top, right, bottom, near, far = project_box(_thing((4, -1, 0.5)), image) or (0.0,) * 6
    # A cube with sides of 0.4: nearest at 3.8, where 150 pixels are 3.8 m.
    assert (near, far) == pytest.approx((3.8, 4.2))
    assert (left, right) == pytest.approx((150 + 150 * 0.8 / 4.2, 150 + 150 * 1.2 / 3.8))
    assert (top, bottom) == pytest.approx((120 - 150 * 0.7 / 3.8, 120 - 150 * 0.3 / 4.2))
    assert project_box(_thing((-4, 0, 0)), image) is None


def _thing(centre: tuple[float, float, float]) -> HouseObject:
    return HouseObject(0, "vase", "objects", centre, ((1, 0, 0), (0, 1, 0)), (0.2, 0.2, 0.2))


def _image(extrinsics: tuple[float, ...]) -> HouseImage:
    return HouseImage("", 0, "pano", 1, 0, extrinsics, (FOCAL, FOCAL), CENTRE, SIZE)
