"""The published number of an entry: what it declares, what `--as-published` takes of it, and how lists mark it."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
from pathlib import Path

import pytest

import modern_metric_tables
import modern_tables
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, PromptSet, entries
from snellen.catalogue.published_number import OWN_NUMBER, OWN_WORDING
from snellen.interchange.harness_rules import RULES
from snellen.plugin_api import find_registered, read_exchanges
from snellen.protocols.choice import Circular, Vanilla
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import declared_templates
from snellen.records import Request, Sample
from snellen.registry import names
from snellen.suites.modern.readers import charxiv_instruction

MODERN = [spec for spec in entries().values() if spec.suite == "modern"]
PUBLISHED = sn.ScoringSpec(as_published=True)
SUITE = """
name = "zoo"
title = "Animals"

[as_published]
by_entry = true
"""
ENTRY = """
title = "Animals by their voices"
formulation = "text"
metrics = ["exact_match"]

[source]
reader = "table"
embedded = true
folder = "."
params = { file = "names.jsonl", no_images = true }

[prompts.official]
form = "plain"
layout = { open = "{question}\\nOne word." }
max_new_tokens = 4

[published]
prompt = "official"
metrics = ["contains_answer"]
"""
REPRODUCTION = """
[[published.reproductions]]
model = "A"
repository = "owner/name"
paths = ["replies.json"]
printed = 50.0
rescored = 50.1
"""
DISAGREEING = REPRODUCTION.replace("50.1", "50.2")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNELLEN_SUITES", "")


def zoo(folder: Path, entry: str = ENTRY) -> None:
    home = folder / "zoo" / "entries"
    home.mkdir(parents=True)
    (folder / "zoo" / "suite.toml").write_text(SUITE)
    rows = '{"id": "1", "question": "Which says moo?", "answer": "cow"}\n'
    (home / "names.jsonl").write_text(rows)
    (home / "voices.toml").write_text(entry)
    sn.add_suites(folder / "zoo")


def chatty(question: str, images: object) -> str:
    return "It is a cow."


def test_as_published_asks_and_scores_as_the_entry_declares(tmp_path: Path) -> None:
    zoo(tmp_path)

    standard = sn.evaluate(chatty, "zoo/voices", name="standard")
    published = sn.evaluate(chatty, "zoo/voices", name="published", scoring=PUBLISHED)

    [plain] = read_exchanges(standard.runs[0].folder)
    [official] = read_exchanges(published.runs[0].folder)
    assert plain.request.messages[0].text != "Which says moo?\nOne word."
    assert official.request.messages[0].text == "Which says moo?\nOne word."
    assert official.request.decoding.max_new_tokens == 4
    # A sentence is not exactly the word, and has it.
    assert standard.value("exact_match") == 0.0
    assert published.value("contains_answer") == 1.0


def test_chance_has_the_unit_of_the_printed_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = modern_tables.write("mmstar", tmp_path / "hub")
    spec = entries()["modern/mmstar"].from_hub()
    mmstar = build_benchmark(spec, source=source, to=tmp_path / "built")
    arguments = ["run", "snellen:oracle", str(mmstar.folder)]
    _, standard, _ = small.command(capsys, *arguments, "--name", "standard")
    _, published, _ = small.command(capsys, *arguments, "--name", "published", "--as-published")
    [row] = [line for line in standard.splitlines() if line.startswith("modern/mmstar")]
    assert "25.0%" in row and "100.0%" in row
    row = next(line for line in published.splitlines() if line.startswith("modern/mmstar"))
    assert "25.00 " in row and "100.00 " in row and "%" not in row  # per cent, as they are printed


def test_a_run_as_published_names_what_has_no_verified_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without_prompt = ENTRY.replace('prompt = "official"\n', "")
    zoo(tmp_path, without_prompt)
    _, _, err = small.command(
        capsys, "run", "snellen:oracle", "zoo/voices", "--templates", "as-published"
    )
    assert f"{OWN_WORDING}, because no prompt with a source is declared: zoo/voices" in err


OF_OTHERS = ENTRY.replace('prompt = "official"\n', 'prompt = "official"\nprompt_by = "lmms-eval"\n')
WITHOUT_PROMPT = ENTRY.replace('prompt = "official"\n', "")


def test_a_run_as_published_names_whose_words_it_asks_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo(tmp_path, OF_OTHERS)
    _, _, err = small.command(capsys, "run", "snellen:oracle", "zoo/voices", "--as-published")
    assert "in the wording of others, because no prompt of their makers is known: " in err
    assert "lmms-eval (zoo/voices)" in err


@pytest.mark.parametrize(
    ("entry", "wording"),
    [(ENTRY, "makers"), (OF_OTHERS, "lmms-eval"), (WITHOUT_PROMPT, OWN_WORDING)],
)
def test_lists_and_reports_mark_a_wording_that_is_snellens_own(
    entry: str, wording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo(tmp_path, entry)
    _, out, _ = small.command(capsys, "list", "zoo/voices", "--json")
    assert f'"wording":"{wording}"' in out

    note = f"{OWN_WORDING}, no prompt with a source is known: zoo/voices."
    as_declared = str(sn.evaluate(chatty, "zoo/voices", name="declared"))
    assert (note in as_declared) == (wording == OWN_WORDING)
    # Who chooses a set of prompts does not ask in Snellen's words.
    chosen = str(sn.evaluate(chatty, "zoo/voices", name="chosen", templates="official"))
    assert note not in chosen


@pytest.mark.parametrize(
    ("added", "mark"),
    [
        ("", OWN_NUMBER),
        (DISAGREEING, OWN_NUMBER),
        (REPRODUCTION, "reproduced (1 of 1)"),
        (REPRODUCTION + DISAGREEING, "reproduced (1 of 2)"),
    ],
)
def test_lists_and_reports_mark_a_number_that_no_published_replies_prove(
    added: str, mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zoo(tmp_path, ENTRY + added)
    _, out, _ = small.command(capsys, "list", "zoo/voices", "--json")
    assert f'"number":"{mark}"' in out

    results = sn.evaluate(chatty, "zoo/voices")
    report = str(results)
    is_own = f"{OWN_NUMBER}, no printed figure of it was reproduced: zoo/voices." in report
    assert is_own == (mark == OWN_NUMBER)
    is_in_part = f"Not every printed figure was reproduced: zoo/voices {mark}." in report
    assert is_in_part == (mark == "reproduced (1 of 2)")

    card = results.card().to_markdown()
    assert ("voices\\* |" in card) == (mark == OWN_NUMBER)
    assert ("voices† |" in card) == (mark == "reproduced (1 of 2)")


def test_a_published_prompt_must_be_one_of_the_entry(tmp_path: Path) -> None:
    # `plain` is a form of prompts that every benchmark has, and no set of this entry.
    for name, meant in (("oficial", "did you mean official"), ("plain", "known: official")):
        with pytest.raises(sn.DataError, match=f"unknown set of prompts '{name}'; {meant}"):
            zoo(tmp_path / name, ENTRY.replace('prompt = "official"', f'prompt = "{name}"'))


QUESTION = "Which animal is it?"
OPTIONS = ("a cat", "a dog")
IN_BOX = (
    'Please solve the problem and put your answer in one "\\boxed{}". If it is a multiple choice question, only one '
    'letter is allowed in the "\\boxed{}".\n'
)
PARROT = {  # vlmeval/vlm/parrot.py of the makers
    "en": "Answer with the option's letter from the given choices directly.",
    "cn": "请直接用给定选项中的选项字母回答。",
    "pt": "Responda diretamente com a letra da opção das escolhas dadas.",
    "ar": "أجب مباشرةً بحرف الخيار من الاختيارات المعطاة.",
    "ru": "Ответьте буквой варианта из предложенных вариантов напрямую.",
    "tr": "Verilen seçeneklerden doğrudan seçeneğin harfi ile cevap verin.",
}
MAKERS_WORDS = {
    **{
        f"{family}-{language}": f"Which animal is it?\nA. a cat\nB. a dog\n{words}"
        for family in ("mmmb", "mmbench-multilingual")
        for language, words in PARROT.items()
    },
    "mindcube-tiny": (
        "[Task]\nYour task is to analyze the spatial arrangement of objects in the scene by examining the provided "
        "images, which show the scene from different viewpoints.\n[Answer Instruction]\nYou only need to provide *ONE* "
        "correct answer selecting from the options listed below. For example, if you think the correct answer is "
        "'A. Above' from 'A. Above B. Under C. Front D. Behind', your response should **only** be '<answer>A. "
        "Above</answer>'.\n\n[Question]\nWhich animal is it? A. a cat B. a dog"
    ),
    "mmmu-pro": (
        "Which animal is it?\nA. a cat\nB. a dog\nAnswer the preceding multiple choice question. The last line of your "
        "response should be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of "
        "options. Think step by step before answering."
    ),
    "tempcompass": "Which animal is it?\nA. a cat\nB. a dog\nPlease directly give the best option:",
    "blink": "Which animal is it?\n(A) a cat\n(B) a dog",
    "vsi-bench": (
        "These are frames of a video.\nWhich animal is it?\nOptions:\nA. a cat\nB. a dog\n"
        "Answer with the option's letter from the given choices directly."
    ),
    "mathvision": f"{IN_BOX}Which animal is it?\n(A) a cat\n(B) a dog\n",
    "muirbench": (
        "Question: Which animal is it?\nChoices:\n(A) a cat\n(B) a dog\n"
        "Hint: Please provide the correct option letter, such as A, B, C, D, directly.\nAnswer:"
    ),
    "mmmu-pro-vision": (
        "Write out the multiple-choice question in the image and then solve it. The last line of your response should "
        "be of the following format: 'Answer: $LETTER' (without quotes) where LETTER is one of options. Think step by "
        "step before answering."
    ),
    "hr-bench-4k": (
        "Question: Which animal is it?\nOptions:\nA. a cat\nB. a dog\n"
        "Please select the correct answer from the options above. \n"
    ),
    # Of small letters in the makers' file, (a) and (b).
    "mmvp": "Which animal is it? (A) a cat (B) a dog",
    "video-mme": (
        "Select the best answer to the following multiple-choice question based on the video. Respond with only the "
        "letter (A, B, C, or D) of the correct option.\nWhich animal is it?\nA. a cat\nB. a dog\nThe best answer is:"
    ),
    "mvbench": (
        "Carefully watch the video and pay attention to the cause and sequence of events, the detail and movement of "
        "objects, and the action and pose of persons. Based on your observations, select the best option that "
        "accurately addresses the question.\nQuestion: Which animal is it?\nOptions:\n(A) a cat\n(B) a dog\n"
        "Only give the best option."
    ),
    "mlvu": "Question: Which animal is it?\nOptions:\n(A) a cat\n(B) a dog\nOnly give the best option.",
    "mathverse": (
        "Please directly answer the question and provide the correct option letter, e.g., A, B, C, D.\n"
        "Question: Which animal is it?\nChoices:\nA:a cat\nB:a dog"
    ),
    "mme-realworld": (
        "Which animal is it? The choices are listed below:\n(A) a cat\n(B) a dog\n"
        "Select the best answer to the above multiple-choice question based on the image. Respond with only the letter "
        "(A, B, C, D, or E) of the correct option. \nThe best answer is:"
    ),
    "mme-realworld-cn": (
        "Which animal is it?选项如下所示:\n(A) a cat\n(B) a dog\n"
        "根据图像选择上述多项选择题的最佳答案。只需回答正确选项的字母（A, B, C, D 或 E）。\n"
        " 最佳答案为：\nThe best answer is:"
    ),
    "mmsi-bench": (
        "Which animal is it?\nOptions: A: a cat, B: a dog\n"
        "Answer with the option's letter from the given choices directly. Enclose the option's letter within ``."
    ),
    "visualpuzzles": (
        "Question: Which animal is it?\nOptions:\n(A) a cat\n(B) a dog\n"
        "Answer the question with the option's letter from the given choices directly."
    ),
    "longvideobench": (
        "Question: Which animal is it?\nA. a cat\nB. a dog\n"
        "Answer with the option's letter from the given choices directly."
    ),
    "mmt-bench": (
        "Question: Which animal is it?\nOptions:\nA. a cat\nB. a dog\n"
        "Please select the correct answer from the options above. \n"
    ),
    "mmstar": (
        "Question: Which animal is it?\nOptions:\nA. a cat\nB. a dog\n"
        "Please select the correct answer from the options above. \n"
    ),
    "erqa": (
        "Which animal is it? Choices: A. a cat B. a dog "
        "Please answer directly with only the letter of the correct option and nothing else."
    ),
    "3dsrbench": (
        "Question: Which animal is it?\nOptions:\nA. a cat\nB. a dog\n"
        "Please select the correct answer from the options above. \n"
    ),
    "a-okvqa": "Q: Which animal is it?\nChoices: a cat, a dog.\nA:",
    "crpe-relation": (
        "Which animal is it?\nA. a cat\nB. a dog\n"
        "Please answer directly with only the letter of the correct option and nothing else."
    ),
    "cv-bench-2d": "Which animal is it?\n(A) a cat\n(B) a dog",
    "cv-bench-3d": "Which animal is it?\n(A) a cat\n(B) a dog",
    "naturalbench": (
        "Which animal is it?\nOptions:\nA: a cat\nB: a dog"
        "Please output the letter corresponding to the correct option."
    ),
    "omnispatial": (
        "Which animal is it?\nA. a cat\nB. a dog\n\nNote: You only need to respond with A, B, C, or D without "
        "providing any additional information.\n"
    ),
    "r-bench-dis": (
        "Which animal is it?\nA.a cat; B.a dog\n"
        "Answer with the option's letter from the given choices directly."
    ),
    "scienceqa": "Question: Which animal is it?\nOptions: (A) a cat (B) a dog\nAnswer:",
    "tomato": (
        "You will be provided with 16 separate frames uniformly sampled from a video, the frames are provided in "
        "chronological order of the video. Analyze these frames and provide the answer to the question about the "
        "video content. Answer the multiple-choice question about the video content. \n\nYou must use these frames "
        "to answer the multiple-choice question; do not rely on any externel knowledge or commonsense. \n\n"
        "<question> \nWhich animal is it? \n</question>\n\n<options> \n{'A': 'a cat', 'B': 'a dog'} \n</options>"
        "\n\nEven if the information in these separate frames is not enough to answer the question, PLEASE TRY YOUR "
        "BEST TO GUESS AN ANSWER WHICH YOU THINK WOULD BE THE MOST POSSIBLE ONE BASED ON THE QUESTION. \n\n"
        "DO NOT GENERATE ANSWER SUCH AS 'NOT POSSIBLE TO DETERMINE.' \n"
    ),
    "viewspatial": (
        "Which animal is it?A. a cat\nB. a dog\nReply only to the corresponding option.\nAnswer:"
    ),
    "visulogic": (
        "Which animal is it?Solve the complex visual logical reasoning problem through step-by-step reasoning. Think "
        "about the reasoning process first and answer the question following this format: Answer: \\boxed{$LETTER}."
    ),
    "vstar": (
        "Which animal is it?\n(A) a cat\n(B) a dog\n"
        "Answer with the option's letter from the given choices directly."
    ),
    # Those of others, whom `prompt_by` names.
    "egoschema": (
        "Which animal is it?\nA. a cat\nB. a dog\n"
        "Answer with the option's letter from the given choices directly."
    ),
    "iconqa-choose-txt": (
        "Given a set of images and a question, please provide the answer to the question.\n"
        "Question: Which animal is it?.\nOptions:\nA. a cat\nB. a dog\n"
        "Please answer with the option letter from the given choices directly."
    ),
    "nextqa-mc": "Which animal is it?\nA. a cat\nB. a dog",
    "perceptiontest": (
        "Which animal is it?\nA. a cat\nB. a dog\n"
        "Answer with the option's letter from the given choices directly."
    ),
    "wemath": (
        "Question: Which animal is it?\nOptions:\nA. a cat\nB. a dog\n\nRegarding the format, please answer "
        "following the template below, and be sure to include two <> symbols:\n"
        "<Thought process>: <<your thought process>> <Answer>: <<your option>>"
    ),
}
"""What the makers' code sends, as its source in `prompt_source` writes it; None of these is made by Snellen."""
OPEN_WORDS = {
    "mm-vet": "Which animal is it?",
    "vibe-eval": "Which animal is it?",
    "vsi-bench": (
        "These are frames of a video.\nWhich animal is it?\n"
        "Please answer the question using a single word or phrase."
    ),
    "mathvision": f"{IN_BOX}Which animal is it?\n",
    "mathverse": (
        "Please directly answer the question and provide the final value, e.g., 1, 2.5, 300.\n"
        "Question: Which animal is it?"
    ),
    "visualpuzzles": (
        "Question: Which animal is it?\nOptions: Choose from (A) (B) (C) (D) in the image.\n"
        "Answer the question with the option's letter from the given choices directly."
    ),
    "worldvqa": ("Please provide as much detail as possible in your answer. \nWhich animal is it?"),
    "mtvqa": (
        "Answer the question using a word or phrase in the language of the question. "
        "Which animal is it?"
    ),
    "mme-cot": (
        "Which animal is it?\nPlease generate a step by step answer, include all your intermediate reasoning "
        "process, and provide the final answer at the end."
    ),
    "naturalbench": "Which animal is it?Please answer Yes or No.",
    # Those of others, whom `prompt_by` names.
    "iconqa-fill-in-blank": (
        "Given a set of images and a question, please provide the answer to the question.\n"
        "Question: Which animal is it?.\nPlease answer the question using a single word or phrase."
    ),
    "tallyqa": "Which animal is it?\nAnswer the question using a single number.",
    "zerobench": (
        "Which animal is it? \n\n\nLet's think step by step and give the final answer in curly braces,  "
        "like this: {final answer}"
    ),
    # The dataset's own words.
    "llava-bench": "Which animal is it?",
    "mia-bench": "Which animal is it?",
    "ocrbench-v2": "Which animal is it?",
    "cc-ocr-scenes": "Which animal is it?",
    "hallusionbench": "Which animal is it?",
    "mme": "Which animal is it?",
    "ocrbench": "Which animal is it?",
    "robospatial-compatibility": "Which animal is it?",
    "vlms-are-biased": "Which animal is it?",
    "vlmsareblind": "Which animal is it?",
}


