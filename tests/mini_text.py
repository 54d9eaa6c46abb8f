"""Miniatures of the official files of the text, caption and dialogue benchmarks: a maker by the entry's name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import reform

WORDS = "RONALDO 7 SEACREST BEACH Tiredness kills 62-03 Café OPEN Stop Sale exit".split()
COUNT = len(WORDS)


def _lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _pictures(folder: Path, names: Sequence[str], size: tuple[int, int] = (40, 24)) -> None:
    for number, name in enumerate(names):
        reform.write_picture(folder / name, number, size)


def cute80(to: Path) -> Path:
    names = [f"timage/{number:03d}.jpg" for number in range(1, COUNT + 1)]
    _pictures(to / "CUTE80", names)
    lines = [f"{name} {word} 1 {word}" for name, word in zip(names, WORDS, strict=True)]
    _lines(to / "CUTE80" / "test_label.txt", lines)
    return to


def ic15(to: Path) -> Path:
    names = [f"word_{number}.png" for number in range(1, COUNT + 1)]
    _pictures(to / "ch4_test_word_images_gt", names)
    lines = [f'{name}, "{word}"' for name, word in zip(names, WORDS, strict=True)]
    _lines(to / "Challenge4_Test_Task3_GT.txt", [*lines, 'word_2.png, "%"'])
    path = to / "Challenge4_Test_Task3_GT.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    return to


def iiit5k(to: Path) -> Path:
    from scipy.io import savemat

    names = [f"test/{number}_1.png" for number in range(COUNT)]
    _pictures(to / "IIIT5K", names)
    records = np.empty((1, COUNT), [("ImgName", "O"), ("GroundTruth", "O"), ("smallLexi", "O")])
    for place, (name, word) in enumerate(zip(names, WORDS, strict=True)):
        records[0, place] = (name, word, np.array(["LONDON", "BEER"], dtype=object))
    savemat(to / "IIIT5K" / "testdata.mat", {"testdata": records})
    return to


def coco_text(to: Path) -> Path:
    _pictures(to / "val_words", [f"{1000 + number}.jpg" for number in range(COUNT + 2)])
    lines = [f"{1000 + number},{word}" for number, word in enumerate(WORDS)]
    _lines(
        to / "val_words_gt.txt",
        [*lines, f"{1000 + COUNT},|New, and|", "", f"{1001 + COUNT},|two", "lines|"],
    )
    return to


def wordart(to: Path) -> Path:
    names = [f"test_image/{number}.png" for number in range(COUNT)]
    _pictures(to / "WordArt", names)
    lines = [f"{name} {word} it" for name, word in zip(names, WORDS, strict=True)]
    _lines(to / "WordArt" / "test_label.txt", lines)
    return to


def textocr(to: Path) -> Path:
    """Four images of 200 x 120 pixels with three words each; two are illegible or a sign, one box is small."""
    images = {
        f"img{n}": {
            "id": f"img{n}",
            "width": 200,
            "height": 120,
            "set": "val",
            "file_name": f"train/img{n}.jpg",
        }
        for n in range(4)
    }
    anns = {}
    for place, word in enumerate(WORDS):
        side = 30 if place == 5 else 45 + place
        anns[f"img{place % 4}_{place}"] = {
            "id": f"img{place % 4}_{place}",
            "image_id": f"img{place % 4}",
            "bbox": [10.5 + 5 * place, 20.25, side + 5, side],
            "points": [0.0] * 8,
            "utf8_string": {3: ".", 4: "&"}.get(place, word),
            "area": 1.0,
        }
    reform.write_json(to / "TextOCR_0.1_val.json", {"imgs": images, "anns": anns, "imgToAnns": {}})
    _pictures(to / "train_images", [f"img{n}.jpg" for n in range(4)], (200, 120))
    return to


def coco_text_scenes(to: Path) -> Path:
    """As `textocr`, in COCO-Text's form: an illegible word without a text, one of another language, one to train on."""
    images = {
        str(n): {
            "id": n,
            "file_name": f"COCO_train2014_{n:012d}.jpg",
            "set": "train" if n == 9 else "val",
        }
        for n in (5, 6, 7, 9)
    }
    anns: dict[str, dict[str, Any]] = {
        str(place): {
            "id": place,
            "image_id": (5, 6, 7)[place % 3],
            "bbox": [12.0 + 5 * place, 9.5, 50 + place, 41.5],
            "utf8_string": word,
            "legibility": "legible",
            "language": "english",
            "class": "machine printed",
        }
        for place, word in enumerate(WORDS)
    }
    anns["2"]["legibility"] = "illegible"
    del anns["2"]["utf8_string"]
    anns["3"]["language"] = "not english"
    anns["4"]["image_id"] = 9
    anns["5"]["bbox"] = [12.0, 9.5, 200, 40]
    reform.write_json(
        to / "COCO_Text.json",
        {"imgs": images, "anns": anns, "imgToAnns": {}, "cats": {}, "info": {}},
    )
    _pictures(to / "train2014", [f"COCO_train2014_{n:012d}.jpg" for n in (5, 6, 7, 9)], (200, 120))
    return to


