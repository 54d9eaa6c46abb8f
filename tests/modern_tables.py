"""Miniature tables of the datasets that the suite `modern` reads: their columns and types, six rows with edge cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import mini_hub
import mmbench_rows
import modern_card_tables
import small
from modern_rows import (
    ANIMALS,
    INT,
    PICTURE,
    PICTURES,
    ROWS,
    TEXT,
    TEXTS,
    VOTES,
    Row,
    Table,
    ask,
    base64_image,
    columns,
    letter,
    lettered,
    shown,
)


def numbered_images(name: str, count: int, number: int) -> Row:
    """As many images as the row's number says, at least one; the other columns are empty."""
    return {
        f"{name}_{n}": shown(10 * number + n) if n <= 1 + number % 3 else None
        for n in range(1, count + 1)
    }


def votes(number: int) -> list[str]:
    return [ANIMALS[number]] * 7 + [f"{ANIMALS[number]}s"] * 2 + [f"a {ANIMALS[number]}"]


def captions(number: int) -> list[str]:
    return [f"a {ANIMALS[number]} stands in the field {n}" for n in range(5)]


def mmmu(number: int) -> Row:
    """The last row is open and has two answers; its options are an empty list."""
    is_open = number == ROWS - 1
    marks = " ".join(f"<image {n}>" for n in range(1, 2 + number % 3))
    return {
        "id": f"validation_Art_{number}",
        "question": f"{ask(number)} {marks}",
        "answer": letter(number),
        "options": str(list(ANIMALS[:4])),
        "question_type": "multiple-choice",
        "subfield": "Drawing",
        "topic_difficulty": "Easy",
        "subject": "Art",
        **numbered_images("image", 7, number),
    } | (
        {"options": "[]", "answer": "['12', 'twelve']", "question_type": "open"} if is_open else {}
    )


def mmmu_pro(number: int) -> Row:
    labels = [f"No. {n}" for n in range(10)]
    return {**mmmu(number), "options": str(labels), "answer": letter(number, 10)}


def realworldqa(number: int) -> Row:
    """The last row has no options."""
    if number == ROWS - 1:
        text, answer = (
            "How many are there?\nPlease answer directly with a single word or number.",
            "3",
        )
    else:
        closing = (
            "Please answer directly with only the letter of the correct option and nothing else."
        )
        text = f"{ask(number)} By J. A. Doe?\n\n{lettered('{}. ')}\n{closing}"
        answer = letter(number)
    return {"question": text, "answer": answer, "image": shown(number)}


def seed(number: int) -> Row:
    """Two rows have three options; the fourth is a clip, which is no question here."""
    return {
        "question_id": str(number),
        "data_type": "video" if number == 3 else "image",
        "question": ask(number),
        "choice_a": "cat",
        "choice_b": "dog",
        "choice_c": "cow",
        "choice_d": None if number < 2 else "hen",
        "answer": letter(number, 3),
        "image": [shown(number)],
    }


def seed_plus(number: int) -> Row:
    return {
        "question_id": number,
        "question": ask(number),
        "choice_A": "cat",
        "choice_B": "dog",
        "choice_C": "cow",
        "choice_D": "" if number < 2 else "hen",
        "answer": letter(number, 3),
        "image": shown(number),
        "question_image_type": ("Chart", "Map", "Web")[number % 3],
    }


def prompted(number: int) -> Row:
    """BLINK's and CV-Bench's rows: a prompt with its options behind it."""
    prompt = f"{ask(number)}\nSelect from the following choices.\n{lettered('({}) ')}"
    return {
        "idx": f"val_{number}",
        "prompt": prompt,
        "answer": f"({letter(number)})",
        "image": shown(number),
        "task": "Count",
        "source": "COCO",
        **numbered_images("image", 4, number),
    }


def mmt(number: int) -> Row:
    """Options up to the third, fourth or fifth of nine columns."""
    options = 3 + number % 3
    cells = {name: ANIMALS[n] if n < options else None for n, name in enumerate("ABCDEF")}
    return {
        "index": number,
        "question": ask(number),
        "answer": letter(number, 3),
        "l2-category": "counting",
        "image": shown(number),
        **cells,
        "G": "",
        "H": None,
        "I": None,
    }


