"""Says for each entry of the suite `modern` with which code its metric was compared, the worst first.

    python bench/compared.py CLONES [--cases 1000] [--only WORDS] [--write]

CLONES has lmms-eval, VLMEvalKit and the makers' repositories as OWNER+NAME/repo. Their functions are taken out of their
files and run as they are (parity.py). Each comparison gives both sides replies that are drawn at random in named forms,
and counts equal scores; scores over groups are compared on random models (parity_groups.py). The kinds of evidence:

    none        nothing of the following
    own rule    the makers score in another way, as the entry says
    server      the answers are withheld, and the makers' server scores
    same rule   as an entry that was compared or reproduced
    compared    with the code of the makers or of a harness
    reproduced  published replies give the printed figure (reproductions.py)

`--write` puts the table into docs/evidence/parity.md.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from msgspec import Struct
from PIL import Image

import parity_replies as replies
from parity import Peer, choice, rate
from parity_groups import group_rows
from real_sources import Clone
from snellen.catalogue import BenchmarkSpec, entries
from snellen.metrics import boxes, numbers, ocr, vqa
from snellen.protocols.verdict import mark_behind, read_number
from snellen.suites.modern import (
    clicks,
    masks,
    moments,
    reasoning_quality,
    short_answers,
    words_read,
)
from snellen.suites.modern.charts import chartqapro_right
from snellen.suites.modern.long_documents import document_score
from snellen.suites.modern.metrics import (
    mean_relative_accuracy,
    mtvqa,
    ocrbench_right,
)

LMMS = "EvolvingLMMs-Lab/lmms-eval"
KIT = "open-compass/VLMEvalKit"
TASKS = "lmms_eval/tasks"
SEED = 20261130
PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "parity.md"
TABLE = re.compile(r"(<!-- entries -->\n).*?(<!-- end of entries -->\n)", re.DOTALL)
WITHHELD = {
    "st-vqa",
    *(f"{name}-test" for name in ("docvqa", "infovqa", "mmmu", "textvqa", "vizwiz", "vqav2")),
}
"""Benchmarks whose makers keep the answers."""
TOLERANCE = 1e-6
"""Some of the others add 1e-9 to what they divide by."""
WORDS = (
    "red",
    "bus",
    "a",
    "the",
    "Market",
    "Street",
    "12",
    "12.5",
    "open",
    "Total:",
    "$4.20",
    "no",
)

Score = float | None
Pair = tuple[str, Score, Score]
"""A reply with its gold, what they make of it, and what Snellen does; None where a side raises an error."""


class Comparison(Struct, frozen=True):
    """Pairs of scores, whose rule is that of some entries."""

    entries: tuple[str, ...]
    repository: str
    file: str
    pairs: Callable[[Any, random.Random], Pair]
    """Draws a reply and scores it by the functions of the file and by Snellen."""
    note: str = ""
    """Why scores differ on purpose."""
    borrowed: dict[str, str] = {}
    """Functions that the file imports, with the files of the same repository that have them."""
    given: dict[str, Any] = {}
    """Functions that it imports from other packages."""


class Outcome(Struct):
    """What a comparison found."""

    comparison: Comparison
    cases: int = 0
    equal: int = 0
    example: str = ""

    @property
    def text(self) -> str:
        of = self.comparison
        text = f"{self.equal:,} of {self.cases:,} equal with {of.file} of {of.repository}"
        if self.equal == self.cases:
            return text
        return f"{text}; {of.note or 'unexplained'}, such as {self.example}"


def asked(gold: str, **tags: str) -> Any:
    """A question as metrics over questions see it."""
    return SimpleNamespace(
        sample=SimpleNamespace(tags=tags),
        reference_answers=[gold],
        label="a question",
    )


def said(reply: str) -> Any:
    return SimpleNamespace(text=reply)


def phrase(rng: random.Random, most: int = 6) -> str:
    """Some words."""
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def near(text: str, rng: random.Random) -> str:
    """A text, or the text with a word or a character changed, with other case, blanks or marks."""
    words = text.split()
    place = rng.randrange(len(words))
    word = words[place]
    changed = rng.choice(
        [
            text,
            text.upper(),
            f"  {text} ",
            text + ".",
            " ".join([*words[:place], *words[place + 1 :]]),
            " ".join([*words[:place], rng.choice(WORDS), *words[place + 1 :]]),
            " ".join([*words[:place], word[:-1], *words[place + 1 :]]),
            text.replace(" ", "\n"),
            f"It is {text}",
            phrase(rng),
        ]
    )
    return changed or text


def attempt(rule: Callable[[], Any]) -> Score:
    """The score of a rule; None if it raises an error."""
    try:
        return float(rule())
    except Exception:  # they may raise anything
        return None


def mark(marks: Any, place: int = 0) -> float:
    """A score among those of a metric that reads something out of a reply; 0 where it finds nothing."""
    return float(marks[place]) if marks else 0.0


# --- the comparisons -------------------------------------------------------------------------------------------------


def moments_of_clips(theirs: Any, rng: random.Random) -> Pair:
    gold = sorted((round(rng.uniform(0, 30), 1), round(rng.uniform(0, 30), 1)))
    gold[1] += 1
    start, end = sorted((round(rng.uniform(0, 30), 1), round(rng.uniform(0, 31), 1)))
    form = rng.choice(
        [
            "{a} - {b}",
            "{a}-{b} seconds",
            "From {a} to {b} seconds.",
            "The event happens in {a} - {b} seconds.",
            "The given query happens in {b} - {a} seconds.",
            "{a} to {b}",
            "It starts at {a} seconds and ends at {b} seconds.",
            "{m} - {n}",
            "It happens from {m} to {n}.",
            "I cannot tell.",
        ]
    )
    clock = [f"{int(time) // 60}:{int(time) % 60:02}" for time in (start, end)]
    reply = form.format(a=start, b=end, m=clock[0], n=clock[1])
    reference = f"{gold[0]} - {gold[1]}"

    def by_them() -> float:
        found = theirs.extract_time(reply)
        return theirs.iou(gold, found[0]) if len(found) == 1 else 0.0

    here = attempt(lambda: mark(moments.moment_marks(reply, [reference]), 3))
    return f"{reply} / {reference}", attempt(by_them), here


def random_mask(rng: random.Random) -> np.ndarray:
    """A region of an image of 12 by 9 pixels."""
    mask = np.zeros((9, 12), dtype=bool)
    top, left = rng.randrange(7), rng.randrange(9)
    mask[top : top + rng.randint(1, 5), left : left + rng.randint(1, 6)] = True
    return mask


def points_reply(rng: random.Random, side: float) -> str:
    """One to three points in an image, some of them beyond its edges."""
    shown = []
    for _ in range(rng.randint(1, 3)):
        x, y = (round(rng.uniform(-0.1, 1.1), 3) for _ in range(2))
        shown.append(f"({x}, {y})" if side == 1 else f"({int(side * x)}, {int(side * y)})")
    listed = ", ".join(shown)
    return rng.choice(
        [f"[{listed}]", listed, f"The points are [{listed}].", f"{shown[0]} is free", "none"]
    )


def points_in_masks(theirs: Any, rng: random.Random) -> Pair:
    mask = random_mask(rng)
    height, width = mask.shape
    reply = points_reply(rng, 1)
    reference = f"mask {width}x{height} in 1: {masks._encode_runs(mask)}"

    def by_them() -> float:
        points = theirs._text2pts(reply, width, height)
        accuracy = getattr(theirs, "_refspatial_acc", None) or theirs._where2place_acc
        return accuracy(mask.astype(int), points)

    here = attempt(lambda: mark(masks.mask_marks(reply, [reference])))
    return f"{reply} / {reference}", attempt(by_them), here


def any_point_in_mask(theirs: Any, rng: random.Random) -> Pair:
    mask = random_mask(rng)
    height, width = mask.shape
    points = [[rng.randint(0, 1050), rng.randint(0, 1050)] for _ in range(rng.randint(1, 3))]
    listed = json.dumps([{"point_2d": point, "label": "free"} for point in points])
    reply = rng.choice([f"```json\n{listed}\n```", f"Here:\n```json\n{listed}\n```"])
    reference = f"mask {width}x{height} in 1000: {masks._encode_runs(mask)}"
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        Image.fromarray(mask.astype(np.uint8) * 255).save(file.name)
        there = attempt(lambda: theirs.evaluate_pointing_with_mask({"mask_path": file.name}, reply))
    here = attempt(lambda: mark(masks.mask_marks(reply, [reference]), 1))
    return f"{reply} / {reference}", there, here


def yes_or_no(theirs: Any, rng: random.Random) -> Pair:
    case = replies.yes_no(rng)
    there = attempt(lambda: theirs.evaluate_binary_answer(case.gold, case.reply))
    return (
        f"{case.reply} / {case.gold}",
        there,
        attempt(lambda: vqa.typed_match(case.reply, [case.gold])),
    )


def clicks_on_targets(theirs: Any, rng: random.Random) -> Pair:
    kind = rng.choice(["bbox", "polygon", "refusal"])
    if kind == "bbox":
        shape = [rng.randint(5, 60), rng.randint(5, 60), rng.randint(10, 40), rng.randint(10, 40)]
    elif kind == "polygon":
        shape = [
            coordinate
            for _ in range(rng.randint(3, 6))
            for coordinate in (rng.randint(5, 95), rng.randint(5, 95))
        ]
    else:
        shape = [-1, -1, -1, -1]
    x, y = (round(rng.uniform(2, 99), rng.choice([0, 2])) for _ in range(2))
    reply = rng.choice(
        [
            f"[{x}, {y}]",
            f"({x}, {y})",
            f"x={x}, y={y}",
            f"Click [{x}, {y}].",
            f"[{x / 100}, {y / 100}]",
            "[-1, -1]",
            "It is not there.",
        ]
    )
    document = {"image_size": [100, 100], "box_type": kind, "box_coordinates": shape}

    def by_us() -> float:
        references = clicks._make_references(
            kind, list(map(float, shape)), (100, 100), "1 or pixels", "a row"
        )
        return mark(clicks.click_marks(reply, references))

    there = attempt(
        lambda: theirs.osworld_g_process_results(document, [reply])["osworld_g_acc"]["correct"]
    )
    return f"{reply} / {kind} {shape}", there, attempt(by_us)


def answers_of_the_blind(theirs: Any, rng: random.Random) -> Pair:
    task = rng.choice(theirs.TASKS)
    number, other = rng.randint(0, 5), rng.randint(0, 5)
    if task.startswith("counting grid"):
        gold = f"{number},{other}"
    elif task == "touching circles":
        gold = rng.choice(["Yes", "No"])
    elif task == "circled letter":
        gold = rng.choice("abcdef")
    else:
        gold = str(number)
    answer = rng.choice([gold, "2", "3,4", "yes", "no", "b", "{3}"])
    first, _, second = answer.partition(",")
    reply = rng.choice(
        [
            answer,
            f"{{{answer}}}",
            f"{{{first}}}{{{second}}}",
            f"({answer})",
            f"rows={{{first}}} columns={{{second}}}",
            f"It is {answer}.",
            answer.upper(),
        ]
    )
    document = {"task": task, "groundtruth": gold}
    there = attempt(lambda: theirs.vlmsareblind_process_results(document, [reply])["accuracy"])
    here = attempt(lambda: short_answers.blind_right(asked(gold, task=task), said(reply)))
    return f"{task}: {reply} / {gold}", there, here


def answers_of_the_biased(theirs: Any, rng: random.Random) -> Pair:
    gold = rng.choice(["3", "5", "Yes", "No", "12"])
    answer = rng.choice([gold, "4", "{4}", "no", "12 stripes", "1 and 2"])
    reply = rng.choice(
        [answer, f"{{{answer}}}", f" {answer} ", answer.upper(), f"There are {answer}."]
    )
    document = {"ground_truth": gold, "expected_bias": "4"}
    there = attempt(lambda: theirs.vlms_are_biased_process_results(document, [reply])["accuracy"])
    here = attempt(lambda: short_answers.biased_right(asked(gold), said(reply)))
    return f"{reply} / {gold}", there, here


def counts_of_things(theirs: Any, rng: random.Random) -> Pair:
    gold = str(rng.randint(0, 12))
    answer = rng.choice([gold, str(rng.randint(0, 12))])
    reply = rng.choice(
        [answer, f"There are {answer} dogs.", f"{answer}.", f"Answer: {answer}", "many"]
    )
    there = attempt(lambda: theirs.pixmo_count_process_results({"answer": gold}, [reply])["acc"])
    here = attempt(lambda: mark(numbers.number_right(reply, [gold])))
    return f"{reply} / {gold}", there, here


def texts_in_languages(theirs: Any, rng: random.Random) -> Pair:
    gold = phrase(rng)
    reply = near(gold, rng)
    document = {"answer": gold, "category": "DE"}
    there = attempt(lambda: theirs.mtvqa_process_results(document, [reply])["mtvqa_score"]["score"])
    return f"{reply} / {gold}", there, attempt(lambda: mtvqa(reply, [gold]))


def sizes_and_distances(theirs: Any, rng: random.Random) -> Pair:
    gold = round(rng.uniform(0.5, 20), 1)
    number = round(gold * rng.uniform(0.3, 1.8), rng.choice([0, 1, 2]))
    reply = rng.choice([f"{number}", f"{number}.", f"{number} meters", "far"])

    def by_them() -> float:
        read = theirs.to_float(theirs.fuzzy_matching(reply))
        return (
            theirs.mean_relative_accuracy(read, gold, 0.5, 0.95, 0.05) if read is not None else 0.0
        )

    here = attempt(lambda: mean_relative_accuracy(reply, [str(gold)]))
    return f"{reply} / {gold}", attempt(by_them), here


def likeness_of_texts(theirs: Any, rng: random.Random) -> Pair:
    golds = [phrase(rng) for _ in range(rng.randint(1, 3))]
    reply = near(rng.choice(golds), rng)
    there = attempt(lambda: theirs.anls(golds, [reply])["anls"])
    return f"{reply} / {golds}", there, attempt(lambda: ocr.legacy_anls(reply, golds))


def words_of_pages(theirs: Any, rng: random.Random) -> Pair:
    subset, category = rng.choice(
        [
            ("Arabic", "lan"),
            ("German", "lan"),
            ("Japanese", "lan"),
            ("zh_scene", "scene_text"),
            ("IC15", "scene_text"),
        ]
    )
    gold = phrase(rng, 12)
    reply = rng.choice(
        [near(gold, rng), "### " + near(gold, rng), near(gold, rng).replace(" ", "\t")]
    )
    track = "multi_scene_ocr" if category.endswith("_text") else "multi_lan_ocr"

    def by_them() -> float:
        return theirs._compute_pr_f1(*theirs._tokenize_for_sample(track, subset, gold, reply))[2]

    question = asked(gold, subset=subset, category=category)
    here = attempt(lambda: words_read.text_f1(question, said(reply)))
    return f"{reply} / {gold} ({subset})", attempt(by_them), here


def answers_in_documents(theirs: Any, rng: random.Random) -> Pair:
    form = rng.choice(["Int", "Float", "Str", "List", "None"])
    if form == "Int":
        gold, reply = str(rng.randint(0, 9)), rng.choice([str(rng.randint(0, 9)), "3.0", "three"])
    elif form == "Float":
        value = round(rng.uniform(0, 100), rng.choice([1, 2]))
        gold = f"{value}{rng.choice(['', '%'])}"
        reply = rng.choice(
            [gold, f"{value}", f"{value / 100:.4f}", f"{value * 1.005:.2f}", f"${value}", "none"]
        )
    elif form == "List":
        values = [phrase(rng, 2) for _ in range(rng.randint(1, 3))]
        gold = repr(values)
        shuffled = rng.sample(values, len(values))
        reply = rng.choice(
            [repr(shuffled), repr(values[1:]), repr([near(value, rng) for value in values])]
        )
    elif form == "None":
        gold, reply = "Not answerable", rng.choice(["Not answerable", "not answerable.", "12"])
    else:
        gold = rng.choice([phrase(rng), "2020-03", "page 4", "a@b.org", "7 a.m."])
        reply = near(gold, rng)
    there = attempt(lambda: theirs.eval_score(gold, reply, form))
    return f"{form}: {reply} / {gold}", there, attempt(lambda: document_score(gold, reply, form))


def words_on_web_pages(theirs: Any, rng: random.Random) -> Pair:
    gold = phrase(rng)
    reply = near(gold, rng)
    there = attempt(
        lambda: theirs.evaluate_websrc([{"answer": gold, "parsed_pred": reply}])[1]["f1"]
    )
    return f"{reply} / {gold}", there, attempt(lambda: short_answers.websrc_f1(reply, [gold]))


def answers_in_braces(theirs: Any, rng: random.Random) -> Pair:
    gold = rng.choice(["3", "12.5", "Paris", "A, B"])
    answer = rng.choice([gold, gold.upper(), "4", f"{gold} m"])
    reply = rng.choice(
        [
            answer,
            f"{{{answer}}}",
            f"{{4}}, so {{{answer}}}",
            f"So: {{{answer}}}.",
            f"{{\n{answer}}}",
        ]
    )
    frame = pd.DataFrame([{"index": 0, "prediction": reply, "answers": gold}])
    there = attempt(lambda: theirs.ZEROBench.evaluate(None, frame)["accuracy"])
    return f"{reply} / {gold}", there, attempt(lambda: short_answers.zerobench(reply, [gold]))


def words_of_gqa(theirs: Any, rng: random.Random) -> Pair:
    gold = rng.choice(["red", "bus", "street sign", "no"])
    reply = rng.choice([near(gold, rng), gold.title() + "."])
    settings = {"ignore_case": True, "ignore_punctuation": True}
    there = attempt(
        lambda: theirs.exact_match_hf_evaluate([reply], [gold], **settings)["exact_match"]
    )
    return f"{reply} / {gold}", there, attempt(lambda: vqa.gqa_accuracy(reply, [gold]))


def options(theirs: Any, rng: random.Random) -> Pair:
    case = replies.choice(rng)
    shown = dict(zip("ABCDEFGH", case.options, strict=False))
    there = attempt(lambda: theirs.can_infer(case.reply, shown) == case.gold)
    return f"{case.reply} / {case.gold} of {case.options}", there, attempt(lambda: choice(case))


def boxes_of_things(theirs: Any, rng: random.Random) -> Pair:
    case = replies.box(rng)
    gold = [float(part) for part in case.gold.strip("[]").split(",")]
    there = attempt(
        lambda: theirs.compute_accuracy(gold, theirs.parse_float_sequence_within(case.reply), 0.5)
    )
    return f"{case.reply} / {case.gold}", there, attempt(lambda: rate(boxes.box_marks)(case))


def clicks_in_boxes(theirs: Any, rng: random.Random) -> Pair:
    case = replies.point(rng)
    gold = [float(part) for part in case.gold.strip("[]").split(",")]

    def by_them() -> float:
        point = theirs._parse_point(case.reply)
        return point is not None and theirs._point_in_box(point, gold)

    return (
        f"{case.reply} / {case.gold}",
        attempt(by_them),
        attempt(lambda: rate(boxes.point_marks)(case)),
    )


def numbers_of_charts(theirs: Any, rng: random.Random) -> Pair:
    case = replies.chart(rng)
    there = attempt(lambda: theirs.relaxed_correctness(case.reply, case.gold))
    here = attempt(lambda: numbers.legacy_relaxed_accuracy(case.reply, [case.gold]))
    return f"{case.reply} / {case.gold}", there, here


def votes(theirs: Any, rng: random.Random) -> Pair:
    case = replies.votes(rng)
    processed = theirs.EvalAIAnswerProcessor()
    reply = processed(case.reply)

    def by_them() -> float:
        golds = [processed(option) for option in case.options]
        shares = []
        for place in range(len(golds)):
            others = golds[:place] + golds[place + 1 :]
            shares.append(min(1.0, others.count(reply) / 3))
        return sum(shares) / len(shares)

    return (
        f"{case.reply} / {case.options}",
        attempt(by_them),
        attempt(lambda: vqa.vqa_accuracy(case.reply, case.options)),
    )


def items_of_charts(theirs: Any, rng: random.Random) -> Pair:
    count = rng.choice([1, 1, 2, 3])
    values = [rng.choice(["2019", "12.5", "40%", "Spain", "New York", "0"]) for _ in range(count)]
    years = [rng.choice(["YES", "NO"]) for _ in range(rng.choice([1, count]))]
    kind = rng.choice(["Factoid", "Conversational", "Multi Choice"])
    if count == 1:
        gold = values[0]
    else:
        gold = rng.choice([repr(values), f"[{', '.join(values)}]"])
    changed = [rng.choice([value, value, "12.9", "2018", "spain.", "York"]) for value in values]
    reply = rng.choice(
        [changed[0], repr(changed), ", ".join(changed), repr(changed[1:]), f"{changed[0]}."]
    )
    document = {"Answer": [gold], "prediction": reply, "Question Type": kind, "Year": years}

    def by_them() -> float:
        return theirs.evaluate_predictions_chartqapro([document])["Overall"]

    question = asked(gold, kind=kind)
    question.answer = SimpleNamespace(tags={"years": json.dumps(years)})
    here = attempt(lambda: chartqapro_right(question, said(reply)))
    return f"{kind}: {reply} / {gold} {years}", attempt(by_them), here


def texts_of_first_ocrbench(theirs: Any, rng: random.Random) -> Pair:
    case = replies.reading(rng)
    kind = case.form.partition(":")[0]
    document = {"dataset": kind, "answer": [case.gold], "question_type": ""}

    def by_them() -> float:
        return theirs.ocrbench_process_results(document, [case.reply])["ocrbench_accuracy"]["score"]

    here = attempt(lambda: ocrbench_right(asked(case.gold, dataset=kind), said(case.reply)))
    return f"{case.reply} / {case.gold}", attempt(by_them), here


def yes_or_no_of_the_kit(theirs: Any, rng: random.Random) -> Pair:
    case = replies.yes_no(rng)
    there = attempt(lambda: theirs.YOrN_Extraction(case.reply).lower() == case.gold)
    return (
        f"{case.reply} / {case.gold}",
        there,
        attempt(lambda: vqa.typed_match(case.reply, [case.gold])),
    )


STEP_TYPES = ("logical inference", "image description", "image caption", "background information")
JUDGMENTS = ("Match", "Reasonable", "Wrong", "N/A")


NOTHING = -1.0
"""Stands for a reply of a judge without a verdict, which both sides leave out."""


def dressed(steps: Sequence[Mapping[str, Any]], rng: random.Random) -> str:
    """A judge's list of steps as judges write it: alone, fenced, after a sentence, with a comma too many, or cut off."""
    text = json.dumps(steps)
    form = rng.randrange(6)
    if form == 1:
        return f"```json\n{json.dumps(steps, indent=2)}\n```"
    if form == 2:
        return f"Here are the steps: {text}"
    if form == 3 and len(text) > 4:
        return f"{text[:-2]},}}]"
    if form == 4 and rng.random() < 0.5:
        return "I cannot judge this."
    if form == 5:
        return f"{text}\nAll steps are judged."
    return text