def gic15(to: Path) -> Path:
    for n in (1, 2, 10):
        lines = [
            f"10,12,70,10,72,60,9,61,{WORDS[n]}, {n}",
            "80,10,90,10,90,70,80,70,thin",
            "1,1,99,1,99,99,1,99,###",
        ]
        _lines(
            to / "Challenge4_Test_Task4_GT" / f"gt_img_{n}.txt",
            [*lines, f"20,20,80,20,80,90,20,90,{WORDS[-n]}"],
        )
    path = to / "Challenge4_Test_Task4_GT" / "gt_img_1.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    _pictures(to / "ch4_test_images", ["img_1.jpg", "img_2.jpg", "img_10.jpg"], (120, 100))
    return to


def funsd(to: Path) -> Path:
    """Two forms: a field of two answers, one of one, one not filled in, one filled in with a dash, one with nothing.

    A heading is linked with the first.
    """
    for n in range(2):
        texts = [
            "DATE:",
            "June 5,",
            "1988",
            "TO:",
            "Dr. Lee",
            "FAX:",
            "SIGNED",
            "-",
            "REMARKS",
            "",
            "MEMO",
        ]
        labels = "question answer answer question answer question question answer question answer header".split()
        links = {
            0: [[10, 0], [0, 1], [0, 2]],
            10: [[10, 0]],
            1: [[0, 1]],
            2: [[0, 2]],
            3: [[3, 4]],
            4: [[3, 4]],
            6: [[6, 7]],
            8: [[8, 9]],
        }
        form = [
            {
                "id": i,
                "text": text,
                "label": label,
                "linking": links.get(i, []),
                "box": [0, 0, 9, 9],
                "words": [],
            }
            for i, (text, label) in enumerate(zip(texts, labels, strict=True))
        ]
        reform.write_json(
            to / "dataset" / "testing_data" / "annotations" / f"8{n}.json", {"form": form}
        )
    _pictures(to / "dataset" / "testing_data" / "images", ["80.png", "81.png"])
    return to


def poie(to: Path) -> Path:
    rows = [
        {
            "file_name": f"image_files/nf{n:04d}.jpg",
            "height": 24,
            "width": 40,
            "annotations": [],
            "entity_dict": {
                "SS": f"{n}0 g",
                "CE-PS": f"{n}50kJ (1{n}kcal)",
                "TF-D": "—",
                "SO-P1": f"0.{n} g",
            },
        }
        for n in range(4)
    ]
    _lines(to / "POIE" / "test.txt", [json.dumps(row) for row in rows])
    _pictures(to / "POIE", [row["file_name"] for row in rows])
    return to


def sroie(to: Path) -> Path:
    for n in range(3):
        receipt = {
            "company": f"SHOP {n} SDN BHD",
            "date": f"0{n + 1}/02/2018",
            "address": f"{n} JALAN",
            "total": f"{n}.50",
        }
        reform.write_json(to / "SROIE2019" / "test" / "entities" / f"X{n}.txt", receipt)
    reform.write_json(
        to / "SROIE2019" / "test" / "entities" / "X1(1).txt", {"company": "SHOP 1 SDN BHD"}
    )
    _pictures(to / "SROIE2019" / "test" / "img", [f"X{n}.jpg" for n in range(3)])
    return to


