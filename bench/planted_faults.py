"""How many planted faults the checks of questions find, how many good questions they lose, and how often the bound of
an audit holds.

    python bench/planted_faults.py            # 1,000 questions with faults, simulated models; then the coverage
    python bench/planted_faults.py --questions 300 --audits 100

A juror of skill 0.95 says of each option whether it is right, and errs in 1 of 20, each by itself. A blind solver
prefers one option of each question, the same in most rotations; of a question that needs no image it is the answer.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from PIL import Image

import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs, Decisions
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft
from snellen.common.seeds import rng_for
from snellen.records import Request
from snellen.registry import register
from snellen.verification.verify import Solvers, verify
from snellen_lab.verification.audit_outcome import few_bad_probability, most_bad

RATES = {
    "wrong answer": 0.05,
    "two right options": 0.05,
    "leak by length": 0.05,
    "duplicate": 0.03,
    "blind-solvable": 0.05,
}
SYLLABLES = ("ba", "co", "di", "fu", "ga", "lo", "mi", "nu", "pe", "ra", "si", "to")
WORDS = tuple(f"{a}{b}{c}" for a in SYLLABLES for b in SYLLABLES for c in "lmnr")


class Planted(NamedTuple):
    """A question, what is wrong with it, and what is right in truth."""

    draft: Draft
    fault: str
    right: frozenset[str]


def planted(count: int, *, mends: bool) -> list[Planted]:
    """Questions with faults at the rates above; with `mends` their distractors are drawn from a pool."""
    rng = rng_for("planted", count, "faults", 0)
    faults = [fault for fault, rate in RATES.items() for _ in range(round(rate * count))]
    kinds = faults + ["good"] * (count - len(faults))
    rng.shuffle(kinds)
    kinds.sort(key=lambda kind: kind == "duplicate")  # what it repeats comes first
    return [_question(number, kind, rng, mends) for number, kind in enumerate(kinds)]


def _question(number: int, fault: str, rng: random.Random, mends: bool) -> Planted:
    shown = number - 1 - rng.randrange(min(200, number)) if fault == "duplicate" else number
    words = random.Random(shown).sample(WORDS, 2)
    truth, other = words
    key, also = (
        (other if fault == "wrong answer" else truth),
        (other if fault == "two right options" else truth),
    )
    wrong = [word for word in rng.sample(WORDS, 12) if word not in words]
    if fault == "wrong answer":
        wrong = [truth, *wrong] if rng.random() < 0.5 else wrong
    if fault == "two right options":
        wrong = [other, *wrong]
    if fault == "leak by length":
        key = f"{truth}, as anybody can see at a glance"
    text = f"What is the thing at number {shown}?"
    spec = DistractorSpec(tiers=tuple((word,) for word in wrong))
    question = QuestionDraft(text, texts=(key,), distractors=spec)
    if not mends:
        options = rng.sample([key, *wrong[:3]], 4)
        question = QuestionDraft(text, tuple(options), (options.index(key),))
    picture = _noise(shown, "JPEG" if fault == "duplicate" else "PNG")
    draft = Draft(f"q{number:05d}", (question,), (picture,), f"question {number}")
    return Planted(draft, fault, frozenset({key if fault == "leak by length" else truth, also}))


def _noise(seed: int, form: str) -> bytes:
    small = Image.frombytes("RGB", (5, 5), random.Random(seed).randbytes(75))
    out = io.BytesIO()
    small.resize((48, 48), Image.Resampling.BICUBIC).save(out, form)
    return out.getvalue()


def _number(item: Planted) -> int:
    """Which thing the question is about; a duplicate's is that of another question."""
    return int(item.draft.rounds[0].question.rstrip("?").rpartition(" ")[2])


# --- simulated models ------------------------------------------------------------------------------------------------


def _words(request: Request) -> str:
    return "".join(message.text for message in request.messages)


def _shown(request: Request) -> dict[str, str]:
    """By option the label under which it is shown."""
    pairs = re.findall(r"\(([A-Z])\) ([^;.]+)", _words(request))
    return {option: f"({label})" for label, option in pairs}


def juror(items: list[Planted], skill: float, name: str) -> sn.Scripted:
    """Says whether an option is right; what it says of the same option of the same question is always the same."""
    right = {_number(item): item.right for item in reversed(items)}

    def reply(request: Request) -> str:
        words = _words(request)
        number = int(re.search(r"number (\d+)", words)[1])  # type: ignore[index]
        option = re.search(r"proposed answer: (.+)", words)[1]  # type: ignore[index]
        errs = rng_for(name, number, option).random() >= skill
        return _shown(request)["Yes" if (option in right[number]) != errs else "No"]

    return sn.Scripted(reply, name=name, fingerprint=f"{name} {skill}")