def makers_prompt(
    short: str, options: tuple[str, ...], tags: dict[str, str] | None = None
) -> tuple[Sample, PromptRenderer]:
    spec = entries()[f"modern/{short}"]
    assert spec.published is not None and spec.published.prompt_source
    name = spec.published.prompt
    templates = declared_templates(name, {spec.name: spec.prompts[name]}).by_benchmark[spec.name]
    sample = Sample("1", spec.name, QUESTION, options=options, tags=tags or {})
    renderer = PromptRenderer(templates, sample.formulation, 16, templates.decoding, prefix=True)
    return sample, renderer


def asked(short: str, options: tuple[str, ...]) -> str:
    sample, renderer = makers_prompt(short, options)
    [request] = next(Vanilla().ask(sample, renderer))
    return request.messages[0].text


@pytest.mark.parametrize("short", MAKERS_WORDS)
def test_options_are_asked_in_the_makers_words(short: str) -> None:
    assert asked(short, OPTIONS) == MAKERS_WORDS[short]


@pytest.mark.parametrize("short", OPEN_WORDS)
def test_open_questions_are_asked_in_the_makers_words(short: str) -> None:
    assert asked(short, ()) == OPEN_WORDS[short]


def test_mathvista_asks_for_each_form_of_answer_in_its_makers_words(tmp_path: Path) -> None:
    # The first lines of the makers' data/query.json.
    hints = {
        "1": "Hint: Please answer the question and provide the correct option letter, e.g., A, B, C, D, at the end.",
        "2": "Hint: Please answer the question requiring an integer answer and provide the final value, e.g., 1, 2, 3, "
        "at the end.",
        "3": "Hint: Please answer the question requiring a floating-point number with two decimal places and provide "
        "the final value, e.g., 1.23, 1.34, 1.45, at the end.",
        "4": "Hint: Please answer the question requiring a Python list as an answer and provide the final list, e.g., "
        "[1, 2, 3], [1.2, 1.3, 1.4], at the end.",
    }
    source = modern_metric_tables.write("mathvista", tmp_path / "hub")
    spec = entries()["modern/mathvista"].from_hub()
    benchmark = build_benchmark(spec, source=source, to=tmp_path / "built")
    samples = {sample.id: sample for sample in benchmark.samples()}
    _, renderer = makers_prompt("mathvista", ())
    for name, hint in hints.items():
        [request] = next(Vanilla().ask(samples[name], renderer))
        choices = "\nChoices:\n(A) 3/11\n(B) 8/11" if name == "1" else ""
        question = f"Question: What is number {int(name) - 1}?"
        assert request.messages[0].text == f"{hint}\n{question}{choices}"


