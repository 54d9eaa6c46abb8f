"""How replies that real models wrote are read.

    python bench/real_replies.py CLONES draw FOLDER             # write what is drawn
    python bench/real_replies.py CLONES [--part unread] [--list] [--error 0.01]

CLONES holds git clones of public benchmarks whose authors published what models replied, each as OWNER+NAME/repo (bare
will do); nothing of them is kept here but ids and labels (`real_labels.json`: id -> index of the option that the reply
names, null for none, "either" where careful readers may differ). The draw is by seed: as many from each source, in
it from each model, and of its replies a fifth of at most 15 characters, two fifths of up to 200, two fifths longer.
Two draws: the first is for development; of the second (`unread`, with a source of its own) only totals are looked at.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any

from blind_replies import Outcome, faults, row
from snellen.extraction import find_extractor

LABELS = Path(__file__).parent / "real_labels.json"
EACH = 72
"""Replies drawn from each source in either draw."""
ONLY_UNREAD = {"EMMA": 150}
"""Sources that the first draw leaves alone -> replies drawn in the second."""
BANDS = {"short": 15, "middle": 200, "long": 1_000_000}
"""The most characters that replies of a band have."""
SHARES = ("short", "middle", "long", "middle", "long")
Case = dict[str, Any]


# --- sources ----------------------------------------------------------------------------------------------------------


class Clone:
    """The files of a repository at the commit that its clone is at."""

    def __init__(self, clones: Path, name: str) -> None:
        self.command = ["git", "-C", str(clones / name.replace("/", "+") / "repo"), "-c", "core.quotepath=off"]

    def files(self, pattern: str) -> list[str]:
        names = self._git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
        return [name for name in names if re.fullmatch(pattern, name)]

    def read(self, name: str) -> str:
        """The text of a file; empty where the clone lacks it, as it may lack large ones."""
        shown = subprocess.run([*self.command, "show", f"HEAD:{name}"], capture_output=True, check=False)
        return shown.stdout.decode("utf-8") if shown.returncode == 0 else ""

    def _git(self, *arguments: str) -> str:
        return subprocess.run([*self.command, *arguments], capture_output=True, text=True, check=True).stdout


def case(model: str, row_id: str, question: str, options: Sequence[str], labels: Sequence[str], reply: Any) -> Case:
    return {
        "model": model, "row": row_id, "question": question, "options": [str(option) for option in options],
        "labels": list(labels), "reply": str(reply or ""), "finish": "stop", "lang": "en", "kind": "choice",
    }  # fmt: skip


def letters(options: Sequence[Any]) -> list[str]:
    return list("ABCDEFGHIJKLMNOP"[: len(options)])


def yes_no(model: str, row_id: str, question: str, reply: Any) -> Case:
    return {**case(model, row_id, question, ("Yes", "No"), (), reply), "kind": "yes-no"}


def lines(text: str) -> Iterator[Any]:
    return (json.loads(line) for line in text.splitlines() if line.strip())


def mathvista(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"results/(?!random|test_random|leader)\w+/output_(?!.*code).*\.json"):
        for number, entry in json.loads(clone.read(name) or "{}").items():
            if entry["question_type"] == "multi_choice":
                asked = entry["query"].rpartition("Question: ")[2].partition("\nChoices")[0]
                model = name.split("/")[1]
                row_id = f"{Path(name).stem}:{number}"
                yield case(model, row_id, asked, entry["choices"], letters(entry["choices"]), entry["response"])


def math_vision(clone: Clone) -> Iterator[Case]:
    questions = {entry["id"]: entry for entry in lines(clone.read("data/test.jsonl"))}
    for name in clone.files(r"outputs/.+\.jsonl"):
        model = Path(name).stem
        for entry in lines(clone.read(name)) if model != "Random-Chance" else ():
            asked = questions[entry["id"]]
            if asked["options"]:
                options = asked["options"]
                yield case(model, entry["id"], asked["question"], options, letters(options), entry["response"])


def mmmu(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"mmmu/example_outputs/(llava1.5_13b|qwen_vl)/[A-Z]\w+/output\.json"):
        for entry in json.loads(clone.read(name)):
            if entry["question_type"] == "multiple-choice":
                options = entry["index2ans"].values()
                yield case(name.split("/")[2], entry["id"], "", list(options), entry["all_choices"], entry["response"])


def mmmu_pro(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"mmmu-pro/output/.*\.jsonl"):
        model = Path(name).stem
        for entry in lines(clone.read(name)):
            options = ast.literal_eval(entry["options"])
            yield case(model, entry["id"], entry["question"], options, letters(options), entry["response"])


def hallusion(clone: Clone) -> Iterator[Case]:
    for number, entry in enumerate(json.loads(clone.read("HallusionBench_result_sample.json"))):
        yield yes_no("GPT-4V", str(number), entry["question"], entry["model_prediction"])


BLINK = {
    "Art Style": ("Which image has the style of the reference image?", ("the second image", "the third image")),
    "Visual Similarity": ("Which image is most like the reference image?", ("the second image", "the third image")),
    "Jigsaw": ("Which image is the missing part of the first image?", ("the second image", "the third image")),
    "Multi-view Reasoning": ("Does the camera move left or right?", ("left", "right")),
    "Relative Depth": ("Which point is closer to the camera?", ("A is closer", "B is closer")),
    "Relative Reflectance": ("Which point is darker?", ("A is darker", "B is darker", "About the same")),
    "Visual Correspondence": ("Which point corresponds?", ("Point A", "Point B", "Point C", "Point D")),
    "Functional Correspondence": ("Which point corresponds?", ("Point A", "Point B", "Point C", "Point D")),
    "Semantic Correspondence": ("Which point corresponds?", ("Point A", "Point B", "Point C", "Point D")),
    "Forensic Detection": (
        "Which image is a photograph?",
        ("the first image", "the second image", "the third image", "the fourth image"),
    ),
    "Spatial Relation": ("Is the relation as stated?", ("yes", "no")),
}
"""Tasks with the same options in each question; the files have none. The questions are ours, in few words."""


def blink(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"eval/saved_outputs/[^/]+/[^._][^/]*\.json"):
        task = Path(name).stem.replace("_", " ").removesuffix(" concat")
        if task not in BLINK:
            continue
        question, options = BLINK[task]
        for entry in chain.from_iterable(json.loads(clone.read(name)).values()):
            model = name.split("/")[2].partition("*")[0]
            yield case(model, entry["idx"], question, options, letters(options), entry["full_prediction"])


LINE = re.compile(r"^(?:(?:Option|Sentence|Caption|Description|Statement|Choice)\s+)?([A-D1-4])[.:)]\s*(.+)$", re.M)


def tempcompass(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"predictions/[^/]+/(multi-choice|yes_no|caption_matching)\.json"):
        model, task = name.split("/")[1], Path(name).stem
        for video, aspects in json.loads(clone.read(name) or "{}").items():
            for aspect, entries in aspects.items():
                for number, entry in enumerate(entries):
                    row_id = f"{task}:{video}:{aspect}:{number}"
                    if task == "yes_no":
                        yield yes_no(model, row_id, entry["question"], entry["prediction"])
                    elif len(listed := LINE.findall(entry["question"])) > 1:
                        shown, options = zip(*listed, strict=True)
                        asked = entry["question"].split("\n")[0]
                        yield case(model, row_id, asked, options, shown, entry["prediction"])


def m3cot(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"experiment/zero-shot/[^/]+/\w+\.jsonl"):
        model = name.split("/")[2]
        for entry in lines(clone.read(name)):
            asked, _, listed = entry["messages"][0].partition("[Choices]")
            options = re.findall(r"^\(([A-J])\) (.*)$", listed, re.M)
            if options and len(entry["messages"]) % 2 == 0:
                shown, texts = zip(*options, strict=True)
                row_id = f"{Path(name).stem}:{entry['id']}"
                asked = asked.removeprefix("[Question]").strip()
                yield case(model, row_id, asked, texts, shown, entry["messages"][-1])


def event_hallusion(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"predictions/\w+\.json"):
        model = Path(name).stem.removesuffix("_predictions")
        for entry in chain.from_iterable(part.values() for part in json.loads(clone.read(name)).values()):
            for number, pair in enumerate(entry.get("qa", ())):
                yield yes_no(model, f"{entry['id']}:{number}", pair["question"], pair["prediction"])


def emma(clone: Clone) -> Iterator[Case]:
    for name in clone.files(r"results/EMMA-mini/[^/]+/.*_(CoT|Direct)\.json"):
        for entry in json.loads(clone.read(name) or "{}").values():
            if entry["type"] == "Multiple Choice":
                written = entry["options"]
                options = ast.literal_eval(written) if isinstance(written, str) else written
                yield case(
                    Path(name).stem, entry["pid"], entry["question"], options, letters(options), entry["response"]
                )


SOURCES: dict[str, tuple[str, Callable[[Clone], Iterator[Case]]]] = {
    "MathVista": ("lupantech/MathVista", mathvista),
    "MATH-Vision": ("mathllm/MATH-V", math_vision),
    "MMMU": ("MMMU-Benchmark/MMMU", mmmu),
    "MMMU-Pro": ("MMMU-Benchmark/MMMU", mmmu_pro),
    "HallusionBench": ("tianyi-lab/HallusionBench", hallusion),
    "BLINK": ("zeyofu/BLINK_Benchmark", blink),
    "TempCompass": ("llyx97/TempCompass", tempcompass),
    "M3CoT": ("LightChen233/M3CoT", m3cot),
    "EventHallusion": ("Stevetich/EventHallusion", event_hallusion),
    "EMMA": ("EMMA-Bench/EMMA", emma),
}
"""Name -> repository, and what makes cases of its files."""


# --- the draw ---------------------------------------------------------------------------------------------------------


def band(reply: str) -> str:
    return next(name for name, most in BANDS.items() if len(reply.strip()) <= most)


def rank(item: Case) -> str:
    return hashlib.sha256(f"real replies:{item['id']}".encode()).hexdigest()


def pools(clones: Path) -> dict[str, list[Case]]:
    """Of each source all replies that are not empty, by id."""
    gathered = {}
    for source, (repository, read) in SOURCES.items():
        by_id = {}
        for item in read(Clone(clones, repository)):
            item["id"] = f"{source}:{item['model']}:{item['row']}"
            if item["reply"].strip() and len(set(item["options"])) == len(item["options"]) > 1:
                by_id.setdefault(item["id"], item)
        gathered[source] = list(by_id.values())
    return gathered


def drawn(pool: Sequence[Case], count: int) -> list[Case]:
    """So many replies of a source, in turns of models and bands; no reply twice where it is longer than a label."""
    waiting: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for item in sorted(pool, key=rank, reverse=True):
        waiting[item["model"], band(item["reply"])].append(item)
    models = sorted({model for model, _ in waiting})
    chosen: list[Case] = []
    seen: set[str] = set()
    turns = ((model, length) for length in cycle(SHARES) for model in models)
    for model, length in turns:
        queue = waiting[model, length]
        while queue and len(queue[-1]["reply"]) > 15 and queue[-1]["reply"] in seen:
            queue.pop()
        if queue:
            chosen.append(queue.pop())
            seen.add(chosen[-1]["reply"])
        if len(chosen) == count or not any(waiting.values()):
            return chosen
    raise AssertionError("turns never end")


def both_draws(source: str, pool: Sequence[Case]) -> Iterator[Case]:
    """The cases of a source, each with its part. What the first draw showed does not come again in the second."""
    first = [] if source in ONLY_UNREAD else drawn(pool, EACH)
    ids = {item["id"] for item in first}
    texts = {item["reply"] for item in first if len(item["reply"]) > 15}
    others = [item for item in pool if item["id"] not in ids and item["reply"] not in texts]
    second = drawn(others, ONLY_UNREAD.get(source, EACH))
    for part, items in (("development", first), ("unread", second)):
        yield from ({**item, "source": source, "part": part} for item in items)


# --- figures ----------------------------------------------------------------------------------------------------------


def labelled(item: Case, label: int | str | None) -> Case:
    """A reply in the form of `blind_replies.py` and `reading_of_others.py`."""
    return {**item, "gold": None if label == "either" else label, "ambiguous": label == "either"}


def outcomes(cases: Sequence[Case], error: float) -> list[Outcome]:
    """Labelled replies with their readings; those that may be read either way are left out."""
    labels = json.loads(LABELS.read_text("utf-8"))
    reader = find_extractor(f"standard?error={error}")
    read = []
    for item in (labelled(item, labels[item["id"]]) for item in cases):
        if not item["ambiguous"]:
            reading = reader.read(
                item["reply"], item["options"], item["labels"], finish=item["finish"], question=item["question"]
            )
            read.append((item, reading, 0.0))
    return read


def table(read: Sequence[Outcome], *, by_model: bool) -> Iterator[str]:
    yield f"{'':<24}{'n':>6}{'right':>14}{'silently wrong':>14}{'open':>14}"
    yield row("all", read)
    yield row("certain", [o for o in read if o[1].confidence == "certain"])
    yield row("names an option", [o for o in read if o[0]["gold"] is not None])
    yield row("names none", [o for o in read if o[0]["gold"] is None])
    for field in ("kind", "source", "model")[: 3 if by_model else 2]:
        for value in sorted({o[0][field] for o in read}):
            yield row(str(value)[:23], [o for o in read if o[0][field] == value])
    for name in BANDS:
        yield row(name, [o for o in read if band(o[0]["reply"]) == name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("draw", nargs="*", help="`draw FOLDER` writes the replies as JSON lines")
    parser.add_argument("--part", choices=["development", "unread"], default="development")
    parser.add_argument("--error", type=float, default=0.03)
    parser.add_argument("--list", action="store_true", help="print what was not read right")
    given = parser.parse_args()
    gathered = pools(given.clones)
    cases = [item for source, pool in gathered.items() for item in both_draws(source, pool)]
    if given.draw:
        labels = json.loads(LABELS.read_text("utf-8"))
        for part in ("development", "unread"):
            some = (labelled(item, labels.get(item["id"], "either")) for item in cases if item["part"] == part)
            text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in some)
            (Path(given.draw[1]) / f"{part}.jsonl").write_text(text, "utf-8")
        for source, pool in gathered.items():
            counted = Counter(band(item["reply"]) for item in pool)
            print(f"{source:<16}{len(pool):>8,} replies, {len({c['model'] for c in pool})} models", dict(counted))
        return
    read = outcomes([item for item in cases if item["part"] == given.part], given.error)
    print("\n".join(table(read, by_model=given.part == "development")))
    if given.list and given.part == "development":
        print("\n".join(faults(read)))


if __name__ == "__main__":
    main()
