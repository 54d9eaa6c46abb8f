"""Compares the scores of pages of OmniDocBench with the makers' end-to-end evaluation, part by part, worst first.

    python bench/omnidocbench.py CLONES [--cases 1000] [--seed NUMBER]

CLONES has open-compass/VLMEvalKit, which holds the makers' evaluation of version 1.0, and Yuliang-Liu/MultimodalOCR,
each as OWNER+NAME/repo. Pages are real: those of MDPBench's demonstration, whose annotations have the form of
OmniDocBench. Replies are those of Gemini 3 Pro to these pages, and parts of pages with the faults that models make.
Displayed formulas are those of OCRBench, because the demonstration has none.

It needs the extra `documents` and what VLMEvalKit's `OmniDocBench/requirements.txt` names. Their limit of 30 seconds for
a page is lifted.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import itertools
import json
import math
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from ocrbench_v2 import DEMO, MAKERS, cells_of, misread, read_material
from real_sources import Clone
from snellen.suites.modern.omnidocbench.pages import Page, page_of
from snellen.suites.modern.omnidocbench.scoring import page_scores

KIT = "open-compass/VLMEvalKit"
FOLDER = "vlmeval/dataset/OmniDocBench/"
SEED = 20261201
TOLERANCE = 1e-9
LANGUAGE = "language: english"
Annotated = dict[str, Any]
Case = tuple[Annotated, str]


class MakersScript:
    """VLMEvalKit's copy of the makers' evaluation, in a folder of its own."""

    def __init__(self, clone: Clone, folder: Path) -> None:
        package = folder / "kit" / "dataset" / "OmniDocBench"
        package.mkdir(parents=True)
        for name in clone.files(rf"{FOLDER}.*\.py"):
            (package / name.removeprefix(FOLDER)).write_bytes(clone.read_bytes(name))
        self._stand_in("kit", folder / "kit")
        self._stand_in("kit.dataset", folder / "kit" / "dataset")
        self._stand_in("kit.dataset.image_base", ImageBaseDataset=object)
        self._stand_in("vlmeval", folder)
        self._stand_in("vlmeval.smp", dump=None, get_intermediate_file_path=None, load=None)
        self._stand_in("torch", distributed=None)
        self._stand_in("torch.distributed")
        self._stand_in("evaluate")
        self._stand_in(
            "func_timeout",
            FunctionTimedOut=TimeoutError,
            func_timeout=lambda seconds, function, args: function(*args),
        )
        main = importlib.import_module("kit.dataset.OmniDocBench.omnidocbench")
        self._metrics = importlib.import_module("kit.dataset.OmniDocBench.metrics")
        self._evaluator = object.__new__(main.end2end_evaluator)
        self._evaluator.match_method = "quick_match"

    @staticmethod
    def _stand_in(name: str, path: Path | None = None, **content: Any) -> None:
        """Put a module in place of one that is imported and not needed."""
        module = ModuleType(name)
        if path:
            module.__path__ = [str(path)]
        vars(module).update(content)
        sys.modules[name] = module

    def scores(self, page: Annotated, reply: str) -> dict[str, float | None]:
        """Return the scores of a page by part. Raises what the script raises."""
        page["page_info"]["image_path"] = "page.jpg"
        with contextlib.redirect_stdout(io.StringIO()):
            matched = self._evaluator.get_matched_elements([page], [reply])
            found: dict[str, float | None] = {}
            for part, element in (
                ("texts", "text_block"),
                ("formulas", "display_formula"),
                ("tables", "table"),
                ("order", "reading_order"),
            ):
                samples = matched[element]
                if not samples.samples:
                    continue
                self._metrics.call_Edit_dist(samples).evaluate()
                if element == "table":
                    self._metrics.call_TEDS(samples.samples).evaluate()
                means = self._metrics.get_page_split(
                    samples.samples, {"page.jpg": {"language": "english"}}
                )
                found[part] = means.get("Edit_dist", {}).get(LANGUAGE)
                if element == "table":
                    found["teds"] = means["TEDS"][LANGUAGE]
                    found["structure_teds"] = means["TEDS_structure_only"][LANGUAGE]
        return found


def scores_here(page: Annotated, reply: str) -> dict[str, float | None]:
    stored = msgspec.json.encode(page_of(page))
    scores = page_scores(reply, msgspec.json.decode(stored, type=Page))
    return msgspec.structs.asdict(scores)


# --- pages and replies ------------------------------------------------------------------------------------------------


def real_cases(clone: Clone) -> Iterator[Case]:
    """Yield the pages of the demonstration with what Gemini 3 Pro replied."""
    folder = f"{DEMO}Gemini3-pro-preview_demo_result/"
    for page in json.loads(clone.read(f"{DEMO}MDPBench_demo.json")):
        name = page["page_info"]["image_path"].rpartition(".")[0]
        reply = clone.read(f"{folder}{name}.md")
        if reply:
            yield page, reply


def part_of_page(page: Annotated, formulas: list[str], rng: random.Random) -> Annotated:
    """Return some neighbouring blocks of a page, with formulas among them."""
    blocks = sorted(page["layout_dets"], key=lambda block: block.get("order") or 0)
    length = rng.randint(1, 14)
    start = rng.randrange(len(blocks))
    kept = copy.deepcopy(blocks[start : start + length])
    tables = [block for block in blocks if block["category_type"] == "table"]
    if tables and rng.random() < 0.5:
        kept.insert(rng.randrange(len(kept) + 1), copy.deepcopy(rng.choice(tables)))
    for number in range(rng.choice([0, 0, 1, 2, 4])):
        latex = rng.choice(formulas)
        if rng.random() < 0.5:
            latex = f"\\[{latex}\\]" if rng.random() < 0.5 else f"$${latex}$$"
        block = {
            "category_type": "equation_isolated",
            "anno_id": f"formula {number}",
            "latex": latex,
        }
        kept.insert(rng.randrange(len(kept) + 1), block)
    names = {block["anno_id"] for block in kept}
    relations = [
        relation
        for relation in page["extra"]["relation"]
        if {relation["source_anno_id"], relation["target_anno_id"]} <= names
    ]
    parts = {name for relation in relations for name in relation.values()}
    for order, block in enumerate(kept, start=1):
        is_placed = block["anno_id"] in parts or rng.random() < 0.95
        block["order"] = order if is_placed else None
        text = block.get("text")
        if text and rng.random() < 0.15:
            block["text"] = f"{text} where ${rng.choice(formulas)}$ holds"
        elif text and rng.random() < 0.05:
            block["text"] = rng.choice(["", "...", "—"])
    return {"layout_dets": kept, "page_info": {}, "extra": {"relation": relations}}


def reply_with_faults(page: Annotated, rng: random.Random) -> str:
    """Return a page in Markdown as a model may give it."""
    written: list[str] = []
    for block in page["layout_dets"]:
        if block["category_type"] in ("figure", "abandon"):
            written += rng.choice([[], ["![](figure.png)"], ["A figure of birds."]])
        elif block["category_type"] == "table":
            written.append(written_table(block["html"], rng))
        elif block["category_type"] == "equation_isolated":
            latex = block["latex"].strip("$").removeprefix("\\[").removesuffix("\\]")
            forms = [
                "$${}$$",
                "\\[{}\\]",
                "$$\n{}\n$$",
                "${}$",
                "\\({}\\)",
                "\\begin{{align}}{}\\end{{align}}",
            ]
            written.append(rng.choice(forms).format(misread(latex, rng)))
        elif block.get("text"):
            text = misread(block["text"], rng) if rng.random() < 0.5 else block["text"]
            form = rng.choice(
                ["{}", "{}", "{}", "# {}", "**{}**", "- {}", "```text\n{}\n```", "\\section{{{}}}"]
            )
            written.append(form.format(text))
    for _ in range(rng.choice([0, 1, 2, 4])):
        if written:
            change_order(written, rng)
    joint = "\n" if rng.random() < 0.15 else "\n\n"
    reply = joint.join(written)
    form = rng.choice(
        ["{}", "{}", "{}", "```markdown\n{}\n```", "Here is the page:\n\n{}", "{}" + "." * 20]
    )
    return form.replace("{}", reply)


def change_order(written: list[str], rng: random.Random) -> None:
    """Drop, repeat, move, join or split a block."""
    index = rng.randrange(len(written))
    block = written.pop(index)
    change = rng.choice(["drop", "repeat", "move", "join", "split", "split"])
    if change == "repeat":
        written[index:index] = [block, block]
    elif change == "move":
        written.insert(rng.randrange(len(written) + 1), block)
    elif change == "join" and index < len(written):
        written[index] = block + rng.choice([" ", "\n"]) + written[index]
    elif change == "split":
        words = block.split(" ")
        cuts = sorted(rng.randrange(len(words) + 1) for _ in range(rng.choice([1, 2])))
        bounds = [0, *cuts, len(words)]
        written[index:index] = [
            " ".join(words[start:end]) for start, end in itertools.pairwise(bounds)
        ]


def written_table(html: str, rng: random.Random) -> str:
    form = rng.choice(
        ["html", "html", "markdown", "latex", "heads", "broken", "entities", "looks", "none"]
    )
    rows = [[" ".join(cell.split()) for cell in row] for row in cells_of(html)]
    if form == "markdown":
        lines = [f"| {' | '.join(row)} |" for row in rows]
        rule = "|" + " --- |" * len(rows[0])
        return "\n".join([lines[0], rule, *lines[1:]])
    if form == "latex":
        body = " \\\\\n".join(" & ".join(row) for row in rows)
        return f"\\begin{{tabular}}{{ll}}\n{body}\n\\end{{tabular}}"
    if form == "heads":
        first, separator, rest = html.partition("</tr>")
        first = first.replace("<td", "<th").replace("</td>", "</th>")
        return first.replace("<tr", "<thead><tr", 1) + separator + "</thead>" + rest
    if form == "broken":
        tags = ["</td>", "</tr>", "</table>", "<tr>"]
        return html.replace(rng.choice(tags), "", rng.randint(1, 3))
    if form == "entities":
        return html.replace("<td>", "<td>&lt;1 &amp; &alpha; &#945; Q&A <b>", 2).replace(
            "</td>", "<br></td>", 3
        )
    if form == "looks":
        html = html.replace("<td>", '<td style="color: red" class="a  b">', 3)
        return html.replace("<tr>", "<tr>\n   <!-- row -->\n  ", 2).replace(
            "<td", "<td align=left", 1
        )
    if form == "none":
        return "\n".join(" ".join(row) for row in rows)
    return misread(html, rng) if rng.random() < 0.3 else html


def cases(clone: Clone, number: int, seed: int) -> Iterator[Case]:
    rng = random.Random(seed)
    real = list(real_cases(clone))
    yield from real
    formulas = [formula for formula in read_material(clone).formulas if formula]
    for _ in range(number - len(real)):
        page, reply = rng.choice(real)
        part = part_of_page(page, formulas, rng)
        if rng.random() < 0.05:
            start = rng.randrange(len(reply))
            yield part, reply[start : start + 3000]
        else:
            yield part, reply_with_faults(part, rng)


def same(first: float | None, second: float | None) -> bool:
    first = None if first is None or math.isnan(first) else first
    if first is None or second is None:
        return first is second
    return abs(first - second) <= TOLERANCE


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--show", type=int, default=3, help="how many differences to print")
    given = parser.parse_args()

    shown = 0
    compared: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        script = MakersScript(Clone(given.clones, KIT), Path(folder))
        for page, reply in cases(Clone(given.clones, MAKERS), given.cases, given.seed):
            here = scores_here(page, reply)
            try:
                theirs = script.scores(copy.deepcopy(page), reply)
            except Exception as error:  # it may raise anything
                failures[f"{type(error).__name__}: {error}"[:100]] += 1
                continue
            for part, value in here.items():
                is_equal = same(theirs.get(part), value)
                compared[part] += theirs.get(part) is not None or value is not None
                equal[part] += is_equal and value is not None
                if not is_equal and shown < given.show:
                    shown += 1
                    print(part, "theirs", theirs.get(part), "here", value)
                    print(json.dumps([page, reply], ensure_ascii=False)[:4000])
    for part in sorted(compared, key=lambda part: equal[part] / compared[part]):
        print(f"{part}: {equal[part]} of {compared[part]} equal")
    for message, count in failures.most_common():
        print(f"the script raises on {count}: {message}")


if __name__ == "__main__":
    main()
