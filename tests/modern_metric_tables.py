"""Miniatures of the datasets that are scored by groups, points, numbers and boxes: their own columns and types."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct

import mini_hub
import small
from snellen.suites.modern.metrics import COGNITION, PERCEPTION, READING

TEXT, INT, TEXTS, PICTURE = pa.string(), pa.int64(), mini_hub.TEXTS, mini_hub.PICTURE
BOX = pa.list_(pa.float64())
Row = dict[str, Any]


class Table(Struct, frozen=True):
    """A file of a dataset: the types of its columns, and its rows by their numbers."""

    file: str
    types: dict[str, pa.DataType]
    row: Callable[[int], Row]
    rows: int = 8


def columns(names: str, kind: pa.DataType = TEXT) -> dict[str, pa.DataType]:
    return dict.fromkeys(names.split(), kind)


def mme(number: int) -> Row:
    pair = number // 2
    category = (PERCEPTION + COGNITION)[pair // 2]
    return {
        "question_id": f"{category}/{pair}.png",
        "category": category,
        "image": mini_hub.drawn(pair),
        "question": f"Is it {number}? Please answer yes or no.",
        "answer": ("Yes", "No")[number % 2],
    }


def hallusionbench(number: int) -> Row:
    return {
        "category": "VS",
        "subcategory": "chart",
        "visual_input": "1",
        "set_id": str(number // 4),
        "figure_id": str(1 + number // 2 % 2),
        "sample_note": "c",
        "question_id": str(number % 2),
        "filename": "x.png",
        "question": f"Is number {number} the largest?",
        "gt_answer": str(number % 3 % 2),
        "gt_answer_details": "It is.",
        "image": mini_hub.drawn(number // 2),
    }


STEPS = ("2steps_1", "2steps_2", "2steps_multi", "3steps_1", "3steps_2", "3steps_3", "3steps_multi")
"""The parts of two problems of We-Math, each with its single steps and as a whole."""


def wemath(number: int) -> Row:
    problem, part = divmod(number, len(STEPS))
    return {
        "ID": f"{2 * problem + (part > 2)}",
        "key": STEPS[part],
        "knowledge concept": "Angles",
        "question": f"How long is side {number}?",
        "option": "A. 3 cm; B. 4 cm; C. 5 cm",
        "answer": "ABC"[number % 3],
        "image_path": mini_hub.drawn(number),
    }


def mmvp(number: int) -> Row:
    return {
        "Index": number + 1,
        "Question": f"Is the door of house {number // 2} open or closed?",
        "Options": "(a) Open (b) Closed (as it is)",
        "Correct Answer": f"({'ab'[number % 2]})",
        "image": mini_hub.drawn(number),
    }


def naturalbench(number: int) -> Row:
    group, question, picture = number // 4, number // 2 % 2, number % 2
    lettered = group % 2
    text = (
        f"Is it {group}.{question}?"
        if not lettered
        else f"What is {group}.{question}? Option: A: Left; B: Right."
    )
    return {
        "Index": number,
        "Image": mini_hub.drawn(2 * group + picture),
        "Question": text,
        "Question_Type": ("yes_no", "multiple_choice")[lettered],
        "Answer": (("Yes", "No"), ("A", "B"))[lettered][(question + picture) % 2],
    }


def hr_bench(number: int) -> Row:
    asked, cycle = number // 4, number % 4
    options = small.ANIMALS[:4]
    turned = options[cycle:] + options[:cycle]
    return {
        "index": number,
        "question": f"Which animal is number {asked}?",
        **dict(zip("ABCD", turned, strict=True)),
        "answer": "ABCD"[turned.index(options[asked % 4])],
        "category": ("single", "cross")[asked % 2],
        "cycle_category": str(cycle),
        "image": base64.b64encode(small.picture(asked)).decode(),
    }


def ocrbench(number: int) -> Row:
    kind = tuple(READING)[number]
    formula = kind.startswith("Handwritten Math")
    return {
        "dataset": "HME100k" if formula else "IIIT5K",
        "question": f"What is written in picture {number}?",
        "question_type": kind,
        "answer": [r"\frac { a } { b }"] if formula else [f"WORD {number}", f"W-{number}"],
        "image": mini_hub.drawn(number),
    }


OCR_V2: tuple[tuple[str, Row], ...] = (
    ("APP agent en", {"answers": ["on", "enabled"]}),
    ("ASCII art classification en", {"answers": ["B"], "eval": "multiple choice"}),
    ("key information extraction en", {"answers": ['{"total": "12"}']}),
    ("key information mapping en", {"answers": ['{"total": ["12", "12.00"]}']}),
    ("math QA en", {"answers": ["B"], "eval": "multiple choice"}),
    ("full-page OCR en", {"answers": ["A wren sings in the tree"]}),
    ("reasoning VQA en", {"answers": ["the third of the five ships"]}),
    ("fine-grained text recognition en", {"answers": ["One wren sings in the tree"]}),
    ("science QA en", {"answers": ["A"], "eval": "multiple choice"}),
    ("table parsing en", {"answers": ["<table><tr><td>1</td></tr></table>"], "question": "Give HTML."}),
    ("table parsing en", {"answers": ["| a |\n| --- |\n| 1 |"], "question": "Give Markdown."}),
    ("text counting en", {"answers": ["4"], "eval": "regression"}),
    ("text grounding en", {"answers": ["10", "10", "30", "40"]}),
    ("text recognition en", {"answers": ["WORD", "W-ORD"]}),
    ("text spotting en", {"bbox_list": [[1, 2, 30, 2, 30, 40, 1, 40], [5, 50, 60, 90]], "content": ["Exit", "###"]}),
    ("document classification en", {"answers": ["letter"]}),
    ("cognition VQA en", {"answers": ["three"]}),
    ("VQA with position en", {"answers": ["Exit", "EXIT"], "bbox": [1, 2, 30, 40]}),
    ("chart parsing en", {"answers": ['{"2020": {"wrens": 4}, "2021": {"wrens": 5}}']}),
    ("document parsing en", {"answers": ["# Birds\nA wren."]}),
    ("formula recognition en", {"answers": ["a + b"]}),
    ("diagram QA en", {"answers": ["NaCl"], "eval": "case sensitive"}),
    ("cognition VQA cn", {"answers": ["三 月"]}),
    ("key information extraction cn", {"answers": ["{'合计': '12'}"]}),
    ("formula recognition cn", {"answers": [r"\text{甲} + b"]}),
    ("full-page OCR cn", {"answers": ["一只鹪鹩在老树上唱歌"]}),
    ("reasoning VQA cn", {"answers": ["a,b,c,d"]}),
    ("text translation cn", {"answers": ["一只鹪鹩在老树上唱歌"]}),
    ("text translation cn", {"answers": [""]}),
    ("table parsing cn", {"answers": ["<table><tr><td>一</td></tr></table>"]}),
    ("handwritten answer extraction cn", {"answers": ["AC"]}),
    ("handwritten answer extraction cn", {"answers": ["一只鹪鹩在老树上唱歌"], "question": "请输出简答题"}),
    ("document parsing cn", {"answers": ["# 鸟\n一只鹪鹩"]}),
)  # fmt: skip
"""Type and answers of each row. One has no answer."""
OCR_V2_KEPT = {"ocrbench-v2": 22, "ocrbench-v2-zh": 10}
"""How many of the rows each language keeps."""
OCR_V2_COLUMNS = {
    **columns("type eval question"),
    "answers": TEXTS,
    "bbox": pa.list_(pa.int32()),
    "bbox_list": pa.list_(pa.list_(pa.int32())),
    "content": TEXTS,
}


def ocrbench_v2(number: int) -> Row:
    kind, row = OCR_V2[number]
    return {
        "type": kind,
        "eval": "None",
        "answers": [],
        "question": f"What is written in picture {number}?",
        "image": mini_hub.drawn(number),
        **row,
    }


def page_block(order: int, category: str, **content: str) -> Row:
    return {
        "anno_id": order,
        "order": order,
        "category_type": category,
        "poly": [0, 0, 9, 0, 9, 9, 0, 9],
        **content,
    }


OMNIDOC_KEPT = {"omnidocbench": 4, "omnidocbench-zh": 2}
"""How many of the pages are in each language; one is in both of them."""


def omnidocbench(number: int) -> Row:
    """A page: a title, a text in two parts, a formula, a table, and a header that does not count."""
    bird = f"wren {number}"
    languages = (
        "english",
        "english",
        "simplified_chinese",
        "english",
        "en_ch_mixed",
        "simplified_chinese",
        "english",
    )
    page = {
        "layout_dets": [
            page_block(5, "table", html=f"<table><tr><td>{bird}</td><td colspan=\"2\">5</td></tr></table>"),
            page_block(1, "title", text=f"Of the {bird}"),
            page_block(2, "text_block", text=f"The {bird} sings in "),
            page_block(3, "text_block", text="the old tree."),
            page_block(4, "equation_isolated", latex=f"a + {number}"),
            page_block(6, "header", text="Birds of the north"),
            page_block(7, "figure"),
        ],
        "extra": {"relation": [{"source_anno_id": 2, "target_anno_id": 3, "relation_type": "truncated"}]},
        "page_info": {
            "image_path": f"{number}.jpg",
            "page_attribute": {
                "data_source": "book",
                "language": languages[number],
                "layout": "single_column",
                "special_issue": ["watermark"] if number == 0 else [],
            },
        },
    }  # fmt: skip
    return {
        "index": number,
        "image": base64.b64encode(small.picture(number)).decode(),
        "answer": json.dumps(page, ensure_ascii=False),
    }


def mathvista(number: int) -> Row:
    kinds = [
        ("multi_choice", "text", ["3/11", "8/11"], "8/11", None, None), ("free_form", "integer", None, "14", None, "$"),
        ("free_form", "float", None, "1.45", 2.0, None), ("free_form", "list", None, "[2007, 2008]", None, None),
    ]  # fmt: skip
    kind, form, choices, answer, precision, unit = kinds[number % 4]
    return {
        "pid": str(number + 1),
        "question": f"What is number {number}?",
        "choices": choices,
        "unit": unit,
        "precision": precision,
        "answer": answer,
        "question_type": kind,
        "answer_type": form,
        "query": "Hint: ...",
        "metadata": {"task": "figure question answering", "context": "table"},
        "decoded_image": mini_hub.drawn(number),
    }


def mathvision(number: int) -> Row:
    lettered = number % 2
    return {
        "id": str(number + 1),
        "question": f"What is x in <image1> of number {number}?",
        "level": 1 + number % 5,
        "options": ["1", "2", "3", "4", "5"] if lettered else [],
        "subject": "algebra",
        "answer": "ABCDE"[number // 2 % 5] if lettered else (r"\frac{1}{2}", "24")[number // 2 % 2],
        "decoded_image": mini_hub.drawn(number),
    }


def screen(scale: float) -> Callable[[int], Row]:
    def row(number: int) -> Row:
        left, top = 0.1 * number % 0.8, 0.25
        return {
            "file_name": f"{number}.png",
            "instruction": f"open item {number}",
            "ui_type": "icon",
            "data_type": "text",
            "data_source": "windows",
            "application": "blender",
            "image": mini_hub.drawn(number),
            "bbox": [left * scale, top * scale, (left + 0.15) * scale, (top + 0.1) * scale],
        }

    return row


def refcoco(number: int) -> Row:
    return {
        "question_id": str(number),
        "question": "Please describe it.",
        "answer": [f"left {number}", f"thing {number}"],
        "bbox": [0.5 + number % 3, 1.0, 3.25, 2.5],
        "file_name": f"{number}.jpg",
        "image": mini_hub.drawn(number),
    }


PICTURED = {"image": PICTURE}
HR_BENCH = {**columns("question A B C D answer category cycle_category image"), "index": INT}
SCREEN = {**columns("file_name instruction data_type data_source"), "bbox": BOX, **PICTURED}
TEST = "data/test-00000-of-00001.parquet"
EXPRESSIONS = {
    **columns("question_id question file_name"),
    "answer": TEXTS,
    "bbox": pa.list_(pa.float32()),
    **PICTURED,
}
EXPRESSION_SPLITS = {
    "refcoco": "val",
    "refcoco-testa": "testA",
    "refcoco-testb": "testB",
    "refcoco-plus-val": "val",
    "refcoco-plus-testa": "testA",
    "refcoco-plus-testb": "testB",
    "refcocog-val": "val",
    "refcocog-test": "test",
}
"""The entries with RefCOCO's columns, each with its split."""
TABLES: dict[str, Table] = {
    "chartqa": Table(
        TEST,
        {**columns("type question answer"), **PICTURED},
        lambda n: {
            "type": ("human_test", "augmented_test")[n % 2],
            "question": f"How much is bar {n}?",
            "answer": ("14", "2010", "0.62", "62%", "Yes", "[1, 2]", "0", "Los Angeles")[n],
            "image": mini_hub.drawn(n),
        },
    ),
    "mme": Table(TEST, {**columns("question_id question answer category"), **PICTURED}, mme, 56),
    "hallusionbench": Table(
        "data/image-00000-of-00001.parquet",
        {
            **columns(
                "category subcategory visual_input set_id figure_id sample_note question_id question gt_answer"
            ),
            **columns("gt_answer_details filename"),
            **PICTURED,
        },
        hallusionbench,
        12,
    ),
    "mmvp": Table(
        "data/train-00000-of-00001.parquet",
        {
            "Index": INT,
            **dict.fromkeys(("Question", "Options", "Correct Answer"), TEXT),
            **PICTURED,
        },
        mmvp,
    ),
    "wemath": Table(
        "data/testmini-00000-of-00001.parquet",
        {
            **columns("ID key question option answer"),
            "knowledge concept": TEXT,
            "image_path": PICTURE,
        },
        wemath,
        28,
    ),
    "dynamath": Table(
        TEST,
        {**columns("question_id id question ground_truth"), "decoded_image": PICTURE},
        lambda n: {
            "question_id": str(n // 4),
            "id": str(n % 4),
            "question": f"How long is side {n}?",
            "ground_truth": f"{n}.5",
            "decoded_image": mini_hub.drawn(n),
        },
    ),
    "naturalbench": Table(
        TEST,
        {"Index": INT, "Image": PICTURE, **columns("Question Answer Question_Type")},
        naturalbench,
        16,
    ),
    "hr-bench-4k": Table("hr_bench_4k.parquet", HR_BENCH, hr_bench, 12),
    "hr-bench-8k": Table("hr_bench_8k.parquet", HR_BENCH, hr_bench, 12),
    "ocrbench": Table(
        TEST,
        {**columns("dataset question question_type"), "answer": TEXTS, **PICTURED},
        ocrbench,
        len(READING),
    ),
    **{
        name: Table(
            TEST,
            {**OCR_V2_COLUMNS, **PICTURED},
            ocrbench_v2,
            len(OCR_V2),
        )
        for name in OCR_V2_KEPT
    },
    **{
        name: Table("OmniDocBench.tsv", {"index": INT, **columns("image answer")}, omnidocbench, 7)
        for name in OMNIDOC_KEPT
    },
    "countbenchqa": Table(
        TEST,
        {**columns("text question"), "number": INT, **PICTURED},
        lambda n: {
            "text": f"a photo of {n}",
            "question": f"How many are in {n}?",
            "number": 2 + n,
            "image": mini_hub.drawn(n),
        },
    ),
    "mathvista": Table(
        "data/testmini-00000-of-00001.parquet",
        {
            **columns("pid question unit answer question_type answer_type query"),
            "choices": TEXTS,
            "precision": pa.float64(),
            "metadata": pa.struct([("task", TEXT), ("context", TEXT)]),
            "decoded_image": PICTURE,
        },
        mathvista,
    ),
    "mathvision": Table(
        TEST,
        {
            **columns("id question answer subject"),
            "options": TEXTS,
            "level": INT,
            "decoded_image": PICTURE,
        },
        mathvision,
    ),
    "screenspot": Table(TEST, SCREEN, screen(1)),
    "screenspot-v2": Table(TEST, SCREEN, screen(1)),
    "screenspot-pro": Table(TEST, {**SCREEN, **columns("ui_type application")}, screen(4)),
    **{
        name: Table(f"data/{split}-00000-of-00001.parquet", EXPRESSIONS, refcoco)
        for name, split in EXPRESSION_SPLITS.items()
    },
}
"""By the short name of the entry."""


def write(name: str, to: Path) -> Path:
    """The dataset of an entry in a folder."""
    table = TABLES[name]
    rows = [
        {column: cell for column, cell in table.row(number).items() if column in table.types}
        for number in range(table.rows)
    ]
    if table.file.endswith(".tsv"):
        to.mkdir(parents=True, exist_ok=True)
        with (to / table.file).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table.types), dialect="excel-tab")
            writer.writeheader()
            writer.writerows(rows)
        return to
    mini_hub.write(to / table.file, rows, table.types)
    return to
