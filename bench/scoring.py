"""Speed of scoring: the caption metrics against pycocoevalcap, and a run of multiple-choice replies.

    python bench/scoring.py [--images 5000] [--references 5] [--choices 12000] [--rounds 3]

Captions have Zipf's words; one row a step: CPU seconds of the reference implementation, of Snellen, their ratio,
and the largest difference of any caption's score (for tokens: the share of lines that differ). The run of choices is
scored as `snellen score` does it after start-up: journal, benchmark and answers are read, results written. Best of
`rounds` each, so that a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from snellen.api import build, evaluate, score
from snellen.common.seeds import rng_for
from snellen.metrics import captions, ptb
from snellen.metrics.captions import find_jar
from snellen.models.embedded import Scripted

COMMON = "a on the in of with and is man to sitting an two standing at people are next white woman table street".split()


def make_corpus(images: int, references: int) -> tuple[list[str], list[list[str]]]:
    draw, numbers = random.Random(0), np.random.default_rng(0)
    syllables = "ba co di fe gu ha ki lo mi na pe ro su ta vi wo".split()
    made = sorted({"".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(40_000)})
    draw.shuffle(made)
    vocabulary = np.array(COMMON + made[: 9_000 - len(COMMON)])
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    weights /= weights.sum()

    def line(base: list[str]) -> list[str]:
        words = numbers.choice(
            vocabulary, int(np.clip(numbers.normal(10.5, 2.4), 5, 25)), p=weights
        ).tolist()
        # The last word is no single letter: there Java's tokeniser looks at the next caption, docs/evidence/metrics.md.
        return [
            base[i] if i < len(base) and draw.random() < 0.5 else word
            for i, word in enumerate(words)
        ] + ["dog"]

    replies, groups = [], []
    for _ in range(images):
        base = line([])
        groups.append(
            [
                " ".join(line(base)).capitalize() + draw.choice([".", " .", "", "!"])
                for _ in range(references)
            ]
        )
        replies.append(" ".join(line(base)) + ".")
    return replies, groups


def best(rounds: int, step: Callable[[], Any]) -> tuple[float, Any]:
    """Least CPU seconds of several rounds, those of child processes included, and what came of it."""
    seconds, result = [], None
    for _ in range(rounds):
        start = cpu_seconds()
        result = step()
        seconds.append(cpu_seconds() - start)
    return min(seconds), result


def cpu_seconds() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def java_tokens(lines: list[str]) -> list[list[str]]:
    java, program = find_jar("tokenizer/stanford-corenlp-3.4.1.jar", "this comparison")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "captions.txt")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [
            java,
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-cp",
            str(program),
            "edu.stanford.nlp.process.PTBTokenizer",
        ]
        output = subprocess.run(
            [*command, "-preserveLines", "-lowerCase", str(path)], capture_output=True, check=True
        )
    return [line.split() for line in output.stdout.decode().splitlines()]


def cold_tokens(lines: list[str]) -> list[list[str]]:
    ptb._tokens.cache_clear()
    return [ptb.tokenize(line) for line in lines]


REPLIES = (
    ("(A)",) * 6
    + ("B", "The answer is (C).", "(D) cow") * 2
    + ("It is a dog.", "The horse, I think.", "Hm.")
)
"""What a model that mostly keeps the format replies; a fifth in words of its own."""


def score_choices(count: int, rounds: int) -> tuple[float, float]:
    """Seconds to score a run of `count` replies to questions with four options each: by the clock, and of CPU."""
    options = ("cat", "dog", "horse", "cow")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SNELLEN_HOME"] = folder
        rows = (
            {
                "id": f"q{i}",
                "question": f"Which animal is number {i}?",
                "options": options,
                "answer": i % 4,
            }
            for i in range(count)
        )
        Path(folder, "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = build(Path(folder, "table.jsonl"), to=Path(folder, "made"), no_images=True)
        model = Scripted(lambda request: rng_for(request.sample_id).choice(REPLIES))
        evaluate(model, str(made.folder), runs=folder, name="run")
        seconds, cpu = [], []
        for _ in range(rounds):
            start = time.perf_counter(), time.process_time()
            score(Path(folder, "run"))
            seconds.append(time.perf_counter() - start[0])
            cpu.append(time.process_time() - start[1])
        return min(seconds), min(cpu)


def bleu(replies: list[str], groups: list[list[str]]) -> list[tuple[float, ...]]:
    """BLEU of each reply and, last, of the corpus."""
    counts = captions.bleu_counts(replies, groups, tokens="legacy")
    return [
        captions.bleu_from_sums(sums)
        for sums in (*counts, [sum(column) for column in zip(*counts, strict=True)])
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (
        ("--images", 5000),
        ("--references", 5),
        ("--choices", 12_000),
        ("--rounds", 3),
    ):
        parser.add_argument(name, type=int, default=value)
    options = parser.parse_args()
    seconds, cpu = score_choices(options.choices, options.rounds)
    print(
        f"{options.choices:,} multiple-choice replies scored in {seconds:.2f} s ({cpu:.2f} s of CPU)\n"
    )
    replies, groups = make_corpus(options.images, options.references)
    print(
        f"{options.images} images x {options.references} references, CPU seconds, best of {options.rounds}\n"
    )
    print(f"{'step':24} {'reference s':>12} {'snellen s':>10} {'ratio':>7} {'max difference':>15}")

    def row(name: str, theirs: float, ours: float, difference: float | None = None) -> None:
        shown = "" if difference is None else f"{difference:15.1e}"
        print(f"{name:24} {theirs:12.3f} {ours:10.3f} {theirs / ours:6.1f}x {shown}")

    lines = [line for group in groups for line in group] + replies
    if shutil.which("java"):
        theirs, expected = best(options.rounds, lambda: java_tokens(lines))
        ours, found = best(options.rounds, lambda: cold_tokens(lines))
        different = sum(a != b for a, b in zip(expected, found, strict=True))
        row("PTB tokens, by Java", theirs, ours, different / len(lines))

    # Both sides read words that are already tokenised, so that the metric alone is timed.
    replies = [" ".join(ptb.caption_words(line)) for line in replies]
    groups = [[" ".join(ptb.caption_words(line)) for line in group] for group in groups]
    gts, res = dict(enumerate(groups)), {i: [reply] for i, reply in enumerate(replies)}

    theirs, (_, each) = best(options.rounds, lambda: Cider().compute_score(gts, res))
    ours, score = best(options.rounds, lambda: captions.cider(replies, groups, tokens="legacy"))
    row("CIDEr-D", theirs, ours, np.abs(each - score.per_caption).max())
    theirs, (corpus, each) = best(
        options.rounds, lambda: Bleu(4).compute_score(gts, res, verbose=0)
    )
    ours, scores = best(options.rounds, lambda: bleu(replies, groups))
    # Theirs are of each order the scores of the replies; ours of each reply the scores of the orders.
    expected_scores = np.vstack([np.transpose(each), corpus])
    row("BLEU-1 to 4", theirs, ours, np.abs(expected_scores - scores).max())
    theirs, (_, each) = best(options.rounds, lambda: Rouge().compute_score(gts, res))
    ours, score = best(options.rounds, lambda: captions.rouge_l(replies, groups, tokens="legacy"))
    row("ROUGE-L", theirs, ours, np.abs(each - score.per_caption).max())


if __name__ == "__main__":
    main()