def steps_of_solutions(theirs: Any, rng: random.Random) -> Pair:
    """Precision of the steps of a solution."""
    conclusions = ("x is 2", "the box is red", "so [0, 1] holds", "B")
    steps = [
        {
            "step_type": rng.choice(STEP_TYPES),
            "conclusion": rng.choice(conclusions),
            "judgment": rng.choice(JUDGMENTS),
        }
        for _ in range(rng.randint(0, 8))
    ]
    reply = dressed(steps, rng)

    def by_them() -> float:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"index": 1, "valid_outputs": reply}, file)
            file.flush()
            return theirs.analyze_precision(file.name).get("precision", NOTHING)

    def by_us() -> float:
        marked = reasoning_quality.marked_steps(reply)
        precision = reasoning_quality.precision_of(marked) if marked else None
        return NOTHING if precision is None else precision

    return reply, attempt(by_them), attempt(by_us)


def key_steps_of_solutions(theirs: Any, rng: random.Random) -> Pair:
    """Recall of the key steps of one to four solutions."""
    solutions: dict[str, dict[str, list[str]] | None] = {}
    sizes = []
    for number in range(1, 5):
        n_conclusions = rng.randint(1, 3) if number == 1 else rng.randint(0, 2)
        n_captions = rng.randint(0, 2)
        solutions[f"solution{number}"] = {
            "logical_conclusion": ["x"] * n_conclusions + [""],
            "image_caption": ["y"] * n_captions,
        }
        sizes.append(n_conclusions + n_captions)
    judged = max(0, sum(sizes) - rng.choice([0, 0, 0, 1]))
    steps = [
        {"step_index": index, "judgment": rng.choice(["Matched", "Unmatched"])}
        for index in range(judged)
    ]
    reply = dressed(steps, rng)

    def by_them() -> float:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"index": 1, "valid_outputs": reply, "key_annotation_steps": solutions}, file)
            file.flush()
            return theirs.analyze_recall(file.name).get("recall", NOTHING)

    def by_us() -> float:
        marked = reasoning_quality.marked_steps(reply)
        if not marked:
            return NOTHING
        return reasoning_quality.recall_of(marked, [size for size in sizes if size])

    return f"{reply} / {sizes}", attempt(by_them), attempt(by_us)


