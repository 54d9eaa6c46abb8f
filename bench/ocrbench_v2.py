"""Compares the score of every type of question of OCRBench v2 with the makers' script, worst first.

    python bench/ocrbench_v2.py CLONES [--cases 1000] [--only WORDS] [--replies FILE]

CLONES has Yuliang-Liu/MultimodalOCR as OWNER+NAME/repo. Its `eval.py` scores one reply after the other as it is. Answers
are real: the texts, boxes and tables of the pages of MDPBench's demonstration, and the answers of OCRBench. Replies are
these answers with the faults that models make, and for whole pages also what Gemini 3 Pro replied. `--replies` takes a
file of published replies in the makers' form in their place, such as their `pred_folder/internvl2_5_26b.json`. The means
of the abilities are compared with those of the makers' `get_score.py`.

It needs the extra `documents`, WordNet, and what the makers' `requirements.txt` names.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from types import ModuleType, SimpleNamespace
from typing import Any

from msgspec import Struct

from real_sources import Clone
from snellen.reformulation.wordnet import open_wordnet
from snellen.suites.modern.ocrbench_v2.reading import ability, accepted_answers
from snellen.suites.modern.ocrbench_v2.scoring import ocrbench_v2_right

MAKERS = "Yuliang-Liu/MultimodalOCR"
SCRIPTS = "OCRBench_v2/eval_scripts/"
DEMO = "MDPBench/demo_data/"
SEED = 20261201
TOLERANCE = 1e-9
Item = dict[str, Any]


class MakersScript:
    """The makers' `eval.py` in a folder of its own, where it writes files."""

    def __init__(self, clone: Clone, folder: Path) -> None:
        for name in clone.files(rf"{SCRIPTS}.*\.py"):
            file = folder / "eval_scripts" / name.removeprefix(SCRIPTS)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(clone.read_bytes(name))
        # Their debugger is imported and not used; their METEOR takes NLTK's WordNet by its name.
        sys.modules.setdefault("ipdb", ModuleType("ipdb"))
        sys.path.insert(0, str(folder / "eval_scripts"))
        os.chdir(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            self._script = importlib.import_module("eval")
        words = open_wordnet().reader
        meteor = importlib.import_module("nltk.translate.meteor_score")
        theirs = importlib.import_module("page_ocr_metric")
        theirs.meteor_score = SimpleNamespace(
            meteor_score=lambda golds, reply: meteor.meteor_score(golds, reply, wordnet=words)
        )
        self._script.tqdm = iter
        self._means = importlib.import_module("get_score")
        self._scored: list[Item] = []
        self._input = folder / "input.json"
        self._output = folder / "output.json"

    def score(self, item: Item) -> float | None:
        """Return the score of a reply; None if the script raises an error."""
        self._input.write_text(json.dumps([item]))
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                self._script.process_predictions(str(self._input), str(self._output))
        except Exception:  # they may raise anything
            return None
        [scored] = json.loads(self._output.read_text())
        self._scored.append(scored)
        return float(scored["score"])

    def means(self) -> str:
        """Return what `get_score.py` prints of all replies that were scored."""
        self._input.write_text(json.dumps(self._scored))
        sys.argv = ["get_score.py", "--json_file", str(self._input)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self._means.main()
        found = re.findall(r"(English|Chinese) Overall Score: ([\d.]+)", printed.getvalue())
        return ", ".join(f"{language} {mean}" for language, mean in found)


def score_here(item: Item) -> float:
    """Return the score of a reply by Snellen, from the row that the dataset would have."""
    texts = [text if isinstance(text, str) else json.dumps(text) for text in item["answers"]]
    hidden: dict[str, Any] = {"bbox": item.get("bbox", [])}
    if item["type"] == "text spotting en":
        hidden = {
            "bbox_list": [json.dumps(box) for box in item["bbox"]],
            "content": item["content"],
        }
    references = accepted_answers(item["type"], texts, hidden, "a row")
    question = SimpleNamespace(
        sample=SimpleNamespace(tags={"category": item["type"], "form": item.get("eval", "None")}),
        turn=SimpleNamespace(question=item["question"]),
        reference_answers=references,
    )
    return ocrbench_v2_right(question, SimpleNamespace(text=item["predict"], reason=None))  # type: ignore[arg-type]


# --- real material ----------------------------------------------------------------------------------------------------


class Material(Struct):
    """Texts, tables, boxes and pages that people wrote down, and what a model replied."""

    english: list[str]
    chinese: list[str]
    tables: list[list[list[str]]]
    """Tables as rows of cells."""
    table_pages: list[str]
    """Tables in HTML."""
    layouts: list[list[tuple[list[float], str]]]
    """For each page its texts, each with the corners of its box from 0 to 1000."""
    pages: list[tuple[str, str]]
    """For each page its text in Markdown, and what Gemini 3 Pro replied."""
    answers: list[str]
    formulas: list[str]


def read_material(clone: Clone) -> Material:
    found = Material([], [], [], [], [], [], [], [])
    for page in json.loads(clone.read(f"{DEMO}MDPBench_demo.json")):
        name = page["page_info"]["image_path"].rpartition(".")[0]
        blocks = sorted(page["layout_dets"], key=lambda block: block.get("order") or 0)
        width = max(max(block["poly"][0::2]) for block in blocks) + 1
        height = max(max(block["poly"][1::2]) for block in blocks) + 1
        lines = []
        layout = []
        for block in blocks:
            text = block.get("text") or block.get("html", "")
            if block["category_type"] == "title":
                lines.append(f"# {text}")
            elif text:
                lines.append(text)
            if "html" in block:
                found.table_pages.append(block["html"])
                found.tables.append(cells_of(block["html"]))
                continue
            if not text:
                continue
            if re.search(r"[\u4e00-\u9fa5]", text):
                found.chinese.append(text)
            elif re.fullmatch(r"[\x00-\x7f\u2010-\u2026]+", text) and len(text.split()) > 5:
                found.english.append(text)
            scales = (1000 / width, 1000 / height)
            corners = [number * scales[index % 2] for index, number in enumerate(block["poly"])]
            layout.append((corners, text.split("\n")[0].split(" ")[0]))
        found.layouts.append(layout)
        found.pages.append(
            ("\n".join(lines), clone.read(f"{DEMO}Gemini3-pro-preview_demo_result/{name}.md"))
        )
    for row in json.loads(clone.read("OCRBench/OCRBench/OCRBench.json")):
        answers = row["answers"] if isinstance(row["answers"], list) else [row["answers"]]
        is_formula = "Mathematical" in row["type"]
        (found.formulas if is_formula else found.answers).append(str(answers[0]))
    return found


def cells_of(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    return [
        [
            re.sub("<.*?>", "", cell).strip()
            for cell in re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL)
        ]
        for row in rows
    ]


# --- faults of replies ------------------------------------------------------------------------------------------------


def misread(text: str, rng: random.Random) -> str:
    """Return a text as a model may read it: with wrong letters and words, in other lines or case, cut off, or wrapped."""
    words = text.split(" ")
    for _ in range(rng.choice([0, 0, 1, 2, len(words) // 5 + 1])):
        index = rng.randrange(len(words))
        word = words[index]
        position = rng.randrange(len(word) + 1)
        words[index] = rng.choice(
            [
                word[:position] + word[position + 1 :],
                word[:position] + rng.choice("aeI1l0.,的一了") + word[position:],
                word.upper(),
                word[::-1],
                "",
                f"{word} {word}",
            ]
        )
    joined = " ".join(words)
    return rng.choice(
        [
            joined, joined, joined, joined.replace(" ", "\n"), joined[: len(joined) * 2 // 3], f"The text is: {joined}",
            f"```\n{joined}\n```", f"  {joined}\n", joined.lower(), f"{joined}。", "", " ", "I cannot read it.",
        ]
    )  # fmt: skip


def passage(texts: list[str], rng: random.Random) -> str:
    """Return a real text, of a length that the makers' edit distance finishes."""
    text = rng.choice(texts)
    start = rng.randrange(max(1, len(text) - 200))
    return text[start : start + rng.randint(20, 250)].strip() or text[:50]


def broken_html(html: str, rng: random.Random) -> str:
    """Return a table in HTML with other cells, spans, tags and wrapping, or cut off."""
    for _ in range(rng.choice([0, 1, 2, 5])):
        cells = list(re.finditer(r"<t[dh][^>]*>.*?</t[dh]>", html, re.DOTALL))
        if not cells:
            break
        cell = rng.choice(cells)
        text = cell[0]
        changed = rng.choice(
            [
                "",
                text + text,
                misread(text, rng),
                text.replace("<td>", '<td colspan="2">'),
                text.replace("<td>", '<td rowspan="x">'),
                text.replace("<td>", "<th>").replace("</td>", "</th>"),
                text.replace("<td>", "<td><b>").replace("</td>", "</b></td>"),
                text.replace("</td>", ""),
                re.sub(r">(.*?)<", ">7<", text, count=1, flags=re.DOTALL),
            ]
        )
        html = html[: cell.start()] + changed + html[cell.end() :]
    return rng.choice(
        [
            html, html, html, f"```html\n{html}\n```", f"<html><body>{html}</body></html>", html[: len(html) * 2 // 3],
            f"Here is the table:\n{html}\nDone.", html.replace("<table>", "").replace("</table>", ""),
            html.replace("<tr>", "<thead><tr>", 1).replace("</tr>", "</tr></thead>", 1), f"{html}<table></table>",
            html.replace("<table>", '<table border="1">'), f"<body class='a'>{html}", "no table",
        ]
    )  # fmt: skip


def broken_markdown(rows: list[list[str]], rng: random.Random) -> str:
    """Return a table in Markdown with other cells and rows, or without parts of its form."""
    rows = [list(row) for row in rows if row] or [["1"]]
    for _ in range(rng.choice([0, 1, 3])):
        row = rng.choice(rows)
        if row:
            row[rng.randrange(len(row))] = rng.choice(
                ["", "7", " ", "a|b", "<b>x</b>", "a<5", "**y**"]
            )
        if rng.random() < 0.3:
            rows.pop(rng.randrange(len(rows)))
            rows = rows or [["1"]]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    text = "\n".join(lines)
    return rng.choice(
        [
            text,
            text,
            f"```markdown\n{text}\n```",
            f"The table:\n{text}",
            text.replace(" ", ""),
            text[: len(text) // 2],
            "none",
        ]
    )


# --- a question of each type, and a reply -----------------------------------------------------------------------------


def short_text(material: Material, rng: random.Random, kind: str) -> Item:
    if kind.endswith("cn"):
        golds = [
            passage(material.chinese, rng)[: rng.randint(2, 60)] for _ in range(rng.randint(1, 2))
        ]
    else:
        golds = [rng.choice([rng.choice(material.answers), passage(material.english, rng)[:80]])]
        golds += rng.choice([[], [], [rng.choice(material.answers)]])
    item: Item = {"answers": golds, "predict": misread(rng.choice(golds), rng)}
    form = rng.choice(["", "", "", "case sensitive", "multiple choice"])
    if form == "multiple choice":
        letter = rng.choice("ABCD")
        item["answers"] = [letter]
        item["predict"] = rng.choice(
            [letter, f"({letter}).", f"{letter}. yes", "B", f"It is {letter}", ""]
        )
    if form:
        item["eval"] = form
    return item


def formula(material: Material, rng: random.Random, kind: str) -> Item:
    gold = rng.choice(material.formulas)
    if kind.endswith("cn"):
        gold = f"\\text{{{passage(material.chinese, rng)[:4]}}} = {gold}"
    plain = re.sub(r"\\text\{(.*?)\}", r"\1", gold)
    reply = rng.choice([gold, f"$${gold}$$", plain.replace(" ", ""), misread(gold, rng), "nan", ""])
    return {"answers": [gold], "predict": reply}


def count(material: Material, rng: random.Random, kind: str) -> Item:
    gold = rng.randint(1, 20)
    reply = rng.choice(["{}", "There are {}.", "{}0", "none", "", "**{}** times, not 3"])
    form = rng.choice(["exact match", "regression"])
    return {
        "answers": [str(gold)],
        "eval": form,
        "predict": reply.format(rng.choice([gold, rng.randint(0, 25)])),
    }


def fields(material: Material, rng: random.Random, kind: str) -> Item:
    names = rng.sample(["total", "date", "Company", "address", "合计", "tax id"], rng.randint(1, 4))
    gold: dict[str, Any] = {name: rng.choice(material.answers)[:30] for name in names}
    given = {
        name: rng.choice([value, value.upper(), misread(value, rng)])
        for name, value in gold.items()
    }
    if rng.random() < 0.3:
        given.pop(rng.choice(names))
    if rng.random() < 0.3:
        gold[names[0]] = [gold[names[0]], "other"]
    plain = "\n".join(f"{name}: {value}" for name, value in given.items())
    reply = rng.choice(
        [
            json.dumps(given), repr(given), plain, f"```json\n{json.dumps(given, indent=1)}\n```",
            f"Here: {json.dumps(given)}", json.dumps(list(given)), "none",
        ]
    )  # fmt: skip
    return {"answers": [repr(gold)], "predict": reply}


def written_answer(material: Material, rng: random.Random, kind: str) -> Item:
    if rng.random() < 0.5:
        return {**long_text(material, rng, kind), "question": "请输出图中简答题的手写答案"}
    gold = rng.choice(["A", "C", "AC", "BCD"])
    reply = rng.choice(
        [gold, "、".join(gold), ", ".join(gold), "和".join(gold), gold[::-1], "没有"]
    )
    return {"answers": [gold], "predict": f"答案是{reply}"}


def long_text(material: Material, rng: random.Random, kind: str) -> Item:
    gold = passage(material.chinese if kind.endswith("cn") else material.english, rng)
    return {"answers": [gold], "predict": misread(gold, rng)}


def page_text(material: Material, rng: random.Random, kind: str) -> Item:
    """A real page with a real reply in one of 20 cases, because the makers' edit distance is slow."""
    if rng.random() < 0.95:
        return long_text(material, rng, kind)
    is_wanted = re.compile(r"[\u4e00-\u9fa5]").search
    pages = [page for page in material.pages if bool(is_wanted(page[0])) == kind.endswith("cn")]
    gold, reply = rng.choice(pages)
    start = rng.randrange(max(1, len(gold) - 1200))
    return {"answers": [gold[start : start + 1200]], "predict": reply[start : start + 1200]}


def table_en(material: Material, rng: random.Random, kind: str) -> Item:
    if rng.random() < 0.5:
        return {**table_cn(material, rng, kind), "question": "Represent this table in HTML format."}
    rows = [row for row in rng.choice(material.tables)[:8] if row]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    gold = "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])
    return {"answers": [gold], "predict": broken_markdown(rows, rng), "question": "Use markdown."}


def table_cn(material: Material, rng: random.Random, kind: str) -> Item:
    gold = rng.choice(material.table_pages)
    rows = re.findall(r"<tr.*?</tr>", gold, re.DOTALL)[: rng.randint(2, 8)]
    gold = f"<table>{''.join(rows)}</table>"
    if rng.random() < 0.3:
        gold = re.sub(r"\n\s*", "", gold)
    return {"answers": [gold], "predict": broken_html(gold, rng), "question": "输出HTML"}


def chart(material: Material, rng: random.Random, kind: str) -> Item:
    """A chart from a real table; values are short, because the makers' distance of cells is slow."""
    table = rng.choice(material.tables)[:8]
    rows = [[cell[:15] for cell in row[:4]] for row in table if len(row) > 1]
    gold: dict[str, Any] = {row[0]: row[1] for row in rows[1:]} or {"a": "1"}
    if rows and rng.random() < 0.5:
        gold = {row[0]: dict(zip(rows[0][1:], row[1:], strict=False)) for row in rows[1:]} or {
            "a": {"b": 1}
        }
    given = dict(gold)
    for name in list(given):
        if rng.random() < 0.3:
            given[name] = rng.choice(["7", 7, 7.5, {"x": 1}, [1, 2]])
        elif rng.random() < 0.2:
            given[misread(name, rng)] = given.pop(name)
    reply = rng.choice(
        [
            repr(given), json.dumps(given, ensure_ascii=False), f"```python\ndata = {given!r}\n```",
            f"```json\n{json.dumps(given, indent=2)}\n```", f"chart = {given!r}  # as read", f"{given!r} as asked",
            f"Here: {given!r}", "{}", "", repr(given)[:-5],
        ]
    )  # fmt: skip
    return {"answers": [gold], "predict": reply}


def document(material: Material, rng: random.Random, kind: str) -> Item:
    gold, reply = rng.choice(material.pages)
    start = rng.randrange(5)
    lines = gold.split("\n")[start : start + rng.randint(3, 40)]
    if rng.random() < 0.3:
        return {
            "answers": ["\n".join(lines)],
            "predict": "\n".join(reply.split("\n")[start : start + 40]),
        }
    given = list(lines)
    for _ in range(rng.choice([0, 1, 3, 8])):
        index = rng.randrange(len(given))
        given[index] = rng.choice(
            [
                "", "***", f"# {given[index]}", given[index].lstrip("#"), "## Table", "<bos># A", f" ##{given[index]}",
                f"{given[index]}\n", "#", "## Table", "-", "\\end{table}",
            ]
        )  # fmt: skip
    page = "\n".join(given)
    return {
        "answers": ["\n".join(lines)],
        "predict": rng.choice([page, page, f"```markdown\n{page}\n```", ""]),
    }


def near_box(box: list[int], rng: random.Random) -> list[int]:
    shift = rng.choice([0, 3, 10, 60])
    return [max(0, min(1000, number + rng.randint(-shift, shift))) for number in box]


def grounding(material: Material, rng: random.Random, kind: str) -> Item:
    gold = some_box(material, rng)
    given = near_box(gold, rng)
    reply = rng.choice(
        [
            f"({', '.join(map(str, given))})", str(given), f"The box is {given}, not [1, 2, 3, 4].", f"{given} {given}",
            f"({given[0]},{given[1]}),({given[2]},{given[3]})", str([number / 1000 for number in given]),
            f"[{given[2]}, {given[3]}, {given[0]}, {given[1]}]", "[1, 2, 3, 1004]", "none", "[ 0,0 , 1000,1000 ]",
        ]
    )  # fmt: skip
    return {"answers": gold, "predict": reply}


def some_box(material: Material, rng: random.Random) -> list[int]:
    corners, _ = rng.choice(rng.choice(material.layouts))
    return [round(corners[index]) for index in (0, 1, 4, 5)]


def position(material: Material, rng: random.Random, kind: str) -> Item:
    gold = some_box(material, rng)
    answers = [rng.choice(material.answers) for _ in range(rng.choice([1, 1, 2]))]
    box = near_box(gold, rng)
    text = misread(rng.choice(answers), rng)
    reply = rng.choice(
        [
            json.dumps({"answer": text, "bbox": box}), repr({"answer": text, "bbox": tuple(box)}),
            json.dumps({"answer": text, "bbox": str(box)}), f"answer:{text}, bbox:({','.join(map(str, box))})",
            f"```json\n{json.dumps({'answer': text, 'bbox': box})}\n```", json.dumps({"bbox": box}), text,
            json.dumps({"answer": text, "bbox": box[:3]}), json.dumps({"answer": text, "bbox": [0.5, *box[1:]]}),
            json.dumps({"answer": text, "bbox": None}), json.dumps({"Answer": text}),
        ]
    )  # fmt: skip
    return {"answers": answers, "bbox": gold, "predict": reply}


def spotting(material: Material, rng: random.Random, kind: str) -> Item:
    layout = rng.choice([layout for layout in material.layouts if layout])
    chosen = rng.sample(layout, min(len(layout), rng.randint(1, 12)))
    polygons = [[round(number) for number in corners] for corners, _ in chosen]
    contents = [
        rng.choice([text, text, text, f'"{text}"', f"{text}!", "###"]) for _, text in chosen
    ]
    given = []
    for polygon, text in zip(polygons, contents, strict=True):
        box = near_box([polygon[0], polygon[1], polygon[4], polygon[5]], rng)
        word = rng.choice([text, text, text.upper(), text.strip("!"), misread(text, rng), "x"])
        given += [(*box, word)] * rng.choice([1, 1, 1, 2, 0])
    rng.shuffle(given)
    bare = ", ".join(f"({a}, {b}, {c}, {d}, {word})" for a, b, c, d, word in given)
    reply = rng.choice(
        [
            repr(given), json.dumps([list(item) for item in given], ensure_ascii=False), f"[{bare}]", f"Texts: {bare}",
            f"```json\n{[list(item) for item in given]}\n```", repr(given)[:-9], repr(tuple(given)), "none", "[]",
        ]
    )  # fmt: skip
    return {"answers": [], "bbox": polygons, "content": contents, "predict": reply}


SHORT = (
    "APP agent",
    "ASCII art classification",
    "math QA",
    "reasoning VQA",
    "science QA",
    "text recognition",
    "document classification",
    "cognition VQA",
    "diagram QA",
)
DRAWS: dict[str, Callable[[Material, random.Random, str], Item]] = {
    **{f"{kind} en": short_text for kind in SHORT},
    "cognition VQA cn": short_text,
    "reasoning VQA cn": short_text,
    "formula recognition en": formula,
    "formula recognition cn": formula,
    "text counting en": count,
    "key information extraction en": fields,
    "key information mapping en": fields,
    "key information extraction cn": fields,
    "handwritten answer extraction cn": written_answer,
    "fine-grained text recognition en": long_text,
    "text translation cn": long_text,
    "full-page OCR en": page_text,
    "full-page OCR cn": page_text,
    "table parsing en": table_en,
    "table parsing cn": table_cn,
    "chart parsing en": chart,
    "document parsing en": document,
    "document parsing cn": document,
    "text grounding en": grounding,
    "VQA with position en": position,
    "text spotting en": spotting,
}


# --- the comparison ---------------------------------------------------------------------------------------------------


class Outcome(Struct):
    """How often the makers' script and Snellen score a reply to a type of question alike."""

    kind: str
    cases: int = 0
    equal: int = 0
    nonzero: int = 0
    """Replies with a score other than 0."""
    errors: int = 0
    """Replies for which the makers' script ends with an error."""
    largest: float = 0.0
    example: str = ""
    scores: list[float] = []
    """Snellen's scores of the replies that the script scores."""


def draw(kind: str, material: Material, cases: int) -> Iterator[Item]:
    rng = random.Random(f"{SEED} {kind}")
    for _ in range(cases):
        yield {"question": "What is written?", **DRAWS[kind](material, rng, kind), "type": kind}


def compare(kind: str, makers: MakersScript, items: Iterable[Item]) -> Outcome:
    outcome = Outcome(kind)
    for item in items:
        here = score_here(item)
        there = makers.score(item)
        outcome.cases += 1
        outcome.nonzero += bool(here)
        if there is None:
            outcome.errors += 1
            continue
        outcome.scores.append(here)
        difference = abs(here - there)
        if difference <= TOLERANCE:
            outcome.equal += 1
        elif difference > outcome.largest:
            outcome.largest = difference
            shown = json.dumps([item["predict"], item["answers"]], ensure_ascii=False)
            outcome.example = f"{there:.3g} there, {here:.3g} here: {shown[:300]}"
    return outcome


def means_here(outcomes: Sequence[Outcome]) -> str:
    """Return the mean of the abilities of each language, as `get_score.py` prints it."""
    scores: dict[str, dict[str, list[float]]] = {"English": {}, "Chinese": {}}
    for outcome in outcomes:
        [name] = ability([outcome.kind])
        language = "Chinese" if outcome.kind.endswith("cn") else "English"
        scores[language].setdefault(name, []).extend(outcome.scores)
    means = []
    for language, by_ability in scores.items():
        if by_ability:
            mean = fmean(fmean(of_ability) for of_ability in by_ability.values())
            means.append(f"{language} {mean:.3f}")
    return ", ".join(means)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--only", default="", help="words in the type of question")
    parser.add_argument("--replies", type=Path, help="published replies in the makers' form")
    chosen = parser.parse_args()
    clone = Clone(chosen.clones.absolute(), MAKERS)
    published = json.loads(chosen.replies.read_text("utf-8")) if chosen.replies else []
    material = read_material(clone)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        makers = MakersScript(clone, Path(folder))
        for kind in DRAWS:
            if chosen.only not in kind:
                continue
            items: Iterable[Item] = draw(kind, material, chosen.cases)
            if published:
                items = [item for item in published if item["type"] == kind]
            outcome = compare(kind, makers, items)
            print(kind, outcome.equal, outcome.cases, file=sys.stderr, flush=True)
            found.append(outcome)
        if not chosen.only:
            print(f"Means of the abilities: {makers.means()} there, {means_here(found)} here.\n")
    found.sort(key=lambda outcome: (outcome.equal / max(outcome.cases, 1), outcome.kind))
    print(
        "| type of question | equal | errors there | scores above or below 0 | largest difference |"
    )
    print("|---|---|---|---|---|")
    for outcome in found:
        print(
            f"| {outcome.kind} | {outcome.equal:,} of {outcome.cases:,} | {outcome.errors:,} | {outcome.nonzero:,} | "
            f"{outcome.largest:.3g} |"
        )
    for outcome in found:
        if outcome.example:
            print(f"\n{outcome.kind}: {outcome.example}")


if __name__ == "__main__":
    main()
