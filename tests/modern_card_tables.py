"""Miniature tables of the datasets that the model cards of 2025 and 2026 added to the suite `modern`."""

from __future__ import annotations

import io
import json

import pyarrow as pa
from PIL import Image

import mmbench_rows
from modern_rows import (
    ANIMALS,
    INT,
    PICTURE,
    PICTURES,
    ROWS,
    TEXT,
    TEXTS,
    Row,
    Table,
    ask,
    base64_image,
    columns,
    letter,
    lettered,
    shown,
)

PICTURED = {"image": PICTURE}
TEST = "data/test-00000-of-00001.parquet"
TRAIN = "data/train-00000-of-00001.parquet"
MMMB_LANGUAGES = ("en", "cn", "pt", "ar", "tr", "ru")


def several(number: int) -> list[Row]:
    """One to three images, as the row's number says."""
    return [shown(10 * number + place) for place in range(1 + number % 3)]


def mme_realworld(number: int) -> Row:
    """Five options with their letters, the last one of which says that no other is right."""
    options = [f"({letter(place)}) {ANIMALS[place]}" for place in range(4)]
    options.append("(E) The image does not feature the animal.")
    return {
        "index": str(number),
        "question": ask(number),
        "multi-choice options": options,
        "answer": letter(number, 5),
        "category": "Perception/OCR with Complex Context",
        "l2-category": "scene",
        "bytes": base64_image(number),
    }


def visualpuzzles(number: int) -> Row:
    """The options of the last row are drawn in its image."""
    return {
        "id": number,
        "category": "Analogical",
        "question": ask(number),
        "options": None if number == ROWS - 1 else list(ANIMALS[:4]),
        "answer": letter(number),
        "image": shown(number),
    }


def omnispatial(number: int) -> Row:
    """The second and fifth rows have two options."""
    count = 2 if number % 3 == 1 else 4
    return {
        "id": f"{number}_0",
        "task_type": "Complex_Logic",
        "sub_task_type": "Pattern_Recognition",
        "question": ask(number),
        "options": list(ANIMALS[:count]),
        "answer": number % count,
        "image": shown(number),
    }


def mmsi_bench(number: int) -> Row:
    options = ", ".join(f"{letter(place)}: {ANIMALS[place]}" for place in range(4))
    return {
        "id": number,
        "question_type": "Motion (Cam.)",
        "question": f"{ask(number)}\nOptions: {options}",
        "answer": letter(number),
        "images": several(number),
    }


def mindcube(number: int) -> Row:
    """The first two rows have three options."""
    count = 3 if number < 2 else 4
    return {
        "id": f"{('among', 'aroundnew', 'rotation')[number % 3]}_{number}",
        "question": f"{ask(number)} {lettered('{}. ', count, ' ')}",
        "input_prompt": f"Look. {ask(number)}",
        "gt_answer": letter(number, count),
        "images": several(number),
    }


def viewspatial(number: int) -> Row:
    return {
        "question_type": "Camera perspective - Relative Direction",
        "question": ask(number),
        "choices": lettered("{}. "),
        "answer": f"{letter(number)}. {ANIMALS[number % 4]}",
        "images": several(number),
    }


def three_d(number: int) -> Row:
    """Half of the rows have two options."""
    count = 4 if number % 2 else 2
    options = {letter(place): ANIMALS[place] if place < count else None for place in range(4)}
    return {
        "index": number,
        "qid": f"VIN6MS3{number}",
        "question": ask(number),
        **options,
        "answer": letter(number, count),
        "category": "height_higher",
        "image": shown(number),
    }


def crpe(number: int) -> Row:
    closing = "Please answer directly with only the letter of the correct option and nothing else."
    return {
        "text": f"{ask(number)}\n{lettered('{}. ')}\n{closing}",
        "correct_option": letter(number),
        "category": "predicate",
        "image": shown(number),
    }


def mmmb(number: int) -> Row:
    return mmbench_rows.row(number, gold=number % 4)


