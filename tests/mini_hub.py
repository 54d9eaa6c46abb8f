"""Miniatures of datasets on the hub, made of the miniatures of the official files: Parquet with images inside."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

import mini_text
import small
import test_reform_classes as classes
import test_reform_knowledge as knowledge
import test_reform_vqa as vqa
from snellen.catalogue import entries
from snellen.catalogue.places import locked_commit

Rows = list[dict[str, Any]]
COMMIT = "c0ffee" * 6 + "dad5"
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TEXTS = pa.list_(pa.string())
VOTES = pa.list_(
    pa.struct(
        [("answer", pa.string()), ("answer_confidence", pa.string()), ("answer_id", pa.int64())]
    )
)
TYPES = pa.struct(
    [("structural", pa.string()), ("semantic", pa.string()), ("detailed", pa.string())]
)
FLOWERS = [
    "pink primrose",
    "hard-leaved pocket orchid",
    "canterbury bells",
    "sweet pea",
    "english marigold",
]
LABELS = [
    "tench, Tinca tinca",
    "goldfish, Carassius auratus",
    "tiger shark, Galeocerdo cuvieri",
    "crane",
    "crane",
]


def picture(file: Path) -> dict[str, Any]:
    return {"bytes": file.read_bytes(), "path": file.name}


def drawn(number: int) -> dict[str, Any]:
    return {"bytes": small.picture(number), "path": None}


def write(
    path: Path,
    rows: Rows,
    types: dict[str, pa.DataType],
    names: dict[str, Sequence[str]] | None = None,
    group: int = 5,
) -> Path:
    """A file as the `datasets` library writes it: what the columns hold is in its metadata, `names` of classes too."""
    features: dict[str, Any] = {}
    for column, kind in types.items():
        features[column] = (
            {"_type": "Image"} if kind == PICTURE else {"dtype": str(kind), "_type": "Value"}
        )
    for column, classes_ in (names or {}).items():
        features[column] = {"names": list(classes_), "_type": "ClassLabel"}
    schema = pa.schema(
        list(types.items()),
        metadata={"huggingface": json.dumps({"info": {"features": features}}).encode()},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=group)
    return path


def vqav2(official: Path, to: Path) -> None:
    asked = json.loads((official / "v2_OpenEnded_mscoco_val2014_questions.json").read_text())[
        "questions"
    ]
    notes = json.loads((official / "v2_mscoco_val2014_annotations.json").read_text())["annotations"]
    rows = [
        {
            **q,
            **note,
            "image": picture(official / "val2014" / f"COCO_val2014_{q['image_id']:012d}.jpg"),
        }
        for q, note in zip(asked, notes, strict=True)
    ]
    types = {
        "question_type": pa.string(),
        "multiple_choice_answer": pa.string(),
        "answers": VOTES,
        "image_id": pa.int64(),
        "answer_type": pa.string(),
        "question_id": pa.int64(),
        "question": pa.string(),
        "image": PICTURE,
    }
    # In two files, as large splits are.
    write(to / "data/validation-00000-of-00002.parquet", rows[:90], types, group=40)
    write(to / "data/validation-00001-of-00002.parquet", rows[90:], types, group=40)


def ok_vqa(official: Path, to: Path) -> None:
    asked = json.loads((official / "OpenEnded_mscoco_val2014_questions.json").read_text())[
        "questions"
    ]
    notes = json.loads((official / "mscoco_val2014_annotations.json").read_text())["annotations"]
    pictures = official / "coco" / "val2014"
    rows = [
        {
            "question_id": str(q["question_id"]),
            "image": picture(pictures / f"COCO_val2014_{q['image_id']:012d}.jpg"),
            "question": q["question"],
            "answers": [vote["answer"] for vote in note["answers"]],
            "question_type": note["question_type"],
            "answer_type": note["answer_type"],
        }
        for q, note in zip(asked, notes, strict=True)
    ]
    types = {name: pa.string() for name in rows[0]} | {"image": PICTURE, "answers": TEXTS}
    write(to / "data/val2014-00000-of-00001.parquet", rows, types)


def vizwiz(official: Path, to: Path) -> None:
    rows = [
        {
            "question_id": Path(item["image"]).stem,
            "image": picture(official / "val" / item["image"]),
            "question": item["question"],
            "answers": [vote["answer"] for vote in item["answers"]],
            "category": item["answer_type"],
        }
        for item in json.loads((official / "Annotations/val.json").read_text())
    ]
    types = {name: pa.string() for name in rows[0]} | {"image": PICTURE, "answers": TEXTS}
    # Files of that time have a digest at the end of their names.
    write(to / "data/val-00000-of-00001-7775fd61bc6a3d98.parquet", rows, types)


def gqa(official: Path, to: Path) -> None:
    asked = json.loads((official / "testdev_balanced_questions.json").read_text())
    rows = [{"id": name, **item} for name, item in asked.items()]
    text = pa.string()
    types = {
        "id": text,
        "imageId": text,
        "question": text,
        "answer": text,
        "fullAnswer": text,
        "types": TYPES,
    }
    write(to / "testdev_balanced_instructions/testdev-00000-of-00001.parquet", rows, types)
    shown = [
        {"id": f"n{n}", "image": picture(official / "images" / f"n{n}.jpg")}
        for n in (3, 1, 4, 0, 2)
    ]
    write(
        to / "testdev_balanced_images/testdev-00000-of-00001.parquet",
        shown,
        {"id": text, "image": PICTURE},
        group=2,
    )


def science_qa(official: Path, to: Path) -> None:
    problems = json.loads((official / "problems.json").read_text())
    names = json.loads((official / "pid_splits.json").read_text())["test"]
    rows = [
        {**problems[name], "image": picture(official / "images/test" / name / "image.png")}
        for name in names
        if problems[name]["image"]
    ]
    kept = (
        "question",
        "hint",
        "task",
        "grade",
        "subject",
        "topic",
        "category",
        "skill",
        "lecture",
        "solution",
    )
    types = {name: pa.string() for name in kept} | {
        "image": PICTURE,
        "choices": TEXTS,
        "answer": pa.int8(),
    }
    write(to / "ScienceQA-IMG/test-00000-of-00001.parquet", rows, types)


def a_okvqa(official: Path, to: Path) -> None:
    rows = [
        {**item, "image": picture(official / "val2017" / f"{item['image_id']:012d}.jpg")}
        for item in json.loads((official / "aokvqa_v1p0_val.json").read_text())
    ]
    types = {
        "image": PICTURE,
        "question_id": pa.string(),
        "question": pa.string(),
        "choices": TEXTS,
        "correct_choice_idx": pa.int8(),
        "rationales": TEXTS,
    }
    write(to / "data/validation-00000-of-00001-b2bd0de231b6326a.parquet", rows, types)


def textvqa(official: Path, to: Path) -> None:
    rows = [
        {**item, "image": picture(official / "train_images" / f"{item['image_id']}.jpg")}
        for item in json.loads((official / "TextVQA_0.5.1_val.json").read_text())["data"]
    ]
    types = {
        "image_id": pa.string(),
        "question_id": pa.int32(),
        "question": pa.string(),
        "image": PICTURE,
        "answers": TEXTS,
    }
    write(to / "data/validation-00000-of-00001.parquet", rows, types)


def docvqa(official: Path, to: Path) -> None:
    rows = []
    for item in json.loads((official / "val" / "val_v1.0.json").read_text())["data"]:
        document, page = Path(item["image"]).stem.split("_")
        rows.append(
            {
                **item,
                "questionId": str(item["questionId"]),
                "image": picture(official / "val" / item["image"]),
                "ucsf_document_id": document,
                "ucsf_document_page_no": page,
            }
        )
    text = pa.string()
    types = {
        "questionId": text,
        "question": text,
        "image": PICTURE,
        "docId": pa.int64(),
        "ucsf_document_id": text,
        "ucsf_document_page_no": text,
        "answers": TEXTS,
        "data_split": text,
    }
    write(to / "DocVQA/validation-00000-of-00001.parquet", rows, types)


def ocr_vqa(official: Path, to: Path) -> None:
    rows = [
        {**book, "image_id": name, "image": picture(official / "images" / f"{name}.jpg")}
        for name, book in json.loads((official / "dataset.json").read_text()).items()
        if book["split"] == 3
    ]
    types = {
        "image": PICTURE,
        "image_id": pa.string(),
        "questions": TEXTS,
        "answers": TEXTS,
        "genre": pa.string(),
    }
    write(to / "data/test-00000-of-00001-45d65f5057dd1a9e.parquet", rows, types)


def _captioned(
    official: Path, file: str, pictures: str
) -> Iterator[tuple[int, list[str], dict[str, Any]]]:
    content = json.loads((official / file).read_text())
    for image in content["images"]:
        texts = [one["caption"] for one in content["annotations"] if one["image_id"] == image["id"]]
        yield image["id"], texts, picture(official / pictures / image["file_name"])


def coco_caption(official: Path, to: Path) -> None:
    rows = [
        {"question_id": f"{number:012d}.jpg", "image": shown, "answer": texts, "id": place}
        for place, (number, texts, shown) in enumerate(
            _captioned(official, "annotations/captions_val2017.json", "val2017")
        )
    ]
    types = {"question_id": pa.string(), "image": PICTURE, "answer": TEXTS, "id": pa.int64()}
    write(to / "data/val-00000-of-00001.parquet", rows, types)


def nocaps(official: Path, to: Path) -> None:
    rows = [
        {"image": shown, "image_id": number, "annotations_captions": texts}
        for number, texts, shown in _captioned(
            official, "nocaps_val_4500_captions.json", "val_imgs"
        )
    ]
    types = {"image": PICTURE, "image_id": pa.int32(), "annotations_captions": TEXTS}
    write(to / "data/validation-00000-of-00001.parquet", rows, types)


def textcaps(official: Path, to: Path) -> None:
    data = json.loads((official / "TextCaps_0.1_val.json").read_text())["data"]
    rows = [
        {
            "image_id": row["image_id"],
            "image": picture(official / "train_images" / f"{row['image_id']}.jpg"),
            "caption_str": row["reference_strs"],
        }
        for row in data[::5]
    ]
    types = {"image_id": pa.string(), "image": PICTURE, "caption_str": TEXTS}
    write(to / "data/val-00000-of-00001.parquet", rows, types)


def flickr30k(official: Path, to: Path) -> None:
    rows = [
        {
            "image": picture(official / "flickr30k-images" / image["filename"]),
            "caption": [sentence["raw"] for sentence in image["sentences"]],
            "split": image["split"],
            "img_id": str(image["imgid"]),
            "filename": image["filename"],
        }
        for image in json.loads((official / "dataset_flickr30k.json").read_text())["images"]
    ]
    types = {name: pa.string() for name in rows[0]} | {"image": PICTURE, "caption": TEXTS}
    # The hub's own conversion of a dataset that was a script.
    write(to / "TEST/test/0000.parquet", rows[:7], types)
    write(to / "TEST/test/0001.parquet", rows[7:], types)


def whoops(official: Path, to: Path) -> None:
    rows = []
    for n in range(6):
        pairs = [[f'What is "odd", {n}?', vqa.ANIMALS[n]], ["And, so?", vqa.ANIMALS[(n + 1) % 6]]][
            : 0 if n == 5 else 2
        ]
        rows.append(
            {
                "image": picture(official / "whoops_images" / f"id{n}.png"),
                "question_answering_pairs": pairs,
                "commonsense_category": ("Age", "Job")[n % 2],
                "image_id": f"id{n}",
            }
        )
    types = {
        "image": PICTURE,
        "question_answering_pairs": pa.list_(TEXTS),
        "commonsense_category": pa.string(),
        "image_id": pa.string(),
    }
    write(to / "TEST/test/0000.parquet", rows, types)


def cifar10(_: Path, to: Path) -> None:
    rows = []
    for number in range(30):
        out = io.BytesIO()
        Image.fromarray(classes.planes(number).reshape(3, 32, 32).transpose(1, 2, 0)).save(
            out, "PNG"
        )
        rows.append({"img": {"bytes": out.getvalue(), "path": None}, "label": number % 10})
    names = {"label": classes.CIFAR}
    write(
        to / "plain_text/test-00000-of-00001.parquet",
        rows,
        {"img": PICTURE, "label": pa.int64()},
        names,
    )


def pets37(official: Path, to: Path) -> None:
    rows = [
        {
            "image": picture(official / "images" / f"{name}_{number}.jpg"),
            "label": breed,
            "image_id": f"{name}_{number}",
            "label_cat_dog": species - 1,
        }
        for breed, (name, species) in enumerate(classes.PETS)
        for number in range(4)
    ]
    types = {
        "image": PICTURE,
        "label": pa.int64(),
        "image_id": pa.string(),
        "label_cat_dog": pa.int64(),
    }
    names = {"label": [name.lower() for name, _ in classes.PETS], "label_cat_dog": ["cat", "dog"]}
    write(to / "data/test-00000-of-00001.parquet", rows, types, names)


def flowers102(_: Path, to: Path) -> None:
    rows = [{"image": drawn(number), "label": number % 5} for number in range(12)]
    types = {"image": PICTURE, "label": pa.int64()}
    write(to / "data/validation-00000-of-00001.parquet", rows, types, {"label": FLOWERS})


def imagenet_1k(_: Path, to: Path) -> None:
    rows = [{"image": drawn(number), "label": number % 5} for number in range(15)]
    types = {"image": PICTURE, "label": pa.int64()}
    write(to / "data/validation-00000-of-00001.parquet", rows, types, {"label": LABELS})


Official = Callable[[Path], Path]
DATASETS: dict[str, tuple[Official, Callable[[Path, Path], None]]] = {
    "vqav2": (vqa.vqav2, vqav2),
    "vqa-mt": (vqa.vqav2, vqav2),
    "ok-vqa": (vqa.ok_vqa, ok_vqa),
    "vizwiz": (vqa.vizwiz, vizwiz),
    "gqa": (knowledge.gqa, gqa),
    "scienceqa": (knowledge.science_qa, science_qa),
    **dict.fromkeys(("a-okvqa", "a-okvqra", "a-okvqar"), (knowledge.a_okvqa, a_okvqa)),
    "textvqa": (mini_text.textvqa, textvqa),
    "docvqa": (mini_text.docvqa, docvqa),
    "ocr-vqa": (mini_text.ocr_vqa, ocr_vqa),
    "coco-caption": (mini_text.coco_caption, coco_caption),
    "textcaps": (mini_text.textcaps, textcaps),
    "nocaps": (mini_text.nocaps, nocaps),
    "flickr30k": (mini_text.flickr30k, flickr30k),
    "whoops": (knowledge.whoops, whoops),
    "cifar10": (classes.cifar10, cifar10),
    "pets37": (classes.pets37, pets37),
    "flowers102": (classes.flowers102, flowers102),
    "imagenet-1k": (classes.imagenet_1k, imagenet_1k),
}


def snapshot(name: str, to: Path) -> Path:
    """The dataset of `reform-eval/NAME` in a cache of the hub at `to`, beside its official files. Its folder."""
    make_official, make = DATASETS[name]
    hub = entries()[f"reform-eval/{name}"].hub
    commit = locked_commit(hub)
    repo = to / "hub" / f"datasets--{hub.repo.replace('/', '--')}"
    folder = repo / "snapshots" / (commit or COMMIT)
    make(make_official(to / "official"), folder)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(folder.name)
    return folder