def points_for_components(theirs: Any, rng: random.Random) -> Pair:
    """The total in a reply of MIA-Bench's judge."""
    weights = rng.choice([[10], [6, 4], [4, 3, 3], [4, 2, 2, 2], [2, 2, 2, 2, 2]])
    points = [rng.randint(0, weight) for weight in weights]
    parts = [
        f"score of component {number}: {point}/{weight}"
        for number, (point, weight) in enumerate(zip(points, weights, strict=True), 1)
    ]
    total = f"total score: {sum(points)}/10"
    form = rng.randrange(4)
    reply = f"{', '.join([*parts, total])}."
    if form == 1:
        reply += " The reply names two colours, and 3 are asked for."
    if form == 2:
        reply = f"{', '.join([*parts, 'total score: 7.5/10'])}. It is mixed."
    if form == 3:
        reply = f"The reply is good. {reply}"
    kinds = [f"kind {number}" for number in range(len(weights))]

    def by_us() -> float:
        verdict = read_number(mark_behind(reply, "total score:"), 0, 10)
        assert verdict is not None and verdict.value is not None
        return verdict.value / 10

    return (
        reply,
        attempt(lambda: theirs.process_rawscore(kinds, reply)["total_score"]),
        attempt(by_us),
    )


def repaired_json(text: str) -> str:
    """JSON with its faults mended, by the package that MME-CoT's makers use."""
    from json_repair import repair_json

    return repair_json(text)