def region(number: int) -> Row:
    """A mask of 16 by 12 pixels with a hole; the second is 4 pixels wide and 3 high, at 3 and 2."""
    mask = Image.new("L", (16, 12), 0)
    mask.paste(255, (2 + number, 2, 6 + number, 5))
    if number != 1:
        mask.putpixel((3 + number, 3), 0)
    file = io.BytesIO()
    mask.save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def refspatial(number: int) -> Row:
    return {
        "id": number,
        "object": ANIMALS[number],
        "prompt": f"Please point out the {ANIMALS[number]}.",
        "suffix": "Your answer should be formatted as a list of tuples.",
        "step": 1 + number % 3,
        "image": shown(number),
        "mask": region(number),
    }


def odinw(number: int) -> Row:
    """Two datasets; the last row has no object, each other one or two boxes as left, top, right, bottom in pixels."""
    boxes = [[1.0, 2.0, 5.0, 4.0], [4.0, 1.0, 8.0, 6.0]][: 1 + number % 2]
    if number == ROWS - 1:
        boxes = []
    return {
        "dataset_name": ("Aquarium", "EgoHands")[number % 2],
        "categories": list(ANIMALS[:3]),
        "bboxes": boxes,
        "labels": [ANIMALS[number % 3]] * len(boxes),
        "image": shown(number),
    }


def sun_rgb_d(number: int) -> Row:
    """A box as centre, size and roll, pitch, yaw, in metres and radians."""
    return {
        "categories": list(ANIMALS[:3]),
        "bboxes_3d": [[0.5, 0.25, 2.0 + number, 1.0, 0.5, 0.75, 0.0, 0.0, 0.25 * number]],
        "labels": [ANIMALS[number % 3]],
        "image": shown(number),
    }


def free_space(number: int) -> Row:
    """The question says the form of a reply itself, which the entry takes out."""
    form = "Your answer should be formatted as a list of tuples, i.e. [(x1, y1), (x2, y2), ...]."
    return {
        "question_id": number,
        "question": f"Point at the space beside the {ANIMALS[number]}. {form}",
        "category": "context",
        "answer": "[(0.1, 0.2)]",
        "image": shown(number),
        "img": shown(number),
        "mask": region(number),
    }


def yes_or_no(number: int) -> Row:
    return {
        "question": f"Can the {ANIMALS[number]} stand beside the box? Answer yes or no.",
        "answer": ("Yes", "No")[number % 2],
        "category": "compatibility",
        "img": shown(number),
    }


def osworld_g(number: int) -> Row:
    """A box, a polygon with a notch, two opposite corners and a thing that is not there."""
    targets: list[tuple[str, list[float]]] = [
        ("bbox", [1.0, 1.0, 2.0, 1.5]),
        ("polygon", [0.5, 0.5, 5.0, 0.5, 5.0, 5.0, 2.75, 1.5, 0.5, 5.0]),
        ("polygon", [1.0, 1.0, 3.0, 2.0]),
        ("refusal", []),
    ]
    kind, numbers = targets[number % 4]
    return {
        "id": f"s{number}",
        "instruction": f"open item {number}",
        "box_type": kind,
        "box_coordinates": numbers,
        "image_size": [8, 6],
        "image": shown(number),
    }


BLIND = {
    "circled letter": "d",
    "counting grid - blank grids": "4,5",
    "counting grid - word grids": "3,6",
    "line plot intersections": "2",
    "touching circles": "Yes",
    "subway connections": "1",
}
"""An answer to a question of each of six tasks of VLMs Are Blind."""


def vlmsareblind(number: int) -> Row:
    task, truth = list(BLIND.items())[number]
    return {"task": task, "prompt": ask(number), "groundtruth": truth, "image": shown(number)}


def mtvqa(number: int) -> Row:
    """Two questions a row."""
    pairs = [
        {"question": f"Was ist {number}?", "answer": f"{ANIMALS[number]}."},
        {"question": f"Wo ist {number}?", "answer": f"im Feld {number}"},
    ]
    return {"id": f"m{number}", "qa_pairs": str(pairs), "lang": "DE", "image": shown(number)}