def muirbench(number: int) -> Row:
    """The options of every third row are images, as marks that are all alike."""
    count = 1 + number % 3
    pictured = count == 3
    return {
        "idx": str(number),
        "question": "<image>" * (1 if pictured else count) + " " + ask(number),
        "options": ["<image>", "<image>", "None"] if pictured else ANIMALS[:4],
        "answer": letter(number, 3),
        "task": "Counting",
        "image_relation": "Partial",
        "image_type": "Drone",
        "image_list": [shown(10 * number + n) for n in range(count)],
    }


def erqa(number: int) -> Row:
    choices = lettered("{}. ", between=" ")
    return {
        "question_id": f"ERQA_{number}",
        "answer": letter(number),
        "question_type": "Trajectory",
        "question": f"{ask(number)} Choices: {choices}. Please answer directly with only the letter of the option.",
        "images": [shown(10 * number + n) for n in range(1 + number % 3)],
    }


def iconqa(number: int) -> Row:
    """Two rows of each kind."""
    kind = ("choose_txt", "fill_in_blank", "choose_img")[number // 2]
    cells = {
        "choose_txt": {"choices": "cat, dog,cow", "answer": ("dog", "cow")[number % 2]},
        "fill_in_blank": {"choices": None, "answer": str(number)},
        "choose_img": {"choices": "choice_0.png,choice_1.png", "answer": "choice_1.png"},
    }[kind]
    return {
        "question_id": str(number),
        "question": ask(number),
        "ques_type": kind,
        "grade": "grade1",
        **cells,
        "query_image": shown(number),
        "choice_image_0": None,
        "choice_image_1": None,
    }


def mathverse(number: int) -> Row:
    """The last but one is of the version whose question is in the image, the last has no options and no image."""
    row: Row = {
        "sample_index": str(number),
        "problem_index": str(number // 2),
        "problem_version": "Text Dominant",
        "question_type": "multi-choice",
        "answer": letter(number),
        "image": shown(number),
        "question": f"{ask(number)} At A: 5?\nChoices:\n{lettered('{}:')}",
    }
    if number == ROWS - 2:
        row |= {"question": "", "problem_version": "Vision Only"}
    if number == ROWS - 1:
        row |= {
            "question": "How long?",
            "answer": "14",
            "question_type": "free-form",
            "image": None,
        }
    return row


def wemath(number: int) -> Row:
    options = lettered("{}. ", 3, "; ") + "; D. at point A. B; E. No correct answer"
    return {
        "ID": f"{number // 3}",
        "key": ("multi", "1steps_1", "1steps_2")[number % 3],
        "knowledge concept": "Angles",
        "question": ask(number),
        "option": options,
        "answer": letter(number, 5),
        "image_path": shown(number),
    }


def docvqa(number: int) -> Row:
    return {
        "questionId": str(number),
        "question": ask(number),
        "answers": [ANIMALS[number], f"a {ANIMALS[number]} "],
        "ucsf_document_id": "nkbl0226",
        "ucsf_document_page_no": str(number),
        "image": shown(number),
    }


def paged(name: str, count: int) -> Callable[[int], Row]:
    return lambda number: {
        "questionId": str(number),
        "question": ask(number),
        "doc_id": "d1",
        "deck_name": "deck",
        "answer": str(number),
        "answers": f"['{ANIMALS[number]}', \"a {ANIMALS[number]}\"]",
        **numbered_images(name, count, number),
    }


def pages(name: str) -> dict[str, pa.DataType]:
    return columns(" ".join(f"{name}_{n}" for n in range(1, 21)), PICTURE)


def chartqapro(number: int) -> Row:
    """The first row is a conversation, the second has a paragraph."""
    talk = number == 0
    return {
        "Question": ["How many cats?", "And dogs?"] if talk else [ask(number)],
        "Answer": ["3", "4"] if talk else [ANIMALS[number]],
        "Year": ["NO", "NO"] if talk else ["YES" if number == 2 else "NO"],
        "Question Type": "Conversational" if talk else "Factoid",
        "Paragraph": "Of pets." if number == 1 else "",
        "image": small.picture(number + 1),
    }


def charxiv(number: int) -> Row:
    """The last row has subplots in no grid, the others but the first are in one."""
    grid = None if number == ROWS - 1 else number
    return {
        "figure_path": f"images/{number}.jpg",
        "image": shown(number),
        "reasoning_q": ask(number),
        "reasoning_a": ANIMALS[number],
        "reasoning_q_source": 1 + number % 4,
        "subplot_row": grid,
        "subplot_col": grid,
        "subplot_loc": "the left one" if grid is None else None,
        **{f"descriptive_q{n}": 1 + (4 * number + n) % 19 for n in range(1, 5)},
        **{f"descriptive_a{n}": f"{ANIMALS[number]} {n}" for n in range(1, 5)},
    }


STEPS = pa.struct([("logical_conclusion", TEXTS), ("image_caption", TEXTS)])
MME_COT_COLUMNS = {
    **columns("index question answer question_type category"),
    **columns("A B C D E F G H I J K L"),
    "key_annotation_steps": pa.struct([(f"solution{number}", STEPS) for number in range(1, 5)]),
    "reference_caption": TEXTS,
    "image": TEXTS,
}


def mme_cot(number: int) -> Row:
    """Options in columns of their own for every second question; the last two ask what is visible."""
    has_options = number % 2 == 0
    is_reasoning = number < 4
    first = {
        "logical_conclusion": [f"It is a {ANIMALS[number]}.", ""],
        "image_caption": ["It has fur."],
    }
    second = {"logical_conclusion": ["It barks."], "image_caption": [""]}
    return {
        "index": str(number),
        "question": f"<image>{ask(number)}",
        **dict.fromkeys("EFGHIJKL"),
        **{letter: ANIMALS[place] if has_options else None for place, letter in enumerate("ABCD")},
        "answer": "ABCD"[number % 4] if has_options else ANIMALS[number],
        "question_type": "Reasoning" if is_reasoning else "Perception",
        "category": "Logic",
        "key_annotation_steps": {
            "solution1": first if is_reasoning else None,
            "solution2": second if number == 1 else None,
            "solution3": None,
            "solution4": None,
        },
        "reference_caption": ["Image 1: an animal."] if is_reasoning else [""],
        "image": [base64_image(10 * number)],
    }


PICTURED = {"image": PICTURE}
AI2D = Table(
    "data/test-00000-of-00001.parquet",
    {**columns("question answer"), "options": TEXTS, **PICTURED},
    lambda n: {"question": ask(n), "answer": str(n % 4), "options": ANIMALS[:4], "image": shown(n)},
)
ICONQA = Table(
    "data/val-00000-of-00001.parquet",
    {
        **columns("question_id question choices answer ques_type grade"),
        **columns("query_image choice_image_0 choice_image_1", PICTURE),
    },
    iconqa,
)
CHARXIV = Table(
    "val.parquet",
    {
        **columns("figure_path reasoning_q reasoning_a subplot_loc"),
        **columns(" ".join(f"descriptive_a{n}" for n in range(1, 5))),
        **columns(" ".join(f"descriptive_q{n}" for n in range(1, 5)), INT),
        **columns("reasoning_q_source subplot_row subplot_col", INT),
        **PICTURED,
    },
    charxiv,
)
MMMU_TYPES = {
    **columns("id question options answer question_type subfield topic_difficulty subject"),
    **columns(" ".join(f"image_{n}" for n in range(1, 8)), PICTURE),
}
PROMPTED = {**columns("idx prompt answer task source"), **PICTURED}
TABLES: dict[str, list[Table]] = {
    "mmstar": [
        Table(
            "mmstar.parquet",
            {"index": INT, **columns("question answer category l2_category"), "image": pa.binary()},
            lambda n: {
                "index": n,
                "question": f"{ask(n)}\nOptions: {lettered('{}: ', between=', ')}",
                "answer": letter(n),
                "category": "math",
                "l2_category": "geometry",
                "image": small.picture(n + 1),
            },
        )
    ],
    "mmmu": [Table("data/validation-00000-of-00001.parquet", MMMU_TYPES, mmmu)],
    "mmmu-pro": [Table("standard (10 options)/test-00000-of-00001.parquet", MMMU_TYPES, mmmu_pro)],
    "mmmu-pro-vision": [
        Table(
            "vision/test-00000-of-00001.parquet",
            {**columns("id options answer subject"), **PICTURED},
            lambda n: {
                "id": f"test_{n}",
                "options": str(list(ANIMALS[:4])),
                "answer": letter(n),
                "subject": "Art",
                "image": shown(n),
            },
        )
    ],
    "ai2d": [AI2D],
    "ai2d-no-mask": [AI2D],
    "docvqa": [
        Table(
            "DocVQA/validation-00000-of-00001.parquet",
            {
                **columns("questionId question ucsf_document_id ucsf_document_page_no"),
                "answers": TEXTS,
                **PICTURED,
            },
            docvqa,
        )
    ],
    "infovqa": [
        Table(
            "InfographicVQA/validation-00000-of-00001.parquet",
            {**columns("questionId question"), "answers": TEXTS, **PICTURED},
            docvqa,
        )
    ],
    "textvqa": [
        Table(
            "data/validation-00000-of-00001.parquet",
            {
                "question_id": pa.int32(),
                **columns("question image_id"),
                "answers": TEXTS,
                **PICTURED,
            },
            lambda n: {
                "question_id": n,
                "question": ask(n) + " By J. Doe?" * (n % 2),
                "image_id": f"i{n}",
                "answers": [*votes(n)[:-1], ""],
                "image": shown(n),
            },
        )
    ],
    "realworldqa": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question answer"), **PICTURED},
            realworldqa,
        )
    ],
    "vstar": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id text label category"), **PICTURED},
            lambda n: {
                "question_id": str(n),
                "label": letter(n),
                "category": "direct_attributes",
                "image": shown(n),
                "text": f"{ask(n)}\n{lettered('({}) ')}\n"
                "Answer with the option's letter from the given choices directly.",
            },
        )
    ],
    "seed-bench": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                **columns(
                    "question_id data_type question choice_a choice_b choice_c choice_d answer"
                ),
                "image": PICTURES,
            },
            seed,
        )
    ],
    "seed-bench-2-plus": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                "question_id": INT,
                **columns(
                    "question choice_A choice_B choice_C choice_D answer question_image_type"
                ),
                **PICTURED,
            },
            seed_plus,
        )
    ],
    "blink": [
        Table(
            f"{task}/val-00000-of-00001.parquet",
            {**columns("idx prompt answer"), **columns("image_1 image_2 image_3 image_4", PICTURE)},
            lambda n, task=task, first=first: {**prompted(first + n), "idx": f"val_{task}_{n}"},
            3,
        )
        for task, first in (("Art_Style", 0), ("Counting", 3))
    ],
    "mmt-bench": [
        Table(
            "data/val-00000-of-00001.parquet",
            {
                "index": pa.int32(),
                **columns("question answer A B C D E F G H I l2-category"),
                **PICTURED,
            },
            mmt,
        )
    ],
    "muirbench": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                **columns("idx question answer task image_relation image_type"),
                "options": TEXTS,
                "image_list": PICTURES,
            },
            muirbench,
        )
    ],
    "mirb": [
        Table(
            "data/test-00000-of-00001.parquet",
            {"question_id": INT, **columns("subset questions answers"), "image_list": PICTURES},
            lambda n: {
                "question_id": n // 2,
                "subset": ("count", "food")[n % 2],
                "questions": ask(n),
                "answers": ("3", "B")[n % 2],
                "image_list": [shown(10 * n + k) for k in range(1 + n % 3)],
            },
        )
    ],
    "erqa": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id question answer question_type"), "images": PICTURES},
            erqa,
        )
    ],
    "embspatial": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                **columns("question_id question relation data_source image"),
                "answer_options": TEXTS,
                "answer": INT,
            },
            lambda n: {
                "question_id": f"mp3d_{n}",
                "question": ask(n),
                "relation": "close",
                "data_source": "mp3d",
                "image": base64_image(n),
                "answer_options": ANIMALS[:4],
                "answer": n % 4,
            },
        )
    ],
    "cv-bench-2d": [
        Table("test_2d.parquet", {**PROMPTED, "idx": INT}, lambda n: {**prompted(n), "idx": n})
    ],
    "cv-bench-3d": [
        Table("test_3d.parquet", {**PROMPTED, "idx": INT}, lambda n: {**prompted(n), "idx": n})
    ],
    "scienceqa": [
        Table(
            "ScienceQA-IMG/test-00000-of-00001.parquet",
            {
                **columns("question hint subject topic grade"),
                "choices": TEXTS,
                "answer": pa.int8(),
                **PICTURED,
            },
            lambda n: {
                "question": ask(n),
                "hint": "" if n % 2 else "Look.",
                "subject": "natural science",
                "topic": "biology",
                "grade": "grade2",
                "choices": ANIMALS[: 2 + n % 3],
                "answer": n % 2,
                "image": shown(n),
            },
        )
    ],
    "a-okvqa": [
        Table(
            "data/validation-00000-of-00001.parquet",
            {
                **columns("question_id question"),
                "choices": TEXTS,
                "correct_choice_idx": pa.int8(),
                **PICTURED,
            },
            lambda n: {
                "question_id": f"q{n}",
                "question": ask(n),
                "choices": ANIMALS[:4],
                "correct_choice_idx": n % 4,
                "image": shown(n),
            },
        )
    ],
    "gqa": [
        Table(
            "testdev_balanced_instructions/testdev-00000-of-00001.parquet",
            {**columns("id question imageId answer"), "types": mini_hub.TYPES},
            lambda n: {
                "id": str(n),
                "question": ask(n),
                "imageId": f"n{n % 3}",
                "answer": ANIMALS[n],
                "types": {"structural": "query", "semantic": "attr", "detailed": "x"},
            },
        ),
        Table(
            "testdev_balanced_images/testdev-00000-of-00001.parquet",
            {"id": TEXT, **PICTURED},
            lambda n: {"id": f"n{n}", "image": shown(n)},
            3,
        ),
    ],
    "vqav2": [
        Table(
            "data/validation-00000-of-00001.parquet",
            {
                **columns("question_id image_id", INT),
                **columns("question question_type answer_type"),
                "answers": VOTES,
                **PICTURED,
            },
            lambda n: {
                "question_id": n,
                "image_id": n // 2,
                "question": ask(n),
                "question_type": "which",
                "answer_type": "other",
                "image": shown(n // 2),
                "answers": [
                    {"answer": vote, "answer_confidence": "yes", "answer_id": 1}
                    for vote in votes(n)
                ],
            },
        )
    ],
    "vizwiz": [
        Table(
            "data/val-00000-of-00001.parquet",
            {**columns("question_id question category"), "answers": TEXTS, **PICTURED},
            lambda n: {
                "question_id": f"VizWiz_val_{n:08d}.jpg",
                "question": ask(n),
                "category": "other",
                "answers": votes(n),
                "image": shown(n),
            },
        )
    ],
    "ok-vqa": [
        Table(
            "data/val2014-00000-of-00001.parquet",
            {
                **columns("question_id question question_type answer_type"),
                "answers": TEXTS,
                **PICTURED,
            },
            lambda n: {
                "question_id": str(n),
                "question": ask(n),
                "question_type": "one",
                "answer_type": "other",
                "answers": votes(n),
                "image": shown(n),
            },
        )
    ],
    "iconqa-choose-txt": [ICONQA],
    "iconqa-fill-in-blank": [ICONQA],
    "websrc": [
        Table(
            "data/dev-00000-of-00001.parquet",
            columns("domain page_id question answer image"),
            lambda n: {
                "domain": "auto",
                "page_id": f"p{n // 2}",
                "question": ask(n),
                "answer": f"the {ANIMALS[n]} here",
                "image": base64_image(n // 2),
            },
        )
    ],
    "nocaps": [
        Table(
            "data/validation-00000-of-00001.parquet",
            {"image_id": INT, "annotations_captions": TEXTS, **PICTURED},
            lambda n: {"image_id": n, "annotations_captions": captions(n), "image": shown(n)},
        )
    ],
    "flickr30k": [
        Table(
            "data/test-00000-of-00001.parquet",
            {"img_id": TEXT, "caption": TEXTS, **PICTURED},
            lambda n: {"img_id": str(n), "caption": captions(n), "image": shown(n)},
        )
    ],
    "coco-caption": [
        Table(
            "data/val-00000-of-00001.parquet",
            {"question_id": TEXT, "answer": TEXTS, **PICTURED},
            lambda n: {"question_id": f"{n:012d}.jpg", "answer": captions(n), "image": shown(n)},
        )
    ],
    "textcaps": [
        Table(
            "data/val-00000-of-00001.parquet",
            {"image_id": TEXT, "caption_str": TEXTS, **PICTURED},
            lambda n: {"image_id": f"i{n}", "caption_str": captions(n), "image": shown(n)},
        )
    ],
    "docvqa-test": [
        Table(
            "DocVQA/test-00000-of-00001.parquet",
            {**columns("questionId question"), "answers": TEXTS, **PICTURED},
            lambda n: {**docvqa(n), "answers": []},
        )
    ],
    "infovqa-test": [
        Table(
            "InfographicVQA/test-00000-of-00001.parquet",
            {**columns("questionId question"), "answers": TEXTS, **PICTURED},
            lambda n: {**docvqa(n), "answers": []},
        )
    ],
    "textvqa-test": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                "question_id": pa.int32(),
                **columns("question image_id"),
                "answers": TEXTS,
                **PICTURED,
            },
            lambda n: {
                "question_id": 39602 + n,
                "question": ask(n),
                "image_id": f"i{n}",
                "answers": [""] * 10,
                "image": shown(n),
            },
        )
    ],
    "vqav2-test": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                **columns("question_id image_id", INT),
                **columns("question question_type answer_type"),
                "answers": VOTES,
                **PICTURED,
            },
            lambda n: {
                "question_id": 262144000 + n,
                "image_id": n // 2,
                "question": ask(n),
                "image": shown(n // 2),
            },
        )
    ],
    "vizwiz-test": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id question category"), "answers": TEXTS, **PICTURED},
            lambda n: {
                "question_id": f"VizWiz_test_{n:08d}.jpg",
                "question": ask(n),
                "image": shown(n),
            },
        )
    ],
    "mmmu-test": [
        Table(
            "data/test-00000-of-00001.parquet",
            MMMU_TYPES,
            lambda n: {**mmmu(n), "id": f"test_Art_{n}", "answer": "?"},
        )
    ],
    "st-vqa": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id question"), **PICTURED},
            lambda n: {"question_id": str(n), "question": ask(n), "image": shown(n)},
        )
    ],
    "mp-docvqa": [
        Table(
            "data/val-00000-of-00001.parquet",
            {**columns("questionId question doc_id answers"), **pages("image")},
            paged("image", 20),
        )
    ],
    "slidevqa": [
        Table(
            "data/val-00000-of-00001.parquet",
            {**columns("question answer deck_name"), **pages("page")},
            paged("page", 20),
        )
    ],
    "logicvista": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question answer"), **PICTURED},
            # The last row has neither question nor answer.
            lambda n: {
                "question": ask(n) if n < ROWS - 1 else None,
                "answer": ("A, C", "B", "C", "D", "E", None)[n],
                "image": shown(n),
            },
        )
    ],
    "wemath": [
        Table(
            "data/testmini-00000-of-00001.parquet",
            {
                **columns("ID key question option answer"),
                "knowledge concept": TEXT,
                "image_path": PICTURE,
            },
            wemath,
        )
    ],
    "mathverse": [
        Table(
            "testmini.parquet",
            {
                **columns(
                    "sample_index problem_index problem_version question question_type answer"
                ),
                **PICTURED,
            },
            mathverse,
        )
    ],
    "dynamath": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id id question ground_truth"), "decoded_image": PICTURE},
            lambda n: {
                "question_id": str(n // 3),
                "id": str(n % 3),
                "question": ask(n),
                "ground_truth": f"{n}.5",
                "decoded_image": shown(n),
            },
        )
    ],
    "zerobench": [
        Table(
            "data/zerobench-00000-of-00001.parquet",
            {
                **columns("question_id question_text question_answer"),
                "question_images_decoded": PICTURES,
            },
            lambda n: {
                "question_id": str(n),
                "question_text": ask(n),
                "question_answer": str(n),
                "question_images_decoded": [shown(10 * n + k) for k in range(1 + n % 3)],
            },
        )
    ],
    "simplevqa": [
        Table(
            "data/test-00000-of-00001.parquet",
            {"data_id": INT, **columns("image language question answer original_category")},
            lambda n: {
                "data_id": n,
                "image": base64_image(n),
                "language": ("EN", "CN")[n % 2],
                "question": ask(n),
                "answer": ANIMALS[n],
                "original_category": "nature",
            },
        )
    ],
    "mme-cot": [
        Table(
            "data/test-00000-of-00001.parquet",
            MME_COT_COLUMNS,
            mme_cot,
        )
    ],
    "charxiv-reasoning": [CHARXIV],
    "charxiv-descriptive": [CHARXIV],
    "chartqapro": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                "Question": TEXTS,
                "Answer": TEXTS,
                "Year": TEXTS,
                "Question Type": TEXT,
                "Paragraph": TEXT,
                "image": pa.binary(),
            },
            chartqapro,
        )
    ],
    "worldvqa": [
        Table(
            "WorldVQA.tsv",
            columns("index image question answer category language"),
            lambda n: {
                "index": str(n),
                "image": base64_image(n),
                "question": ask(n),
                "answer": ANIMALS[n],
                "category": "nature",
                "language": "en",
            },
        )
    ],
    "mm-vet": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id question answer capability"), **PICTURED},
            lambda n: {
                "question_id": f"v1_{n}",
                "question": ask(n),
                "answer": f"{ANIMALS[n]}<AND>a pet",
                "capability": "rec",
                "image": shown(n),
            },
        )
    ],
    "llava-bench": [
        Table(
            "data/train-00000-of-00001.parquet",
            {"question_id": INT, **columns("question gpt_answer category"), **PICTURED},
            lambda n: {
                "question_id": n,
                "question": ask(n),
                "gpt_answer": f"It is a {ANIMALS[n]} at home.",
                "category": "conv",
                "image": shown(n),
            },
        )
    ],
    "mia-bench": [
        Table(
            "data/test-00000-of-00001.parquet",
            {
                "instruction": TEXT,
                "num_of_component": pa.int32(),
                "components": TEXTS,
                "component_weight": pa.list_(pa.int64()),
                **PICTURED,
            },
            lambda n: {
                "instruction": ask(n),
                "num_of_component": n % 3 + 1,
                "components": [f"Names a {ANIMALS[n]}.", *[f"Counts to {n}."] * (n % 3)],
                "component_weight": [10 - 3 * (n % 3), *[3] * (n % 3)],
                "image": shown(n),
            },
        )
    ],
    "vibe-eval": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("example_id prompt reference category"), **PICTURED},
            lambda n: {
                "example_id": f"hard-{n}",
                "prompt": ask(n),
                "reference": f"It is a {ANIMALS[n]} at home.",
                "category": "difficulty-hard",
                "image": shown(n),
            },
        )
    ],
    "pope": [
        Table(
            "data/test-00000-of-00001.parquet",
            {**columns("question_id question answer category image_source"), **PICTURED},
            lambda n: {
                "question_id": str(n // 3),
                "question": f"Is there a {ANIMALS[n]} in the image?",
                "answer": ("yes", "no")[n % 2],
                "category": ("random", "popular", "adversarial")[n % 3],
                "image_source": f"COCO_val2014_{n // 3}",
                "image": shown(n // 3),
            },
        )
    ],
}
"""By the short name of the entry: the files that it reads."""
TABLES |= modern_card_tables.TABLES


def write(name: str, to: Path) -> Path:
    """The dataset of an entry in a folder."""
    to.mkdir(parents=True, exist_ok=True)
    for table in TABLES[name]:
        rows = [
            {column: cell for column, cell in table.row(number).items() if column in table.types}
            for number in range(table.rows)
        ]
        if table.file.endswith(".tsv"):
            (to / table.file).parent.mkdir(parents=True, exist_ok=True)
            mmbench_rows.write(rows, to / table.file)
        else:
            mini_hub.write(to / table.file, rows, table.types)
    return to