def anls_score(prediction: str, gold_labels: Sequence[str], threshold: float) -> float:
    """ANLS as the package of this name on PyPI computes it, which ChartQAPro's makers use."""
    assert threshold == 0.5
    return ocr.anls(prediction, gold_labels)


READS_MORE = (
    "the standard reader takes more forms of replies and guesses less (docs/evidence/parity.md)"
)
MME_COT_IMPORTS = {"repair_json": repaired_json, "load_dataset": lambda name: {"test": ()}}
COMPARISONS = (
    Comparison(("charades-sta",), LMMS, f"{TASKS}/charades_sta/utils.py", moments_of_clips, "of a sentence without a dash, `-` or `to` between its times, one time is read there"),
    Comparison(("refspatial-location", "refspatial-placement", "refspatial-unseen"), LMMS, f"{TASKS}/refspatial/utils.py", points_in_masks),
    Comparison(("where2place",), LMMS, f"{TASKS}/where2place/utils.py", points_in_masks),
    Comparison(("robospatial-context",), LMMS, f"{TASKS}/robo_spatial/utils.py", any_point_in_mask),
    Comparison(("robospatial-compatibility", "robospatial-configuration"), LMMS, f"{TASKS}/robo_spatial/utils.py", yes_or_no, READS_MORE),
    Comparison(("osworld-g",), LMMS, f"{TASKS}/osworld_g/utils.py", clicks_on_targets),
    Comparison(("vlmsareblind",), LMMS, f"{TASKS}/vlmsareblind/utils.py", answers_of_the_blind, "rows and columns without braces, as the ground truth has them, are not read there"),
    Comparison(("vlms-are-biased",), LMMS, f"{TASKS}/vlms_are_biased/utils.py", answers_of_the_biased),
    Comparison(("pixmo-count",), LMMS, f"{TASKS}/pixmo_count/utils.py", counts_of_things),
    Comparison(("mtvqa",), LMMS, f"{TASKS}/mtvqa/utils.py", texts_in_languages),
    Comparison(("vsi-bench",), LMMS, f"{TASKS}/vsibench/utils.py", sizes_and_distances, "a bound that is met exactly can be missed there, where floats are divided"),
    Comparison(("docvqa", "infovqa", "st-vqa", "docvqa-test", "infovqa-test", "mp-docvqa"), LMMS, "lmms_eval/api/metrics.py", likeness_of_texts),
    Comparison(("cc-ocr-scenes", "cc-ocr-languages"), LMMS, f"{TASKS}/cc_ocr/evaluators/ocr_metric.py", words_of_pages),
    Comparison(("mmlongbench-doc",), KIT, "vlmeval/dataset/mmlongbenchdoc.py", answers_in_documents, borrowed={"levenshtein_distance": "vlmeval/dataset/utils/vqa_eval.py"}),
    Comparison(("chartqapro",), "vis-nlp/ChartQAPro", "evaluate_predictions.py", items_of_charts, given={"anls_score": anls_score}),
    Comparison(("ocrbench",), LMMS, f"{TASKS}/ocrbench/utils.py", texts_of_first_ocrbench, "full-width signs are folded there, which the published script does not"),
    Comparison(("hallusionbench",), KIT, "vlmeval/dataset/utils/yorn.py", yes_or_no_of_the_kit, READS_MORE, borrowed={"process_punctuation": "vlmeval/smp/misc.py"}),
    Comparison(("mme-cot",), "CaraJ7/MME-CoT", "final_score/precision.py", steps_of_solutions, given=MME_COT_IMPORTS),
    Comparison(("mme-cot",), "CaraJ7/MME-CoT", "final_score/recall.py", key_steps_of_solutions, given=MME_COT_IMPORTS),
    Comparison(("mia-bench",), LMMS, f"{TASKS}/mia_bench/utils.py", points_for_components, "a total with decimals is no mark in the makers' notebook and here, where the judge is asked again; there the mean of the components counts"),
    Comparison(("websrc",), LMMS, f"{TASKS}/websrc/utils.py", words_on_web_pages),
    Comparison(("zerobench",), KIT, "vlmeval/dataset/image_vqa.py", answers_in_braces, given={"load": lambda frame: frame}),
    Comparison(("gqa",), LMMS, "lmms_eval/api/metrics.py", words_of_gqa, "all punctuation is left out there, here a final full stop and blanks at the ends, as in LLaVA's converter"),
    Comparison(("3dsrbench", "blink", "mmstar", "seed-bench", "scienceqa"), KIT, "vlmeval/utils/matching_util.py", options, READS_MORE),
    Comparison(("refcoco",), LMMS, f"{TASKS}/refcoco/utils_rec.py", boxes_of_things, READS_MORE),
    Comparison(("screenspot-v2", "screenspot-pro"), LMMS, f"{TASKS}/screenspot_v2/utils.py", clicks_in_boxes, READS_MORE),
    Comparison(("chartqa",), LMMS, f"{TASKS}/chartqa/utils.py", numbers_of_charts),
    Comparison(("vqav2", "textvqa", "vizwiz", "ok-vqa"), LMMS, f"{TASKS}/_task_utils/vqa_eval_metric.py", votes),
)  # fmt: skip