@pytest.mark.parametrize(
    ("short", "tags", "words"),
    [
        (
            "mirb",
            {"subset": "food"},
            "Answer with the option symbol.\nWhich animal is it?\nAnswer:",
        ),
        ("mirb", {"subset": "count"}, "Answer with a single number.\nWhich animal is it?\nAnswer:"),
        (
            "simplevqa",
            {"language": "EN"},
            "If you are a computer vision expert, please understand the picture and answer the question below. The "
            "answer must be a short named entity:\n## Now let's ask the question:\nWhich animal is it?\n",
        ),
        (
            "simplevqa",
            {"language": "CN"},
            "假如你是一个计算机视觉专家，请理解图片内容，并回答给出的问题，要求只能回答一个命名实体：\n"
            "## 下面我们提出问题: \nWhich animal is it?\n",
        ),
    ],
)
def test_the_makers_words_follow_the_kind_of_question(
    short: str, tags: dict[str, str], words: str
) -> None:
    sample, renderer = makers_prompt(short, (), tags)
    [request] = next(Vanilla().ask(sample, renderer))
    assert request.messages[0].text == words


TUPLES = (
    "where each tuple contains the x and y coordinates of a point satisfying the conditions above. The coordinates "
    "should be between 0 and 1, indicating the normalized pixel locations of the points"
)


