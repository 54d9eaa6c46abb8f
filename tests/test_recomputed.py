"""Plain rows of two models, recomputed from the journal by code that shares nothing with Snellen's."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import small
import snellen as sn
from snellen.common.seeds import rng_for
from snellen.records import Request

ROUND = 2
PLAIN = ("accuracy", "accuracy_of_parsed", "accuracy_upper", "unparsed_rate", "exact_match")


def model(name: str, share: float) -> sn.Scripted:
    """Right on about this share; every ninth reply names no option."""

    def reply(request: Request) -> str:
        number = int(request.sample_id[1:])
        right = rng_for(request.benchmark, request.sample_id, name, 0).random() < share
        if not request.variant.labels:
            return "cat" if right else "zebra"
        if number % 9 == 4:
            return "Hard to tell."
        return f"({request.variant.labels[request.variant.order.index(0 if right else 1)]})"

    return sn.Scripted(reply, name=name)


def written(folder: Path) -> list[dict[str, Any]]:
    """Benchmarks of two to four options and of open questions, with two tags, 31 to 53 questions each."""
    made = []
    for place in range(12):
        rows = [
            {
                "id": f"q{i:03d}",
                "question": f"Which animal is number {i} of {place}?",
                "answer": "cat",
                "image": small.cell(100 * place + i // ROUND),
                "tag_level": ("easy", "hard")[i % 2],
                "tag_third": str(i % 3),
                **(
                    {"options": ["cat", "dog", "horse", "cow"][: 2 + place % 3]}
                    if place < 8
                    else {}
                ),
            }
            for i in range(31 + 2 * place)
        ]
        formulation = "choice" if place < 8 else "text"
        made.append(
            small.built(rows, folder / f"b{place}", name=f"b{place}", formulation=formulation)
        )
    return [{"name": benchmark.name, "folder": benchmark.folder} for benchmark in made]


def lines(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


def recomputed(run: Path, folders: dict[str, Path]) -> dict[tuple[str, str, str], float]:
    """(benchmark, slice, metric) -> value, from the journal's text and the benchmark's files alone."""
    gold: dict[tuple[str, str], Any] = {}
    tags: dict[tuple[str, str], dict[str, str]] = {}
    for name, folder in folders.items():
        for answer in lines(folder / "answers.jsonl.gz"):
            key = name, answer.get("sample_id") or answer["id"]
            gold[key] = answer
        for sample in lines(folder / "samples.jsonl.gz"):
            tags[name, sample["id"]] = sample.get("tags", {})

    marks: dict[tuple[str, str], list[tuple[bool, bool, bool]]] = defaultdict(list)
    for line in lines(run / "journal-0.jsonl"):
        request, reply = line["request"], line["response"]["text"]
        name, sample, variant = request["benchmark"], request["sample_id"], request["variant"]
        labels, order = variant.get("labels", []), variant.get("order", [])
        if labels:
            letter = re.fullmatch(r"\(([A-Z])\)", reply)
            chosen = order[labels.index(letter[1])] if letter else None
            mark = (chosen in gold[name, sample]["options"], chosen is not None, True)
        else:
            mark = (reply in gold[name, sample]["texts"], True, False)
        marks[name, ""].append(mark)
        for tag, value in tags[name, sample].items():
            marks[name, f"{tag}={value}"].append(mark)

    found: dict[tuple[str, str, str], float] = {}
    for (name, part), of_part in marks.items():
        n = len(of_part)
        right = sum(mark[0] for mark in of_part)
        read = sum(mark[1] for mark in of_part)
        if of_part[0][2]:
            found[name, part, "accuracy"] = right / n
            if part:  # what qualifies a number is given for the whole alone
                continue
            found[name, part, "accuracy_of_parsed"] = right / read
            found[name, part, "accuracy_upper"] = (right + n - read) / n
            found[name, part, "unparsed_rate"] = (n - read) / n
        else:
            found[name, part, "exact_match"] = right / n
    return found


def test_plain_rows_are_what_other_code_finds_in_the_journal(tmp_path: Path) -> None:
    benchmarks = written(tmp_path)
    folders = {each["name"]: each["folder"] for each in benchmarks}
    results = sn.evaluate(
        [model("first", 0.7), model("second", 0.4)],
        [str(folder) for folder in folders.values()],
        "vanilla",
        runs=tmp_path / "runs",
    )
    compared = 0
    for run in results.runs:
        expected = recomputed(run.folder, folders)
        found = {
            (row.benchmark, row.slice, row.metric): row.estimate.value
            for row in results.rows
            if row.model == run.manifest.model and row.benchmark != "*" and row.metric in PLAIN
        }
        assert found == expected
        compared += len(found)
    assert compared == 2 * ((8 + 4) * (1 + 2 + 3) + 8 * 3)
    assert compared >= 186