# --- running and showing ---------------------------------------------------------------------------------------------


def functions(clones: Path, comparison: Comparison) -> Any:
    """The functions of a comparison's file; what it imports of its package is a stub, but for edit distances."""
    given = {"print": lambda *_, **__: None, **comparison.given}
    clone = Clone(clones, comparison.repository)
    with tempfile.TemporaryDirectory() as folder:
        for file in (*comparison.borrowed.values(), comparison.file):
            copy = Path(folder) / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(clone.read(file))
        peer = Peer(Path(folder))
        for name, file in comparison.borrowed.items():
            given[name] = getattr(peer.names(file), name)
        return peer.names(comparison.file, **given)


def outcome_of(clones: Path, comparison: Comparison, cases: int) -> Outcome:
    theirs = functions(clones, comparison)
    rng = random.Random(SEED)
    found = Outcome(comparison)
    for _ in range(cases):
        shown, there, here = comparison.pairs(theirs, rng)
        found.cases += 1
        if there is not None and here is not None and abs(there - here) <= TOLERANCE:
            found.equal += 1
        elif not found.example:
            found.example = f"`{_one_line(shown)}`: {_shown(there)} there, {_shown(here)} here"
    return found


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("`", "'")[:120]


def _shown(score: Score) -> str:
    return "an error" if score is None else f"{score:.3g}"