@pytest.mark.parametrize(
    ("short", "pattern"),
    [
        # Of lmms-eval: the datasets have expressions alone.
        (
            "refcoco",
            r"Please provide the bounding box coordinate of the region this sentence describes: [^\n]+\nAnswer .*",
        ),
        (
            "screenspot",
            r'In this UI screenshot, what is the position of the element corresponding to the command "[^"]+" '
            r"\(with bbox\)\?\nAnswer .*",
        ),
        (
            "screenspot-v2",
            r'In this UI screenshot, what is the position of the element corresponding to the command "[^"]+" '
            r"\(with point\)\?\nAnswer .*",
        ),
        (
            "screenspot-pro",
            r'In this UI screenshot, what is the position of the element corresponding to the command "[^"]+" '
            r"\(with point\)\?\nAnswer .*",
        ),
        # Of Qwen3-VL.
        (
            "odinw-13",
            r"Locate every instance that belongs to the following categories: '[^']+'. Report bbox coordinates in JSON "
            r"format.\nAnswer .*",
        ),
        (
            "refspatial-location",
            r"[^\n]+ Your answer should be formatted as a list of tuples, i.e. \[\(x1, y1\)\],  "
            + TUPLES
            + " in the image.",
        ),
        (
            "robospatial-context",
            r"[^\n]+ Your answer should be formatted as a list of tuples, i.e. \[\(x1, y1\), ...\], "
            + TUPLES
            + ".",
        ),
    ],
)
def test_questions_about_places_are_built_in_the_declared_words(
    short: str, pattern: str, tmp_path: Path
) -> None:
    # What the source in `prompt_source` writes, with a sentence on coordinates behind it where that has none.
    tables = modern_tables if short in modern_tables.TABLES else modern_metric_tables
    source = tables.write(short, tmp_path / "hub")
    spec = entries()[f"modern/{short}"].from_hub()
    first, *_ = build_benchmark(spec, source=source, to=tmp_path / "built").samples()
    assert re.fullmatch(pattern, first.question, re.DOTALL), first.question