def cc_ocr(number: int) -> Row:
    return {
        "question": "Please output only the text content from the image.",
        "answer": f"A {ANIMALS[number]} and a {ANIMALS[number]}: {number}\n***",
        "split": ("Korean", "French")[number % 2],
        "l2-category": ("Korean", "French")[number % 2],
        "image": base64_image(number),
        "image_name": f"{number}.jpg",
    }


def mm_mt_bench(number: int) -> Row:
    """Two turns a conversation; the first message has the place of the image, the last a text alone."""
    animal = ANIMALS[number]
    messages = [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": ask(number)}]},
        {"role": "assistant", "content": f"A {animal}."},
        {"role": "user", "content": [{"type": "text", "text": f"What does the {animal} do?"}]},
        {"role": "assistant", "content": "It eats."},
    ]
    return {"image": shown(number), "conversation": json.dumps(messages), "category": "diagrams"}


REMI_TASKS = ("RefCoco", "Clocks", "GeomCost", "Charts", "FuncRead", "IQ")


def remi(number: int) -> Row:
    """One to three images of six columns; a marked object may have several numbers, as `2,4`."""
    labels = ("0", "95", "12.5", "40%", "f", "(c)")
    return {
        "task": REMI_TASKS[number],
        "question": f"<image1> {ask(number)}",
        "label": labels[number],
        **{
            f"image_{n}": shown(10 * number + n) if n <= 1 + number % 3 else None
            for n in range(1, 7)
        },
    }


def tallyqa(number: int) -> Row:
    """Two questions an image, a simple and a complex one."""
    animal = ANIMALS[number]
    return {
        "image": shown(number),
        "qa": [
            {"question": f"How many {animal}s are there?", "answer": number, "is_simple": True},
            {"question": f"How many {animal}s eat?", "answer": number + 1, "is_simple": False},
        ],
    }