def textvqa(to: Path) -> Path:
    golds = [["x"] + [word] * 6 + ["maybe " + word, "unanswerable", "no"] for word in WORDS]
    golds[1] = ["yes"] * 8 + WORDS[:2]
    golds[2] = ["answering does not require reading text in the image"] * 5 + ["wood"] * 5
    data = [
        {
            "question_id": 34602 + n,
            "question": f"what is word {n}?",
            "image_id": f"a{n % 5}",
            "answers": answers,
        }
        for n, answers in enumerate(golds)
    ]
    reform.write_json(to / "TextVQA_0.5.1_val.json", {"dataset_type": "val", "data": data})
    tokens = [
        {"image_id": f"a{n}", "ocr_tokens": [*WORDS[n::5], "the"], "ocr_info": []} for n in range(4)
    ]
    reform.write_json(to / "TextVQA_Rosetta_OCR_v0.2_val.json", {"data": tokens})
    _pictures(to / "train_images", [f"a{n}.jpg" for n in range(5)])
    return to


def docvqa(to: Path) -> Path:
    data = [
        {
            "questionId": 49153 + n,
            "question": f"What is line {n}?",
            "image": f"documents/p{n % 3}_1.png",
            "docId": n,
            "answers": ["No"] if n == 4 else [f"line {word}", f"{word} line"],
            "data_split": "val",
        }
        for n, word in enumerate(WORDS)
    ]
    reform.write_json(to / "val" / "val_v1.0.json", {"dataset_name": "docvqa", "data": data})
    for page in range(3):
        lines = [{"text": f"Line {word}", "words": []} for word in WORDS[page::3][:2]]
        reform.write_json(
            to / "val" / "ocr_results" / f"p{page}_1.json",
            {"recognitionResults": [{"lines": lines}]},
        )
    _pictures(to / "val" / "documents", [f"p{n}_1.png" for n in range(3)])
    return to


def ocr_vqa(to: Path) -> Path:
    books = {
        f"06{n}": {
            "split": 1 if n == 4 else 3,
            "imageURL": f"http://images.example/{n}.jpg",
            "questions": [
                "Who is the author of this book?",
                "What is the title?",
                "What type of book is this?",
                "Is it?",
            ],
            "answers": [f"Ann Author {n}", f"{WORDS[n]} & Co", "Travel", "Yes"],
            "title": f"{WORDS[n]} & Co",
            "authorName": f"Ann Author {n}",
            "genre": "Travel",
        }
        for n in range(6)
    }
    reform.write_json(to / "dataset.json", books)
    _pictures(to / "images", [f"06{n}.jpg" for n in range(6)])
    return to


def _captions(number: int) -> list[str]:
    return [f"A {WORDS[number]} sign of shape {place} stands in the street ." for place in range(5)]


def coco_caption(
    to: Path, file: str = "annotations/captions_val2017.json", pictures: str = "val2017"
) -> Path:
    domains = ("in-domain", "near-domain", "out-domain")
    images = [
        {"id": 10 + n, "file_name": f"{n:012d}.jpg", "domain": domains[n % 3]} for n in range(COUNT)
    ]
    if "nocaps" not in file:
        for image in images:
            del image["domain"]
    annotations = [
        {"id": 5 * n + place, "image_id": 10 + n, "caption": text}
        for n in range(COUNT)
        for place, text in enumerate(_captions(n))
    ]
    reform.write_json(to / file, {"images": images, "annotations": annotations})
    _pictures(to / pictures, [str(image["file_name"]) for image in images])
    return to


def nocaps(to: Path) -> Path:
    return coco_caption(to, "nocaps_val_4500_captions.json", "val_imgs")


