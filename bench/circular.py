"""Speed and memory of scoring a file of predictions, as `snellen score FILE --benchmark BENCHMARK` does it.

    python bench/circular.py [--questions 3000] [--rounds 3]

Questions of four options, a row a rotation, replies mostly in the form asked for and a fifth in words of their own.
For each form of file: seconds after start-up, by the clock and of CPU, best of `rounds`, and the memory that the
process needs in all and needed before. Then the calls that CircularEval's early stop saves on models of known
behaviour, whose verdicts are those of all passes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from snellen.api import build, evaluate
from snellen.common.seeds import rng_for
from snellen.formats.text_table import write_text_table

OPTIONS = ("cat", "dog", "horse", "cow")
REPLIES = (
    ("(A)",) * 6
    + ("B", "The answer is (C).", "(D)") * 2
    + ("It is a dog.", "The horse, I think.", "Hm.")
)
ONCE = """
import sys, time
from pathlib import Path
import snellen.cli.verbs.results, snellen.report
from snellen.api import score
from snellen.interchange.predictions.taking import import_run
# Of this process alone: getrusage would count what its parent had.
def memory(): return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024
before, start = memory(), (time.perf_counter(), time.process_time())
results = score(import_run(sys.argv[1], sys.argv[2], sys.argv[4], sys.argv[3]))
print(time.perf_counter() - start[0], time.process_time() - start[1], memory(), before)
"""


def table(count: int) -> list[dict[str, str]]:
    """The rows of `count` questions, each with its rotations to the right."""
    rows = []
    for turn in range(len(OPTIONS)):
        for i in range(count):
            order = [(place - turn) % 4 for place in range(4)]
            rows.append(
                {
                    "index": str(i + turn * 1_000_000),
                    "question": f"Which animal is number {i}?",
                    **{
                        letter: OPTIONS[option]
                        for letter, option in zip("ABCD", order, strict=True)
                    },
                    "answer": "ABCD"[order.index(i % 4)],
                    "image": str(i),
                    "category": f"leaf {i % 20}",
                    "l2-category": f"part {i % 6}",
                    "prediction": rng_for(str(i), turn).choice(REPLIES),
                }
            )
    return rows


def score_once(predictions: Path, answers: str, to: Path) -> list[float]:
    form = "mmbench" if answers.endswith(".tsv") else ""
    command = [sys.executable, "-c", ONCE, str(predictions), answers, str(to), form]
    return [
        float(one)
        for one in subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.split()
    ]


def saved_calls(benchmark: str, folder: Path) -> None:
    """Calls made and avoided, by model; verdicts must be the same."""
    print(f"\n{'model':16} {'calls':>8} {'of all':>8} {'avoided':>8} {'circular accuracy':>18}")
    for model in ("snellen:oracle", "snellen:always-a", "snellen:biased?p=0.5", "snellen:uniform"):
        verdicts, calls = [], []
        for protocol in ("circular", "circular?all_passes=true"):
            results = evaluate(
                model, benchmark, protocol, runs=folder, name=f"{model}-{len(calls)}"
            )
            scores = results.runs[0].benchmarks[0].scores
            verdicts.append(
                [score.value for score in scores if score.metric == "circular_accuracy"]
            )
            calls.append(results.runs[0].distinct_requests)
        assert verdicts[0] == verdicts[1]
        share = sum(value or 0 for value in verdicts[0]) / len(verdicts[0])
        print(
            f"{model:16} {calls[0]:8,} {calls[1]:8,} {1 - calls[0] / calls[1]:8.1%} {share:18.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("--questions", 3_000), ("--rounds", 3)):
        parser.add_argument(name, type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["SNELLEN_HOME"] = place
        rows = table(options.questions)
        columns = [name for name in rows[0] if name not in ("image", "prediction")]
        write_text_table(folder / "answers.tsv", columns, rows)
        questions = [
            {
                "id": row["index"],
                "question": row["question"],
                "options": OPTIONS,
                "answer": row["answer"],
            }
            for row in rows[: options.questions]
        ]
        (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
        built = build(folder / "own.jsonl", to=folder / "own", no_images=True)
        print(f"{options.questions:,} questions of 4 rotations, best of {options.rounds}\n")
        print(
            f"{'predictions':12} {'answers':10} {'seconds':>8} {'CPU s':>8} {'MiB':>6} {'before':>7}"
        )
        for suffix in ("jsonl", "tsv", "json", "xlsx"):
            write_text_table(folder / f"p.{suffix}", [*columns[:6], "prediction"], rows)
            for answers, said in (
                (str(built.folder), "built"),
                (str(folder / "answers.tsv"), "table"),
            ):
                found = [
                    score_once(folder / f"p.{suffix}", answers, folder / f"run-{suffix}-{said}-{i}")
                    for i in range(options.rounds)
                ]
                clock, cpu, memory, before = (min(column) for column in zip(*found, strict=True))
                print(f"{suffix:12} {said:10} {clock:8.2f} {cpu:8.2f} {memory:6.0f} {before:7.0f}")
        saved_calls(str(built.folder), folder)


if __name__ == "__main__":
    main()