def rule_of(spec: BenchmarkSpec) -> tuple[str, ...]:
    """What decides a score: the form of a question, the metric of the headline, the reader of options and the judge."""
    number = spec.published
    judge = number.judge.metric if number and number.judge else ""
    metrics = number.metrics if number and number.metrics else spec.metrics
    extractor = number.extractor if number else ""
    metric = spec.headline or (metrics[0] if metrics else "accuracy")
    return spec.formulation, metric, extractor, judge


def compared_groups(clones: Path) -> dict[str, str]:
    """By entry: what its scores over groups were compared with, and how far they are apart."""
    by_title = {spec.title: spec.short for spec in entries().values() if spec.suite == "modern"}
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        peers = []
        for repository in (LMMS, KIT):
            checkout = Path(folder) / repository
            source = clones / repository.replace("/", "+") / "repo"
            subprocess.run(["git", "clone", "-q", str(source), str(checkout)], check=True)
            peers.append(Peer(checkout))
        for line in group_rows(*peers, Path(folder) / "runs"):
            title, rule, rows, models, difference = (cell.strip() for cell in line.split("|")[1:-1])
            text = f"{rows} of {models} random models differ by at most {difference} from {rule}"
            short = by_title[title]
            found[short] = f"{found[short]}; {text}" if short in found else text
    return found


