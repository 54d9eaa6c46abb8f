"""Replies that the reader had neither learnt from nor been looked at with when it was first measured on them.

    python bench/reading_error.py CLONES --fetch --unseen

Cases are those of `published_replies`. Nobody may mend the reader by them: a source that somebody has looked into moves there.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from published_replies import Case, case, index_of
from real_sources import Clone, inline, letters

CSQA = "shizhediao/active-prompt"
"""It holds the questions of CommonsenseQA with their options, which the replies to them lack."""
PREDICATES = ("True", "False")
_LABELLED = r"^\((?P<label>[A-P])\) (?P<text>[^\n]+)$"


def big_bench_hard(clone: Clone) -> Iterator[Case]:
    """The authors compare what is behind "the answer is" with the target."""
    for name in clone.files(r"code-davinci-002-outputs/code-davinci-002-\w+/.+\.json"):
        style = "cot" if "-cot/" in name else "direct"
        task = Path(name).stem.partition("_few_shot")[0]
        for number, entry in enumerate(json.loads(clone.read(name))["outputs"]):
            asked = entry["input"].rpartition("Q: ")[2].rpartition("\nA:")[0]
            split = inline(asked, _LABELLED)
            if split:
                question, options, labels = split
            else:
                listed = re.findall(r"\n- ([^\n]+)", asked)
                question = asked.partition("\nOptions:")[0]
                options, labels = [option.strip() for option in listed], ()
            names = [f"({label})" for label in labels] or list(options)
            if len(names) < 2 or len(set(names)) < len(names):
                continue
            reply = entry["prediction"]
            stated = reply.rpartition("the answer is ")[2].strip().removesuffix(".")
            yield case(
                "BBH",
                f"code-davinci-002, {style}",
                f"{task}#{number}",
                question.removesuffix("\nOptions:").strip(),
                options,
                labels,
                reply,
                index_of(stated, names),
                index_of(entry["target"], names),
            )


def commonsense(clone: Clone) -> Iterator[Case]:
    """The authors say whether a reply is right."""
    questions = {}
    held = Clone(clone.clones, CSQA)
    for line in held.read("dataset/CSQA/dev_rand_split.jsonl").splitlines():
        asked = json.loads(line)["question"]
        questions[asked["stem"]] = [choice["text"] for choice in asked["choices"]]
    for line in clone.read("results/raw_results.jsonl").splitlines():
        entry = json.loads(line)
        options = questions.get(entry["question"])
        if entry["task"] != "commonsenseqa" or options is None:
            continue
        labels = letters(options)
        read = case(
            "CSQA-CoT",
            entry["condition"],
            entry["idx"],
            entry["question"],
            options,
            labels,
            entry["response"],
            "?",
            index_of(entry["gold"], labels),
        )
        yield {**read, "authors_right": entry["correct"]}


def spatial_prompts(clone: Clone) -> Iterator[Case]:
    """The authors compare words, or letters, with the truth."""
    sides = ("Left", "Right", "On top", "Under")
    for number, entry in enumerate(json.loads(clone.read("results/results.json"))):
        truth = index_of(str(entry["ground_truth"]).capitalize(), sides)
        by_letter = entry["prompt_label"] == "Multiple Choice"
        labels = letters(sides) if by_letter else ()
        reply = str(entry["answer"])
        stated = reply.strip().strip(".")
        read = index_of(stated, labels) if by_letter else index_of(stated.capitalize(), sides)
        question = re.split(r"Choose one|Your answer must", entry["prompt"])[0]
        yield case(
            "SpatialPrompts",
            entry["prompt_label"],
            number,
            question.strip(),
            sides,
            labels,
            reply,
            read,
            truth,
        )


def spatial_statements(clone: Clone) -> Iterator[Case]:
    """True or false, of one model after several kinds of training."""
    for name in clone.files(r"results/[^/]*predictions_\d+_\d+\.csv"):
        model = re.sub(r"_?predictions_\d+_\d+", "", Path(name).stem)
        for row in csv.DictReader(io.StringIO(clone.read(name))):
            if "statement" not in row or "raw_output" not in row:
                continue
            question = f"Statement: {row['statement']} Is it true or false?"
            yield case(
                "VSR",
                model,
                row["id"],
                question,
                PREDICATES,
                (),
                row["raw_output"],
                index_of(row["prediction"], PREDICATES),
                index_of(row["ground_truth"], PREDICATES),
            )


UNSEEN: dict[str, Any] = {
    "BBH": ("suzgunmirac/BIG-Bench-Hard", big_bench_hard),
    "CSQA-CoT": (
        "SummerAnn/do_chain_of_thought_prompts_ac_20260306_185953_0a26b5ea",
        commonsense,
    ),
    "SpatialPrompts": (
        "IamAdamm/VLM-Prompt-Sensitivity-on-Spatial-Reasoning-Eval",
        spatial_prompts,
    ),
    "VSR": ("Khagendra01/vlm-spatial-reasoning", spatial_statements),
}