def test_charxiv_says_how_to_answer_in_its_makers_words(tmp_path: Path) -> None:
    # src/constants.py of princeton-nlp/CharXiv (7ebe88f), without blanks at the end.
    kinds = {
        "0": "    * Your final answer must be grounded to some text that is explicitly written and relevant to the question "
        "in the chart.\n    * If you need to answer multiple terms, separate them with commas.\n    * Unless specified in the "
        "question (such as answering with a letter), you are required to answer the full names of subplots and/or labels "
        "by default.",
        "2": "    * Your final answer must be grounded to a number that is exlicitly written and relevant to the question in "
        "the chart, even if it's an approximate value.\n    * You are allowed to extract numbers within some text when "
        "needed.",
        # The reference of the miniature has no decimals.
        "3": "    * Your final answer must be an exact integer.",
    }
    source = modern_tables.write("charxiv-reasoning", tmp_path / "hub")
    spec = entries()["modern/charxiv-reasoning"]
    benchmark = build_benchmark(spec.from_hub(), source=source, to=tmp_path / "built")
    samples = {sample.id: sample for sample in benchmark.samples()}
    _, renderer = makers_prompt("charxiv-reasoning", (), {"instruction": "1"})
    for name, words in kinds.items():
        [request] = next(Vanilla().ask(samples[name], renderer))
        assert request.messages[0].text == f"Which animal is number {name}?\n{words}"
    _, of_decimals = makers_prompt("charxiv-reasoning", (), {"instruction": "4.2"})
    sample = Sample("1", spec.name, QUESTION, tags={"instruction": "4.2"})
    [request] = next(Vanilla().ask(sample, of_decimals))
    assert request.messages[0].text.endswith("must be a number with 2 decimal places.")