REALWORLD = {
    **columns("index question answer category l2-category bytes"),
    "multi-choice options": TEXTS,
}
TABLES: dict[str, list[Table]] = {
    "mme-realworld": [Table(TRAIN, REALWORLD, mme_realworld)],
    "mme-realworld-cn": [Table(TRAIN, REALWORLD, mme_realworld)],
    "mme-realworld-lite": [Table(TRAIN, REALWORLD, mme_realworld)],
    "visualpuzzles": [
        Table(
            "data.parquet",
            {"id": INT, **columns("category question answer"), "options": TEXTS, **PICTURED},
            visualpuzzles,
        )
    ],
    "omnispatial": [
        Table(
            TEST,
            {
                **columns("id task_type sub_task_type question"),
                "options": TEXTS,
                "answer": INT,
                **PICTURED,
            },
            omnispatial,
        )
    ],
    "mmsi-bench": [
        Table(
            "MMSI_Bench.parquet",
            {
                "id": INT,
                **columns("question_type question answer"),
                "images": pa.list_(pa.binary()),
            },
            lambda n: {**mmsi_bench(n), "images": [one["bytes"] for one in several(n)]},
        )
    ],
    "mindcube-tiny": [
        Table(
            "tiny/combined-00000-of-00001.parquet",
            {**columns("id question input_prompt gt_answer"), "images": PICTURES},
            mindcube,
        )
    ],
    "viewspatial": [
        Table(
            TEST,
            {**columns("question_type question choices answer"), "images": PICTURES},
            viewspatial,
        )
    ],
    "3dsrbench": [
        Table(
            "3dsr/test-00000-of-00001.parquet",
            {"index": INT, **columns("qid question A B C D answer category"), **PICTURED},
            three_d,
        )
    ],
    "crpe-relation": [Table(TEST, {**columns("text correct_option category"), **PICTURED}, crpe)],
    "pixmo-count": [
        Table(
            TEST,
            {**columns("question answer"), **PICTURED},
            lambda n: {
                "question": f"How many {ANIMALS[n]}s?",
                "answer": str(2 + n),
                "image": shown(n),
            },
        )
    ],
    **{
        f"refspatial-{split}": [
            Table(
                f"data/{split}-00000-of-00001.parquet",
                {
                    "id": INT,
                    "step": INT,
                    **columns("object prompt suffix"),
                    **PICTURED,
                    "mask": PICTURE,
                },
                refspatial,
            )
        ]
        for split in ("location", "placement", "unseen")
    },
    "odinw-13": [
        Table(
            TEST,
            {
                "dataset_name": TEXT,
                "categories": TEXTS,
                "bboxes": pa.list_(pa.list_(pa.float64())),
                "labels": TEXTS,
                **PICTURED,
            },
            odinw,
        )
    ],
    "sun-rgb-d": [
        Table(
            TEST,
            {
                "categories": TEXTS,
                "bboxes_3d": pa.list_(pa.list_(pa.float64())),
                "labels": TEXTS,
                **PICTURED,
            },
            sun_rgb_d,
        )
    ],
    "where2place": [
        Table(
            TEST,
            {"question_id": INT, "question": TEXT, **PICTURED, "mask": PICTURE},
            free_space,
        )
    ],
    "robospatial-context": [
        Table(
            "data/context-00000-of-00001.parquet",
            {**columns("question category answer"), "img": PICTURE, "mask": PICTURE},
            free_space,
        )
    ],
    **{
        f"robospatial-{split}": [
            Table(
                f"data/{split}-00000-of-00001.parquet",
                {**columns("question category answer"), "img": PICTURE},
                yes_or_no,
            )
        ]
        for split in ("configuration", "compatibility")
    },
    "osworld-g": [
        Table(
            TEST,
            {
                **columns("id instruction box_type"),
                "box_coordinates": pa.list_(pa.float64()),
                "image_size": pa.list_(INT),
                **PICTURED,
            },
            osworld_g,
        )
    ],
    "vlmsareblind": [
        Table(
            "data/valid-00000-of-00001.parquet",
            {**columns("task prompt groundtruth"), **PICTURED},
            vlmsareblind,
        )
    ],
    "vlms-are-biased": [
        Table(
            "data/main-00000-of-00001.parquet",
            {**columns("topic prompt ground_truth expected_bias"), **PICTURED},
            lambda n: {
                "topic": "Animals",
                "prompt": f"How many legs has the {ANIMALS[n]}? Answer with a number in curly brackets.",
                "ground_truth": str(5 + n),
                "expected_bias": "4",
                "image": shown(n),
            },
        )
    ],
    "mtvqa": [Table(TEST, {**columns("id qa_pairs lang"), **PICTURED}, mtvqa)],
    **{
        f"cc-ocr-{name}": [
            Table(
                f"{config}/test-00000-of-00001.parquet",
                columns("question answer split l2-category image image_name"),
                cc_ocr,
            )
        ]
        for name, config in (("scenes", "multi_scene_ocr"), ("languages", "multi_lan_ocr"))
    },
    **{
        f"mmmb-{language}": [
            Table(
                f"mmmb/mmmb_{language}.tsv",
                columns("index question A B C D answer category image"),
                mmmb,
            )
        ]
        for language in MMMB_LANGUAGES
    },
    **{
        f"mmbench-multilingual-{language}": [
            Table(
                f"mmbench/mmbench_dev_{language}.tsv",
                columns("index question A B C D answer category image"),
                mmmb,
            )
        ]
        for language in MMMB_LANGUAGES
    },
    "mm-mt-bench": [
        Table(
            "data/eval-00000-of-00001.parquet",
            {**columns("conversation category"), **PICTURED},
            mm_mt_bench,
        )
    ],
    "remi": [
        Table(
            "test.parquet",
            {
                **columns("task question label"),
                **columns(" ".join(f"image_{n}" for n in range(1, 7)), PICTURE),
            },
            remi,
        )
    ],
    "tallyqa": [
        Table(
            TEST,
            {
                **PICTURED,
                "qa": pa.list_(
                    pa.struct([("question", TEXT), ("answer", INT), ("is_simple", pa.bool_())])
                ),
            },
            tallyqa,
        )
    ],
    "r-bench-dis": [
        Table("R-bench-dis.tsv", columns("index question A B C D answer category image"), mmmb)
    ],
}
"""By the short name of the entry: the files that it reads."""
