"""Miniatures of the official files of LVLM-eHub's data sets: a maker by the entry's name.

Layouts that ReForm-Eval reads too are made by the makers of its tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mini_text
import reform
import small
import test_mapped
import test_reform_classes as classes
import test_reform_knowledge as knowledge
import test_reform_vqa as vqa

scipy_io = pytest.importorskip("scipy.io", reason="waits for scipy")

OCR = (
    "iiit5k",
    "ic13",
    "ic15",
    "total-text",
    "cute80",
    "svt",
    "svtp",
    "coco-text",
    "wordart",
    "ctw",
    "host",
    "wost",
)
POPE = ("pope-random", "pope-popular", "pope-adversarial")
EMBODIED = ("minecraft", "virtualhome", "meta-world", "franka-kitchen")
ANSWERS = ("yes", "no", "Yes.", "No.")
COLOURS = ("red", "green", "blue", "white")


def flowers102(to: Path) -> Path:
    """The authors' files, with four images in the list to test on."""
    classes.flowers102_lists(to)
    lists = {
        "trnid": np.array([[1, 3]]),
        "valid": np.array([[2, 4]]),
        "tstid": np.array([[5, 6, 7, 8]]),
    }
    scipy_io.savemat(to / "flowers-102/setid.mat", lists)
    return to


def words(to: Path) -> Path:
    """Four words: one after a tab, one of two words, one with a blank in its path."""
    names = ["test/1.png", "test/2.png", "test/word 3.jpg", "test/4.png"]
    for number, name in enumerate(names):
        reform.write_picture(to / name, number)
    lines = [
        "test/1.png RONALDO",
        "test/2.png\tCafé",
        "test/word 3.jpg New York",
        "test/4.png  62-03",
        "",
    ]
    (to / "test_label.txt").write_text("\n".join(lines), "utf-8")
    return to