@pytest.mark.parametrize(
    ("kind", "answer", "instruction"),
    [("4", "12", "4.0"), ("4", "0.25", "4.2"), ("4", "-3.5", "4.1"), ("1", "v1.2", "1")],
)
def test_charxivs_numbers_in_general_tell_their_decimals(
    kind: str, answer: str, instruction: str
) -> None:
    assert charxiv_instruction(kind, answer) == instruction


def test_a_question_without_words_for_its_tag_is_named() -> None:
    sample, renderer = makers_prompt("mathvista", (), {"decimals": "float 3"})
    with pytest.raises(sn.DataError, match="no words for a question with decimals = 'float 3'"):
        next(Vanilla().ask(sample, renderer))


def test_words_need_the_tag_that_chooses_them() -> None:
    prompts = PromptSet("plain", {"open": "{words} {question}"}, words={"a": "A."})
    with pytest.raises(sn.DataError, match=r"zoo/names: \[prompts.mine\]: tag and words belong"):
        declared_templates("mine", {"zoo/names": prompts})


def test_options_that_the_image_shows_keep_their_order_and_their_letters() -> None:
    sample, renderer = makers_prompt("mmmu-pro-vision", OPTIONS)
    # Where options are listed, the second rotation shows "a dog" first, and labels may be numbers.
    [listed] = [request.variant for request in rotations(*makers_prompt("mmmu-pro", OPTIONS))][1:]
    assert (listed.order, listed.labels) == ((1, 0), ("1", "2"))
    for request in rotations(sample, renderer):
        assert (request.variant.order, request.variant.labels) == ((0, 1), ("A", "B"))
        assert "a cat" not in request.messages[0].text


