"""POPE made from one's own images: the rules by hand and by a second program, the files, the command."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mini_ehub
import reform
import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.catalogue import entries
from snellen.catalogue.entries import with_params
from snellen.errors import DataError, UnknownNameError
from snellen.readers.object_presence import ImageObjects, Params, object_questions
from snellen.scoring.answers import open_answers

ROOM = [
    ("1.png", ("chair", "table", "cup")),
    ("2.png", ("chair", "table", "dog")),
    ("3.png", ("apple", "cat", "chair")),
    ("4.png", ("cup",)),
]


def asked(
    rule: str, pictures: list[tuple[str, tuple[str, ...]]], **settings: Any
) -> list[list[str]]:
    """The names that are asked for and are not there, by image."""
    drawn = [ImageObjects(image, objects) for image, objects in pictures]
    chosen = Params(negatives=rule, **settings)  # type: ignore[arg-type]
    return [
        [name for name, label in one if label == "no"]
        for one in object_questions(drawn, chosen, random.Random(0))
    ]


def test_the_most_frequent_absent_names_are_asked_for_one_after_the_other() -> None:
    # Chair 3, table 2, then cup, dog, apple and cat 1: of equals the name met first.
    assert asked("popular", ROOM[:3]) == [
        ["dog", "apple", "cat"],
        ["cup", "apple", "cat"],
        ["table", "cup", "dog"],
    ]


def test_names_seen_together_with_the_one_before_are_asked_for() -> None:
    first, second, third = asked("adversarial", ROOM[:3])
    # With chair: table 2, then cup, dog, apple, cat. With table: chair, cup, dog, of which none is left.
    assert first[0] == "dog" and set(first[1:]) == {"apple", "cat"}
    assert second[0] == "cup" and set(second[1:]) == {"apple", "cat"}
    # With apple and with cat: each other and chair, which are there; chance decides, then chair's list.
    assert set(third) == {"table", "cup", "dog"}
    assert third[2] == next(name for name in ("table", "cup", "dog") if name not in third[:2])


def test_random_names_are_absent_and_asked_for_once() -> None:
    many = [
        (f"{n}.png", tuple(f"thing {(n * 7 + k) % 40}" for k in range(3 + n % 3)))
        for n in range(60)
    ]
    for (_, objects), names in zip(many, asked("random", many), strict=True):
        assert len(set(names)) == 3 and not set(names) & set(objects)
    spread = Counter(name for names in asked("random", many) for name in names)
    assert len(spread) == 40


def second_program(
    pictures: list[tuple[str, tuple[str, ...]]], adversarial: bool
) -> list[list[str | None]]:
    """The ranked rules once more, by sorting tables; None where chance decides."""
    order = list(dict.fromkeys(name for _, objects in pictures for name in objects))
    result: list[list[str | None]] = []
    for _, objects in pictures:
        used: set[str] = set()
        row: list[str | None] = []
        for positive in objects[:3]:
            used.add(positive)
            sets = [own for _, own in pictures if not adversarial or positive in own]
            met = (
                list(dict.fromkeys(name for own in sets for name in own)) if adversarial else order
            )
            table = sorted(
                (-sum(name in own for own in sets), met.index(name), name)
                for name in met
                if name != positive
            )
            free = [name for _, _, name in table if name not in objects and name not in used]
            row.append(free[0] if free else None)
            if not free:
                return result  # from here on chance decides
            used.add(free[0])
        result.append(row)
    return result


@pytest.mark.parametrize("rule", ["popular", "adversarial"])
@pytest.mark.parametrize("seed", range(5))
def test_ranked_rules_agree_with_a_second_program(rule: str, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"thing {n}" for n in range(30)]
    pictures = [
        (f"{n}.png", tuple(rng.sample(names[: 8 + n % 23], rng.randint(3, 6)))) for n in range(80)
    ]
    expected = second_program(pictures, rule == "adversarial")
    assert len(expected) > 15
    assert asked(rule, pictures)[: len(expected)] == expected


def test_of_the_upper_half_any_absent_name_is_drawn() -> None:
    names = [f"thing {n}" for n in range(20)]
    # Thing 0 in all images, thing 1 in most, and so on.
    pictures = [
        (f"{n}.png", (*(names[k] for k in range(20) if n % (k + 1) == 0), "a", "b"))
        for n in range(1, 60)
    ]
    upper = {name for name, _ in Counter(x for _, o in pictures for x in o).most_common(11)}
    found = asked("popular", pictures, draw="top-half")
    near = [[name for name in upper if name not in objects] for _, objects in pictures]
    assert all(names[0] in free for names, free in zip(found, near, strict=True) if free)
    assert len({row[0] for row in found}) > 3


def coco(to: Path) -> Path:
    """A COCO file of the four images, a name annotated twice in the first."""
    names = list(dict.fromkeys(name for _, objects in ROOM for name in objects))
    annotations = [
        (n, name) for n, (_, objects) in enumerate(ROOM) for name in (*objects, objects[0])
    ]
    content = {
        "info": {},
        "images": [{"id": n, "file_name": image, "width": 8} for n, (image, _) in enumerate(ROOM)],
        "annotations": [
            {"id": k, "image_id": n, "category_id": 10 + names.index(name), "bbox": [0, 0, 1, 1]}
            for k, (n, name) in enumerate(annotations)
        ],
        "categories": [
            {"id": 10 + k, "name": name, "supercategory": "thing"} for k, name in enumerate(names)
        ],
    }
    reform.write_json(to / "annotations/instances_mine.json", content)
    for n, (image, _) in enumerate(ROOM):
        reform.write_picture(to / "val2014" / image, n)
    return to


def jsonl(to: Path) -> Path:
    to.mkdir(parents=True)
    small.write(
        [{"image": image, "objects": list(objects)} for image, objects in ROOM],
        to / "objects.jsonl",
    )
    for n, (image, _) in enumerate(ROOM):
        reform.write_picture(to / "images" / image, n)
    return to


def built(source: Path, to: Path, rule: str = "popular", **params: Any) -> Benchmark:
    return sn.build(f"pope/{rule}", source=source, to=to, params={"images": 0, **params})


def test_cocos_file_and_a_list_of_names_give_the_same_questions(tmp_path: Path) -> None:
    one, other = (
        built(coco(tmp_path / "coco"), tmp_path / "a"),
        built(jsonl(tmp_path / "own"), tmp_path / "b"),
    )
    assert [s.question for s in one.samples()] == [s.question for s in other.samples()]
    questions = {s.id: s.question for s in one.samples()}
    answers = {key: answer.texts[0] for (key, _), answer in open_answers(one.folder).items()}
    assert len(questions) == 18 and questions["1"] == "Is there a chair in the image?"
    assert questions["4"] == "Is there an apple in the image?"
    assert [answers[str(n)] for n in range(1, 5)] == ["yes", "no", "yes", "no"]
    assert {s.group for s in one.samples()} == {"1.png", "2.png", "3.png"}
    assert one.manifest.warnings == ("instances_mine.json: 3 of 4 images; 1 have too few objects",)


def test_a_seed_draws_the_same_pictures_for_all_three_rules(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "own")
    drawn = {}
    for rule in ("random", "popular", "adversarial"):
        for seed in range(4):
            made = built(source, tmp_path / f"{rule}{seed}", rule, images=3, objects=1, seed=seed)
            drawn[rule, seed] = tuple(dict.fromkeys(sample.group for sample in made.samples()))
    assert all(
        drawn["random", seed] == drawn["popular", seed] == drawn["adversarial", seed]
        for seed in range(4)
    )
    assert len(set(drawn.values())) > 1 and all(len(groups) == 3 for groups in drawn.values())


def test_the_authors_slip_is_kept_by_name(tmp_path: Path) -> None:
    questions = [
        s.question
        for s in built(jsonl(tmp_path / "own"), tmp_path / "x", text="verbatim").samples()
    ]
    assert (
        "Is there an apple in the imange?" in questions
        and "Is there a chair in the image?" in questions
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            '{"image": "1.png", "objects": ["a", ""]}',
            r"objects.jsonl:1: the name of an object is empty",
        ),
        ('{"image": "1.png"}', r"objects.jsonl:1: .*missing required field `objects`"),
        (
            '{"image": "9.png", "objects": ["chair", "dog", "cat"]}',
            r"the image 9.png is in none of",
        ),
        ('{"image": "1.png", "objects": ["chair"]}', r"no image has 3 objects or more"),
        (
            '{"image": "1.png", "objects": ["chair", "dog", "cat"]}',
            r"no name is left to ask for that is not in 1.png",
        ),
    ],
)
def test_a_broken_list_is_refused_with_its_place(line: str, fault: str, tmp_path: Path) -> None:
    source = jsonl(tmp_path / "own")
    others = (
        ""
        if "no name" in fault or "no image has" in fault
        else (source / "objects.jsonl").read_text()
    )
    kept = others.replace('"1.png"', '"4.png"', 1) if "9.png" not in fault else others
    (source / "objects.jsonl").write_text(
        line + "\n" + (kept if "objects.jsonl:1" not in fault else "")
    )
    with pytest.raises(DataError, match=fault):
        built(source, tmp_path / "built")


def test_too_few_pictures_are_refused_with_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="3 images have 3 objects or more, 500 are to be drawn; set images = 3"
    ):
        sn.build("pope/random", source=jsonl(tmp_path / "own"), to=tmp_path / "x")


def test_the_command_builds_all_three_which_are_scored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    source = str(coco(tmp_path / "coco"))
    code, _, said = small.command(
        capsys, "build", "pope/*", "--source", source, "--param", "images=3"
    )
    assert code == 0, said
    results = sn.evaluate("snellen:oracle", "pope/*", name="oracle")
    assert results.value("pope_f1", benchmark="pope/pooled") == 1.0
    code, _, said = small.command(
        capsys, "build", "pope/*", "--source", source, "--param", "images=many"
    )
    assert code != 0 and "images is 500 in the entry; 'many' has another type" in said


# --- choices of an entry -------------------------------------------------------------------------------------------


def test_published_questions_are_read_verbatim_or_repaired(tmp_path: Path) -> None:
    files = mini_ehub.official("pope-adversarial", tmp_path / "files")
    built = {
        text: [
            s.question
            for s in sn.build(
                "lvlm-ehub/pope-adversarial",
                source=files,
                to=tmp_path / text,
                params={"text": text},
            ).samples()
        ]
        for text in ("verbatim", "repaired")
    }
    assert built["verbatim"][4] == "Is there an imange of thing 4 in the image?"
    assert built["repaired"] == [
        question.replace("imange", "image") for question in built["verbatim"]
    ]


def test_repeated_rows_are_asked_once_by_name(tmp_path: Path) -> None:
    files = mini_ehub.official("coco-mci", tmp_path / "files")
    rows = json.loads((files / "coco_mci.json").read_text())
    reform.write_json(files / "coco_mci.json", [*rows, *rows[:2]])
    params = {"rows": "distinct", "text": "repaired"}
    [whole, distinct] = [
        list(
            sn.build(
                "lvlm-ehub/coco-mci", source=files, to=tmp_path / str(len(how)), params=how
            ).samples()
        )
        for how in ({}, params)
    ]
    assert (len(whole), len(distinct)) == (6, 4)
    assert sum(" exis " in s.question for s in whole) == 1 and not any(
        " exis " in s.question for s in distinct
    )


def test_an_unknown_choice_or_value_is_refused_with_the_nearest_known_one() -> None:
    entry = entries()["lvlm-ehub/pope-random"]
    with pytest.raises(
        UnknownNameError, match=r"unknown value of text 'repared'; did you mean repaired\?"
    ):
        with_params(entry, {"text": "repared"})
    with pytest.raises(
        UnknownNameError,
        match=r"unknown parameter of lvlm-ehub/pope-random 'texts'; did you mean text",
    ):
        with_params(entry, {"texts": "repaired"})