def textcaps(to: Path) -> Path:
    data = [
        {
            "image_id": f"t{n}",
            "caption_id": 5 * n + place,
            "caption_str": text,
            "reference_strs": _captions(n),
        }
        for n in range(COUNT)
        for place, text in enumerate(_captions(n))
    ]
    reform.write_json(to / "TextCaps_0.1_val.json", {"data": data})
    _pictures(to / "train_images", [f"t{n}.jpg" for n in range(COUNT)])
    return to


def flickr30k(to: Path) -> Path:
    images = [
        {
            "filename": f"{n}.jpg",
            "imgid": n,
            "split": "train" if n == 3 else "test",
            "sentences": [{"raw": text, "tokens": text.split()} for text in _captions(n)],
        }
        for n in range(COUNT)
    ]
    reform.write_json(to / "dataset_flickr30k.json", {"images": images, "dataset": "flickr30k"})
    _pictures(to / "flickr30k-images", [f"{n}.jpg" for n in range(COUNT)])
    return to


def flickr30k_tokens(to: Path) -> Path:
    """The same images from the site's own file, with the list of those to test on."""
    lines = [
        f"{n}.jpg#{place}\t{text}" for n in range(COUNT) for place, text in enumerate(_captions(n))
    ]
    _lines(to / "results_20130124.token", lines)
    _lines(to / "test.txt", [str(n) for n in range(COUNT) if n != 3])
    _pictures(to / "flickr30k-images", [f"{n}.jpg" for n in range(COUNT)])
    return to


QUESTIONS = (
    "is it sunny",
    "what color is the car?",
    "how many people are there",
    "is there a dog",
    "what color is the hat",
)
ANSWERS = (
    "yes", "no", "yes, it is", "no, not at all", "red", "dark blue", "2", "several", "a green one", "can't tell",
    "just 1", "i think so", "white", "four of them",
)  # fmt: skip
_REPLIES = {0: (0, 1, 2, 3, 9), 1: (4, 5, 8), 2: (6, 7, 10, 13), 3: (1, 0, 3, 11), 4: (12, 5, 4)}


def visdial(to: Path) -> Path:
    """Eight dialogues; in the first, candidates 1, 2 and 3 of round 4 are annotated, two of them as right."""
    dialogs = []
    for n in range(8):
        turns = []
        for number in range(10):
            question = (n + number) % 5
            answer = _REPLIES[question][(n * 3 + number) % len(_REPLIES[question])]
            options = [answer, *(place for place in range(len(ANSWERS)) if place != answer)]
            turns.append(
                {"question": question, "answer": answer, "answer_options": options, "gt_index": 0}
            )
        dialogs.append(
            {"image_id": 185565 + n, "caption": f"a car and {n} people", "dialog": turns}
        )
    data = {"questions": list(QUESTIONS), "answers": list(ANSWERS), "dialogs": dialogs}
    reform.write_json(
        to / "visdial_1.0_val.json", {"version": "1.0", "split": "val2018", "data": data}
    )
    relevance = [1.0, 0.5, 0.0, 0.4] + [0.0] * (len(ANSWERS) - 4)
    dense = [{"image_id": 185565, "round_id": 5, "gt_relevance": relevance}]
    reform.write_json(to / "visdial_1.0_val_dense_annotations.json", dense)
    _pictures(
        to / "VisualDialog_val2018",
        [f"VisualDialog_val2018_{185565 + n:012d}.jpg" for n in range(8)],
    )
    return to


MINIATURES: dict[str, Callable[[Path], Path]] = {
    "cute80": cute80,
    "ic15": ic15,
    "iiit5k": iiit5k,
    "coco-text": coco_text,
    "wordart": wordart,
    "textocr": textocr,
    "gic15": gic15,
    "gcoco-text": coco_text_scenes,
    "gtextocr": textocr,
    "funsd": funsd,
    "poie": poie,
    "sroie": sroie,
    "textvqa": textvqa,
    "docvqa": docvqa,
    "ocr-vqa": ocr_vqa,
    "coco-caption": coco_caption,
    "textcaps": textcaps,
    "nocaps": nocaps,
    "flickr30k": flickr30k,
    "visdial": visdial,
}