OWN_RULE = {
    "activitynet-qa": "model cards print a judge's score",
    "mathverse": "a judge marks replies there",
    "spatialsense": "the authors train a classifier and ask nothing in words",
    "vstar": "the makers rank options by likelihood in their code",
}
"""Entries whose makers score in another way. Those with a judge of their own declare it."""
ONCE = {
    "remi": "8,096 replies of all 13 tasks with the makers' notebook, in a copy: the 6,624 with braces all equal (modern.md)",
    "dynamath": "3,000 short answers with the rule in the makers' script (DynaMath/DynaMath, 598c3c3): all equal",
    "ocrbench-v2": "21,000 replies of all 21 types with the makers' eval.py (Yuliang-Liu/MultimodalOCR, 794c36d): all equal (bench/ocrbench_v2.py)",
    "ocrbench-v2-zh": "9,000 replies of all 9 types with the makers' eval.py (Yuliang-Liu/MultimodalOCR, 794c36d): all equal (bench/ocrbench_v2.py)",
    "omnidocbench": "1,172 replies to pages in 17 languages with the makers' evaluation as VLMEvalKit (e8e78f05) has it: all scores of all parts equal (bench/omnidocbench.py)",
    "omnidocbench-zh": "1,172 replies to pages in 17 languages with the makers' evaluation as VLMEvalKit (e8e78f05) has it: all scores of all parts equal (bench/omnidocbench.py)",
    "odinw-13": "1,500 replies with the makers' evaluation (QwenLM/Qwen3-VL, 9658872): equal mAP (commit 61054a23)",
    "sun-rgb-d": "1,200 replies with lmms-eval (75571cfe): equal mAP in space (commit 61054a23)",
}
"""Entries that were compared outside this bench."""