def rotations(sample: Sample, renderer: PromptRenderer) -> list[Request]:
    return list(next(Circular(labels="number", all_passes=True).ask(sample, renderer)))


@pytest.mark.parametrize("spec", MODERN, ids=lambda spec: spec.short)
def test_every_entry_of_today_declares_its_published_number(spec: BenchmarkSpec) -> None:
    number = spec.published
    assert number is not None
    assert bool(number.prompt) == bool(number.prompt_source)
    assert number.prompt or not number.prompt_by
    # A set that has the name of a harness or a vendor is theirs, and its row says so.
    assert bool(number.prompt_by) == (number.prompt not in ("", "official"))
    assert not number.aggregate_source or number.aggregate
    if number.judge is not None:
        assert number.judge.source
        assert not number.judge.text or number.judge.licence
    extractors = names("extractors")
    for reproduction in number.reproductions:
        assert reproduction.source and reproduction.commit and reproduction.paths
        assert reproduction.rescored is not None
        assert reproduction.reader in ("entry", "makers", *RULES, *extractors)
        assert bool(reproduction.why) == (not reproduction.agrees), reproduction.model


LENGTHS = ("$4 \\mathrm{~kg}$", "$8 \\mathrm{~kg}$", "105")


@pytest.mark.parametrize(
    ("rule", "reply", "choice"),
    [
        ("mmstar", "B: neither; both are warm", 1),
        ("mmstar", "(c", 2),
        ("mmstar", "The answer is a bird", 0),
        ("mmstar", "It is B", None),
        ("mathvision", "So it weighs more. The answer is (B).", 1),
        ("mathvision", "\\boxed{C}", 2),
        ("mathvision", "105.0", 2),
        ("mathvision", "8 kg", None),
        ("mathvision", "(C) 105", None),
    ],
)
def test_rules_of_makers_read_as_their_code_does(rule: str, reply: str, choice: int | None) -> None:
    # Each is what the makers' code gives for the reply, faults included.
    extractor = find_registered("extractors", f"legacy:{rule}")
    assert extractor.read(reply, LENGTHS, "ABC").choice == choice