def blind_solver(items: list[Planted], name: str) -> sn.Scripted:
    """Names the answer of a question that needs no image in 9 of 10 presentations, else mostly its favourite."""
    solvable = {_number(item): item.draft for item in items if item.fault == "blind-solvable"}

    def reply(request: Request) -> str:
        number = int(re.search(r"number (\d+)", _words(request))[1])  # type: ignore[index]
        options = _shown(request)
        favourite = rng_for(name, number, "favourite").choice(sorted(options))
        if number in solvable:
            question = solvable[number].rounds[0]
            favourite = question.texts[0] if question.texts else question.options[question.gold[0]]
        rng = rng_for(name, request.key)
        return options[favourite if rng.random() < 0.9 else rng.choice(sorted(options))]

    return sn.Scripted(reply, name=name, fingerprint=f"{name} {len(items)}")


# --- what is found ---------------------------------------------------------------------------------------------------


def found(count: int, *, mends: bool, skills: tuple[float, ...], blind: int, votes: str) -> None:
    """Print the share found by kind, and the share of good questions lost."""
    items = planted(count, mends=mends)
    folder = Path(tempfile.mkdtemp())
    os.environ["SNELLEN_HOME"] = str(folder / "home")
    register("readers", "planted", lambda params, source: (item.draft for item in items))
    spec = BenchmarkSpec(
        name="planted", title="planted", formulation="choice", source=SourceSpec("planted")
    )

    def build(decisions: Decisions, to: Path) -> Benchmark:
        return build_benchmark(spec, to=to, inputs=BuildInputs(decisions=decisions))

    solvers = Solvers(
        jury=tuple(juror(items, skill, f"juror-{i}") for i, skill in enumerate(skills)),
        blind=tuple(blind_solver(items, f"blind-{i}") for i in range(blind)),
        votes=votes,  # type: ignore[arg-type]
        runs=str(folder / "runs"),
    )
    benchmark = verify(build, "planted", solvers)
    kept = {sample.id: sample for sample in benchmark.samples()}
    times = Counter(_number(item) for item in items if item.draft.id in kept)
    all_of, caught = Counter(item.fault for item in items), Counter[str]()
    for item in items:
        sample = kept.get(item.draft.id)
        mended = (
            sample is not None
            and item.fault == "two right options"
            and len(item.right & set(sample.options)) < 2
        )
        single = item.fault == "duplicate" and times[_number(item)] == 1
        caught[item.fault] += sample is None or mended or single
    shares = "".join(f"| {100 * caught[fault] / all_of[fault]:.0f} " for fault in (*RATES, "good"))
    who = f"{len(skills)} of {100 * skills[0]:.0f} %, {votes}" if skills else "none"
    print(f"| {'drawn' if mends else 'fixed'} | {who} | {blind or 'none'} {shares}|", flush=True)


def coverage(audits: int) -> Iterator[tuple[int, int, float, float, float, float]]:
    """For each number of questions, of those drawn and true share: how often the bound holds in simulated audits, how
    often in all that there are, and its mean. Without the bad ones that were found it holds in the very same audits."""
    for of, drawn in (
        (200, 50),
        (300, 150),
        (1000, 50),
        (1000, 150),
        (1000, 300),
        (10_000, 150),
        (10_000, 500),
    ):
        for share in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3):
            truly_bad = round(share * of)
            rng = rng_for("coverage", of, drawn, str(share))
            found_bad = [
                sum(place < truly_bad for place in rng.sample(range(of), drawn))
                for _ in range(audits)
            ]
            most = {bad: most_bad(of, drawn, bad) for bad in set(found_bad)}
            holds = sum(truly_bad <= most[bad] for bad in found_bad) / audits
            least = next(bad for bad in range(drawn + 1) if truly_bad <= most_bad(of, drawn, bad))
            exactly = 1 - few_bad_probability(of, truly_bad, drawn, least - 1)
            yield (
                of,
                drawn,
                share,
                holds,
                exactly,
                sum(most[bad] for bad in found_bad) / audits / of,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--audits", type=int, default=1000, help="for each row of the coverage")
    arguments = parser.parse_args()
    count = arguments.questions
    print(
        "| distractors | jury | blind | "
        + " | ".join(f"{fault}, %" for fault in RATES)
        + " | good, % lost |"
    )
    print("|---|---|---|" + "---|" * (len(RATES) + 1))
    found(count, mends=True, skills=(), blind=0, votes="majority")
    for mends, skills, blind, votes in (
        (True, (0.95,), 1, "majority"),
        (True, (0.95,) * 3, 3, "majority"),
        (True, (0.9,) * 3, 3, "majority"),
        (True, (0.9,) * 3, 3, "all"),
        (True, (0.9,) * 5, 5, "majority"),
        (False, (0.95,) * 3, 3, "majority"),
        (False, (0.9,) * 5, 5, "majority"),
    ):
        found(count, mends=mends, skills=skills, blind=blind, votes=votes)
    print("\n| questions | drawn | bad, % | bound holds, % | exactly, % | mean bound, % |")
    print("|---|---|---|---|---|---|")
    rows = list(coverage(arguments.audits))
    for of, drawn, *shares in rows:
        print(
            f"| {of:,} | {drawn} | " + " | ".join(f"{100 * share:.3g}" for share in shares) + " |"
        )
    print(
        f"\nleast {100 * min(row[3] for row in rows):.1f} %, exactly {100 * min(row[4] for row in rows):.2f} %"
    )


if __name__ == "__main__":
    main()