def statuses(
    outcomes: Sequence[Outcome], groups: Mapping[str, str]
) -> Iterator[tuple[float, str, str, str]]:
    """For each entry: how good its evidence is (higher is better), its name, the kind of evidence, and what it is."""
    compared: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        for short in outcome.comparison.entries:
            compared[short].append(outcome)
    suite = [spec for spec in entries().values() if spec.suite == "modern"]
    with_evidence: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for spec in suite:
        is_reproduced = spec.published is not None and spec.published.is_reproduced
        if spec.short in compared or spec.short in groups or is_reproduced:
            with_evidence[rule_of(spec)].append(spec.short)

    for spec in suite:
        number = spec.published
        texts = []
        share = 0.0
        if spec.short in compared:
            of_entry = compared[spec.short]
            texts += [outcome.text for outcome in of_entry]
            share = min(outcome.equal / outcome.cases for outcome in of_entry)
        if spec.short in ONCE:
            texts.append(ONCE[spec.short])
            share = 1.0
        if spec.short in groups:
            texts.append(groups[spec.short])
            share = share or 1.0
        is_reproduced = number is not None and number.is_reproduced
        if number and is_reproduced:
            texts.append(f"published replies: {number.mark}")
        if is_reproduced:
            yield 5, spec.short, "reproduced", "; ".join(texts)
        elif spec.short in WITHHELD:
            yield 1.5, spec.short, "server", "; ".join(texts)
        elif texts:
            yield 3 + share, spec.short, "compared", "; ".join(texts)
        elif spec.short in OWN_RULE:
            yield 1, spec.short, "own rule", OWN_RULE[spec.short]
        elif number and number.judge:
            yield 1, spec.short, "own rule", f"the score of a judge, {number.judge.metric}"
        elif with_evidence[rule_of(spec)]:
            same = with_evidence[rule_of(spec)][0]
            rule = " ".join(filter(None, rule_of(spec)))
            yield 2, spec.short, "same rule", f"as `{same}` ({rule})"
        else:
            yield 0, spec.short, "none", " ".join(filter(None, rule_of(spec)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--only", default="", help="words in the names of the entries")
    parser.add_argument("--write", action="store_true", help="write the page")
    chosen = parser.parse_args()
    outcomes = []
    for comparison in COMPARISONS:
        if any(chosen.only in short for short in comparison.entries):
            outcomes.append(outcome_of(chosen.clones, comparison, chosen.cases))
    groups = compared_groups(chosen.clones)
    lines = ["| benchmark | evidence | what |", "|---|---|---|"]
    counts: dict[str, int] = defaultdict(int)
    for _, short, kind, text in sorted(statuses(outcomes, groups)):
        if chosen.only in short:
            counts[kind] += 1
            lines.append(f"| `{short}` | {kind} | {text} |")
    summary = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    text = "\n".join([*lines, "", f"Entries by their evidence: {summary}."])
    print(text)
    if chosen.write:
        page = PAGE.read_text()
        PAGE.write_text(TABLE.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page))


if __name__ == "__main__":
    main()