@pytest.mark.parametrize(
    ("rule", "reply", "follows"),
    [
        ("mathvista", "(b)", True),
        ("mathvista", "The answer is (C).", True),
        ("mathvista", "105", False),
        ("mathvision", "So it weighs more. The answer is (B).", True),
        ("mathvision", "105.0", False),
        ("mmstar", "B", True),
        ("mmstar", "b.", True),
        ("mmstar", "(C) 105", True),
        ("mmstar", "The answer is A, as it is light", True),
        ("mmstar", "Bread is heavier", False),
        ("mmstar", "a bird", False),
        ("mmstar", "It is B", False),
    ],
)
def test_rules_of_makers_tell_a_label_from_other_words(
    rule: str, reply: str, follows: bool
) -> None:
    # The hit rate counts the labels. No maker computes one.
    extractor = find_registered("extractors", f"legacy:{rule}")
    assert extractor.read(reply, LENGTHS, "ABC").follows_format is follows


@pytest.mark.parametrize("rule", ["mathvista", "mmstar", "mathvision"])
def test_rules_of_makers_say_which_labels_they_do_not_read(rule: str) -> None:
    extractor = find_registered("extractors", f"legacy:{rule}")
    assert extractor.limit("ABCDE") == ""
    numbers = tuple(str(number) for number in range(1, 101))
    assert "alone, and others were shown" in extractor.limit(numbers)
    assert "finds labels alone" in extractor.limit(())
    # MATH-V's code knows five letters.
    assert bool(extractor.limit("ABCDEF")) == (rule == "mathvision")
    assert (extractor.read("(F)", ("",) * 6, "ABCDEF").choice == 5) == (rule != "mathvision")


def test_the_page_has_what_the_entries_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    reproductions = importlib.import_module("reproductions")
    text = reproductions.table(reproductions.worst_first(reproductions.recorded()))
    assert text in reproductions.PAGE.read_text()


def clone_with(folder: Path, **files: object) -> None:
    """Make a clone of owner/name that has files of JSON."""
    clone = folder / "clones" / "owner+name" / "repo"
    clone.mkdir(parents=True)
    for name, content in files.items():
        (clone / f"{name}.json").write_text(json.dumps(content))
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Replies"]):
        subprocess.run([*git, *words], check=True)


REPLIES = [
    {"id": "1", "question": "Which says moo?", "gold": "cow", "said": "a cow"},
    {"id": "2", "question": "Which says woof?", "gold": "dog", "said": "a cat"},
]


def test_the_published_marks_of_a_judge_are_averaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    reproductions = importlib.import_module("reproductions")
    clone_with(tmp_path, replies=REPLIES, marks={"1": {"given": ["0.7"]}, "2": {"given": ["0.2"]}})
    judge = '\n[published.judge]\nsource = "a paper"\nmetric = "mm_vet"\n'
    reads = 'reads = { answer = "gold", reply = "said", marks = "marks.json", mark = "given" }\n'
    zoo(tmp_path, ENTRY + judge + REPRODUCTION.replace("rescored = 50.1\n", reads))

    reproductions.main([str(tmp_path / "clones"), "--only", "zoo/voices"])

    assert "| `voices` | A | 50 | 45.00 | -5.00 |" in capsys.readouterr().out


def test_published_replies_are_scored_again_and_put_into_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    reproductions = importlib.import_module("reproductions")
    clone_with(tmp_path, replies=REPLIES)
    reads = 'reads = { answer = "gold", reply = "said" }\n'
    zoo(tmp_path, ENTRY + REPRODUCTION.replace("rescored = 50.1\n", reads))

    reproductions.main([str(tmp_path / "clones"), "--only", "zoo/voices"])

    assert "| `voices` | A | 50 | 50.00 | +0.00 |" in capsys.readouterr().out