def _objects(
    to: Path, file: str, images: list[tuple[Any, str]], rows: list[tuple[str, str]]
) -> Path:
    content = [
        {"image_id": images[n // 2][0], "text_in": asked, "text_out": answer, "n_obj_exist": 3 + n}
        for n, (asked, answer) in enumerate(rows)
    ]
    reform.write_json(to / file, content)
    for n, (_, picture) in enumerate(images):
        reform.write_picture(to / picture, n)
    return to


_COCO = [(139 + n, f"val2014/COCO_val2014_{139 + n:012d}.jpg") for n in range(2)]
_VCR = [(f"movie_{n}/scene@{n}.jpg", f"vcr1images/movie_{n}/scene@{n}.jpg") for n in range(2)]
_COUNTED = [
    (f"How many {what} are there in the image?", str(n + 1)) for n, what in enumerate(COLOURS)
]
_PRESENT = [
    (f"Does {what} cup exis{'t' * (n != 3)} in the image?", ANSWERS[n])
    for n, what in enumerate(COLOURS)
]


def coco_oc(to: Path) -> Path:
    return _objects(to, "coco_oc.json", _COCO, _COUNTED)


def coco_mci(to: Path) -> Path:
    return _objects(to, "coco_mci.json", _COCO, _PRESENT)


def vcr_oc(to: Path) -> Path:
    return _objects(to, "vcr1_oc.json", _VCR, _COUNTED)


def vcr_mci(to: Path) -> Path:
    return _objects(to, "vcr1_mci.json", _VCR, _PRESENT)


def sroie(to: Path) -> Path:
    """The files under the names that the site gives them: `gt_answers` and `images`."""
    mini_text.sroie(to / "made")
    (to / "made/SROIE2019/test/entities").rename(to / "gt_answers")
    (to / "made/SROIE2019/test/img").rename(to / "images")
    return to


def ocr_vqa(to: Path) -> Path:
    """Books of all three splits."""
    mini_text.ocr_vqa(to)
    books = json.loads((to / "dataset.json").read_text())
    for number, book in enumerate(books.values()):
        book["split"] = 1 + number % 3
    reform.write_json(to / "dataset.json", books)
    return to


def stvqa(to: Path) -> Path:
    data = [
        {
            "dataset": ("coco-text", "svt")[n % 2],
            "file_name": f"p{n // 2}.jpg",
            "question": f"What is written on sign {n}?",
            "answers": [word, f"the {word}"],
        }
        for n, word in enumerate(mini_text.WORDS)
    ]
    reform.write_json(
        to / "train_task_3.json",
        {"task_name": "task_3", "data": [*data, data[0] | {"answers": ["x"]}]},
    )
    for n, item in enumerate(data):
        reform.write_picture(to / "train_imgs" / str(item["dataset"]) / str(item["file_name"]), n)
    return to


def visdial(to: Path) -> Path:
    mini_text.visdial(to)
    (to / "visdial_1.0_val_dense_annotations.json").unlink()
    return to


def vsr(to: Path) -> Path:
    rows = [
        {
            "image": f"{n // 2:012d}.jpg",
            "caption": f"The cat is left of mat {n}.",
            "label": n % 2,
            "relation": "left of",
        }
        for n in range(8)
    ]
    for n in range(4):
        reform.write_picture(to / "images" / f"{n:012d}.jpg", n)
    small.write(rows, to / "all_vsr_validated_data.jsonl")
    return to


def vizwiz(to: Path) -> Path:
    content = {
        f"VizWiz_val_{n:08d}.jpg": {
            "question": "What is this?",
            "answers": [beast] * 6 + ["beast"] * 4,
        }
        for n, beast in enumerate(vqa.ANIMALS)
    }
    reform.write_json(to / "val_grounding.json", content)
    for n, name in enumerate(content):
        reform.write_picture(to / "val" / name, n)
    return to


def whoops_captions(to: Path) -> Path:
    rows = [
        {"filename": f"id{n}.png", "caption": [f"An odd {what} cup .", "A cup ."]}
        for n, what in enumerate(COLOURS)
    ]
    reform.write_json(to / "whoops_captions.json", rows)
    for n in range(len(rows)):
        reform.write_picture(to / "whoops_images" / f"id{n}.png", n)
    return to


def snli(to: Path) -> Path:
    """Twelve pairs, of which two have no label."""
    labels = ("entailment", "neutral", "contradiction", "entailment", "neutral", "-")
    rows = [
        {
            "annotator_labels": [],
            "captionID": f"{4000 + n // 6}.jpg#{n % 5}",
            "gold_label": labels[n % 6],
            "pairID": f"{4000 + n // 6}.jpg#{n % 5}r{n}",
            "sentence1": "A premise.",
            "sentence2": f"Somebody does {n}.",
        }
        for n in range(12)
    ]
    for n in range(2):
        reform.write_picture(to / "flickr30k-images" / f"{4000 + n}.jpg", n)
    small.write(rows, to / "snli_1.0_dev.jsonl")
    return to


VCR_OBJECTS = ["person", "person", "car", "person", "person", "dog"]
VCR_BOXES = [
    [700, 0, 800, 9, 1],
    [10, 0, 90, 9, 1],
    [0, 0, 9, 9, 1],
    [400, 0, 500, 9, 1],
    [100, 0, 120, 9, 1],
]


def vcr(to: Path) -> Path:
    """Three questions about an image 900 pixels wide: of two persons, of one, of four."""
    asked: list[tuple[list[Any], list[list[Any]]]] = [
        (
            ["Where", "is", [0], "going", "with", [1], "?"],
            [["To", "the", [2], "."], ["Home", ",", "soon", "."]],
        ),
        (["Why", "is", [3], "here", "?"], [["To", "rest", "."], ["To", "eat", "."]]),
        (["Who", "are", [0, 1, 3, 4], "?"], [["Friends", "of", [5], "."], ["Foes", "."]]),
    ]
    rows = [
        {
            "annot_id": f"val-{n}",
            "img_fn": f"movie/{n}.jpg",
            "metadata_fn": f"movie/{n}.json",
            "objects": VCR_OBJECTS,
            "question": question,
            "answer_choices": [*choices, ["Nobody", "knows", "."], ["No", "."]],
            "answer_label": n % 2,
        }
        for n, (question, choices) in enumerate(asked)
    ]
    for n in range(3):
        scene = {
            "boxes": [*VCR_BOXES, [0, 0, 9, 9, 1]],
            "segms": [],
            "names": VCR_OBJECTS,
            "width": 900,
            "height": 9,
        }
        reform.write_json(to / "vcr1images/movie" / f"{n}.json", scene)
        reform.write_picture(to / "vcr1images/movie" / f"{n}.jpg", n)
    small.write(rows, to / "val.jsonl")
    return to


def pope(name: str) -> Callable[[Path], Path]:
    """Six questions about each of two images, yes and no in turns; one misspells the image as published files do."""

    def make(to: Path) -> Path:
        rows = [
            {
                "question_id": n + 1,
                "image": f"COCO_val2014_{310196 + n // 6:012d}.jpg",
                "text": f"Is there {'an imange of ' if n == 4 else 'a '}thing {n} in the image?",
                "label": ("yes", "no")[n % 2],
            }
            for n in range(12)
        ]
        to.mkdir(parents=True, exist_ok=True)
        (to / f"coco_{name.replace('-', '_')}.json").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
        for n in range(2):
            reform.write_picture(to / "val2014" / f"COCO_val2014_{310196 + n:012d}.jpg", n)
        return to

    return make


def embodied(to: Path) -> Path:
    rows = [{"image_path": f"pictures/{n}.png", "question": f"Move kettle {n}."} for n in range(3)]
    reform.write_json(to / "val_dataset.json", rows)
    for n in range(3):
        reform.write_picture(to / "pictures" / f"{n}.png", n)
    return to


def minecraft(to: Path) -> Path:
    embodied(to)
    (to / "prefix_prompt.txt").write_text("Look at the image. {INSERT HERE} Make a plan.\n")
    return to


MINIATURES: dict[str, Callable[[Path], object]] = {
    "imagenet-1k": classes.imagenet_1k,
    "cifar10": classes.cifar10,
    "pets37": classes.pets37,
    "flowers102": flowers102,
    "coco-oc": coco_oc,
    "coco-mci": coco_mci,
    "vcr-oc": vcr_oc,
    "vcr-mci": vcr_mci,
    **dict.fromkeys(OCR, words),
    "sroie": sroie,
    "funsd": mini_text.funsd,
    "nocaps": mini_text.nocaps,
    "flickr30k": mini_text.flickr30k_tokens,
    "whoops-captions": whoops_captions,
    "docvqa": mini_text.docvqa,
    "textvqa": mini_text.textvqa,
    "stvqa": stvqa,
    "ocr-vqa": ocr_vqa,
    "ok-vqa": vqa.ok_vqa,
    "gqa": knowledge.gqa,
    "visdial": visdial,
    "icon-qa": test_mapped.icon_qa,
    "vsr": vsr,
    "scienceqa": knowledge.science_qa,
    "vizwiz": vizwiz,
    "whoops-vqa": knowledge.whoops,
    "snli-ve": snli,
    "imagenetvc": knowledge.imagenetvc,
    "vcr": vcr,
    **{name: pope(name) for name in POPE},
    "minecraft": minecraft,
    **dict.fromkeys(EMBODIED[1:], embodied),
}
NEED_WORDNET = ("imagenet-1k", "cifar10")


def official(name: str, to: Path) -> Path:
    """The official files of an entry, small, in a folder of their own; skips where WordNet is not there."""
    if name in NEED_WORDNET:
        classes.needs_wordnet()
    MINIATURES[name](to)
    return to
