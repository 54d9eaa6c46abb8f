"""How replies that real models wrote are read.

    python bench/real_replies.py CLONES draw FOLDER             # write what is drawn
    python bench/real_replies.py CLONES [--part unread|third|fourth|fifth] [--list] [--error 0.01]

CLONES holds git clones of public benchmarks whose authors published what models replied, each as OWNER+NAME/repo (bare
will do); nothing of them is kept here but ids and labels (`real_labels.json`: id -> index of the option that the reply
names, null for none, "either" where careful readers may differ). The draw is by seed: as many from each source, in
it from each model, and of its replies a fifth of at most 15 characters, two fifths of up to 200, two fifths longer.
The first draw is for development; of the second (`unread`, with a source of its own) only totals are looked at, and of
the later ones, which have other sources, and more of some than of others, drawn by somebody who knew nothing
of the reader.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

from blind_replies import Outcome, faults, row
from real_sources import LATER_SOURCES, SOURCES, Case, Clone, Sources
from snellen.extraction import find_extractor

LABELS = Path(__file__).parent / "real_labels.json"
EACH = 72
"""Replies drawn from each source in either of the first two draws."""
ONLY_UNREAD = {"EMMA": 150}
"""Sources that the first draw leaves alone -> replies drawn in the second."""
LATER = {
    "visonlyqa": 125, "logicvista": 80, "iqbench": 60, "halp": 70, "aokvqa-dapo": 50, "vqa-rad": 40, "benchlmm": 25
}  # fmt: skip
"""Source -> replies drawn in any of the later draws."""
LATER_SEED = "lab4-1"
PARTS = ("development", "unread", "third", "fourth", "fifth")
BANDS = {"short": 15, "middle": 200, "long": 1_000_000}
"""The most characters that replies of a band have."""
SHARES = ("short", "middle", "long", "middle", "long")


# --- the draw ---------------------------------------------------------------------------------------------------------


def band(reply: str) -> str:
    return next(name for name, most in BANDS.items() if len(reply.strip()) <= most)


def rank(seed: str, name: str) -> str:
    return hashlib.sha256(f"{seed}:{name}".encode()).hexdigest()


def pools(clones: Path, sources: Sources, sign: str, seed: str) -> dict[str, list[Case]]:
    """Of each source all replies that are not empty, by rank; `sign` stands between the parts of an id."""
    gathered = {}
    for source, (repository, read) in sources.items():
        by_id: dict[str, Case] = {}
        for item in read(Clone(clones, repository)):
            item |= {"id": sign.join((source, item["model"], str(item["row"]))), "source": source}
            if item["reply"].strip() and len(set(item["options"])) == len(item["options"]) > 1:
                by_id.setdefault(item["id"], item)
        if not by_id:
            raise SystemExit(
                f"{source}: {repository} in {clones} lacks the files with replies; clone it whole"
            )
        gathered[source] = sorted(by_id.values(), key=lambda item: rank(seed, item["id"]))
    return gathered


def by_turns(
    pool: Sequence[Case],
    models: Sequence[str],
    count: int,
    fits: Callable[[Case, Sequence[Case]], bool],
) -> list[Case]:
    """So many replies of a source, in turns of models and bands; `fits` says whether one may follow those chosen."""
    waiting: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for item in reversed(pool):
        waiting[item["model"], band(item["reply"])].append(item)
    chosen: list[Case] = []
    turns = ((model, length) for length in cycle(SHARES) for model in models)
    for model, length in turns:
        queue = waiting[model, length]
        while queue and not fits(queue[-1], chosen):
            queue.pop()
        if queue:
            chosen.append(queue.pop())
        if len(chosen) == count or not any(waiting.values()):
            return chosen
    raise AssertionError("turns never end")


def repeats(item: Case, others: Sequence[Case]) -> bool:
    """Whether one of the others says the same, in more than a label."""
    return len(item["reply"]) > BANDS["short"] and any(
        item["reply"] == other["reply"] for other in others
    )


def both_draws(source: str, pool: Sequence[Case]) -> Iterator[Case]:
    """The cases of a source, each with its part. What the first draw showed does not come again in the second."""

    def drawn(some: Sequence[Case], count: int) -> list[Case]:
        models = sorted({item["model"] for item in some})
        return by_turns(some, models, count, lambda item, chosen: not repeats(item, chosen))

    first = [] if source in ONLY_UNREAD else drawn(pool, EACH)
    ids = {item["id"] for item in first}
    others = [item for item in pool if item["id"] not in ids and not repeats(item, first)]
    second = drawn(others, ONLY_UNREAD.get(source, EACH))
    for part, items in (("development", first), ("unread", second)):
        yield from ({**item, "part": part} for item in items)


def later_fits(item: Case, chosen: Sequence[Case]) -> bool:
    """At most two replies to a question of a source, a quarter of them short, none of words without end."""
    text = item["reply"].encode()
    shorts = sum(band(other["reply"]) == "short" for other in chosen)
    return (
        len(text) <= 6 * len(zlib.compress(text))
        and sum(item["question"] == other["question"] for other in chosen) < 2
        and (band(item["reply"]) != "short" or 4 * shorts < LATER[item["source"]])
        and not repeats(item, chosen)
    )


def later_draws(gathered: dict[str, list[Case]]) -> Iterator[Case]:
    """The cases of the third draw and of the next two, each drawn alike of what is left, by rank."""
    before: dict[str, list[Case]] = {source: [] for source in gathered}
    for part in ("third", "fourth", "fifth"):
        drawn: list[Case] = []
        for source, pool in gathered.items():
            ids = {item["id"] for item in before[source]}
            others = [
                item for item in pool if item["id"] not in ids and not repeats(item, before[source])
            ]
            models = sorted(
                {item["model"] for item in pool},
                key=lambda model: rank(LATER_SEED, f"{source}/{model}"),
            )
            items = by_turns(others, models, LATER[source], later_fits)
            before[source] += items
            drawn += ({**item, "part": part} for item in items)
        yield from sorted(drawn, key=lambda item: rank(LATER_SEED, item["id"]))


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
                item["reply"],
                item["options"],
                item["labels"],
                finish=item["finish"],
                question=item["question"],
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("draw", nargs="*", help="`draw FOLDER` writes the replies as JSON lines")
    parser.add_argument("--part", choices=PARTS, default="development")
    parser.add_argument("--error", type=float, default=0.5)
    parser.add_argument("--list", action="store_true", help="print what was not read right")
    given = parser.parse_args()
    gathered: dict[str, list[Case]] = {}
    cases: list[Case] = []
    if given.draw or given.part in PARTS[:2]:
        gathered = pools(given.clones, SOURCES, ":", "real replies")
        cases += (item for source, pool in gathered.items() for item in both_draws(source, pool))
    if given.draw or given.part in PARTS[2:]:
        others = pools(given.clones, LATER_SOURCES, "/", LATER_SEED)
        cases += later_draws(others)
        gathered |= others
    if given.draw:
        labels = json.loads(LABELS.read_text("utf-8"))
        for part in PARTS:
            some = (
                labelled(item, labels.get(item["id"], "either"))
                for item in cases
                if item["part"] == part
            )
            text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in some)
            (Path(given.draw[1]) / f"{part}.jsonl").write_text(text, "utf-8")
        for source, pool in gathered.items():
            counted = Counter(band(item["reply"]) for item in pool)
            print(
                f"{source:<16}{len(pool):>8,} replies, {len({c['model'] for c in pool})} models",
                dict(counted),
            )
        return
    read = outcomes([item for item in cases if item["part"] == given.part], given.error)
    print("\n".join(table(read, by_model=given.part == "development")))
    if given.list and given.part == "development":
        print("\n".join(faults(read)))


if __name__ == "__main__":
    main()
