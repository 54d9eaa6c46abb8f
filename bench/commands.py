"""What each command costs, beside an earlier revision of Snellen: CPU and memory as ratios, in one interleaved run.

    python bench/commands.py                 # every command, seven turns
    python bench/commands.py --short         # the gate of CI: three turns (nine more above the limit), ends with 1
    python bench/commands.py --only run,list --turns 5 --against REVISION

Each turn runs every command once with the sources of either revision, so that whatever else the machine does falls on
both. A command is a process of its own, measured whole by the operating system (`wait4`): CPU is user and system time,
children included. Printed is the least CPU of either over the turns, to which whatever else runs can only add, the
ratio, and the median peaks of memory.
The revision stands in `bench/pinned-revision`; it moves with a release, and never to make a slower command pass.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIMIT = 1.1
SLACK = 0.03
"""Seconds of CPU within which times of a few hundredths differ by chance."""
PICTURES = {True: 500, False: 2_000}
CLI = ("-m", "snellen")
_EVALUATE = """
import snellen as sn
results = sn.evaluate("snellen:always-a", "bench", protocols=["vanilla"], runs="runs", name="evaluated-{turn}")
assert results
"""
COMMANDS: dict[str, tuple[str, ...]] = {
    "help": (*CLI, "--help"),
    "run --help": (*CLI, "run", "--help"),
    "list": (*CLI, "list"),
    "build": (
        *CLI,
        "build",
        "{place}/source/rows.jsonl",
        "--name",
        "built-{turn}",
        "--to",
        "built-{turn}",
    ),
    "run": (
        *CLI,
        "run",
        "snellen:always-a",
        "bench",
        "--protocol",
        "vanilla",
        "--name",
        "run-{turn}",
    ),
    "rerun": (
        *CLI,
        "run",
        "snellen:always-a",
        "bench",
        "--protocol",
        "vanilla",
        "--name",
        "run-{turn}",
    ),
    "evaluate": ("-c", _EVALUATE),
    "score": (*CLI, "score", "runs/run-{turn}"),
    "report": (*CLI, "report", "runs/run-{turn}"),
}
"""In an order in which each finds what it needs."""
SHORT = ("run --help", "list", "build", "run", "rerun", "evaluate", "score", "report")


class Usage(NamedTuple):
    cpu: float
    """Seconds, user and system."""
    memory: float
    """Peak resident MB."""


def unpack_revision(revision: str, folder: Path) -> Path:
    """The sources of a revision, taken from this repository's history."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, "src"], stdout=subprocess.PIPE, check=False
    )
    if archive.returncode:
        sys.exit(
            f"bench/commands.py: no revision {revision} here; a shallow clone needs `git fetch --unshallow`"
        )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def write_table(folder: Path, pictures: int) -> None:
    """A table of choices over JPEG images of noise, 336 x 336, about 30 KB each."""
    from PIL import Image

    rng = random.Random(0)
    folder.mkdir(parents=True)
    rows = []
    for number in range(pictures):
        noise = Image.frombytes("RGB", (84, 84), rng.randbytes(84 * 84 * 3))
        noise.resize((336, 336)).save(folder / f"{number}.jpg", quality=92)
        options = [f"option {rng.randrange(10**6)} {place}" for place in range(4)]
        row = {
            "id": f"q{number}",
            "question": f"What is in picture {number}?",
            "image": f"{number}.jpg",
        }
        rows.append(json.dumps({**row, "options": options, "answer": "ABCD"[rng.randrange(4)]}))
    (folder / "rows.jsonl").write_text("\n".join(rows))


def run_command(words: Sequence[str], sources: Path, home: Path) -> Usage:
    """Run one command in a home of its own, and what it used."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(sources),
        "SNELLEN_HOME": str(home),
        "OMP_NUM_THREADS": "1",
        # As where packages were installed in the usual way: modules are compiled once, in the turn that is not counted.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(home / "compiled"),
    }
    log = home / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=home, env=environment, stdout=output, stderr=output
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(
            f"{' '.join(words)} ended with {process.returncode} under {sources}:\n{log.read_text()}"
        )
    return Usage(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def prepare(home: Path, sources: Path, table: Path) -> None:
    """A home with the benchmark that the commands use; modules are compiled on the way."""
    home.mkdir()
    run_command((*CLI, "build", str(table / "rows.jsonl"), "--name", "bench"), sources, home)


def measure(
    names: Sequence[str], turns: int, short: bool, against: str
) -> dict[str, list[tuple[Usage, Usage]]]:
    """Usage of now and of the earlier revision, turn by turn; the turn before the first is not counted.

    The short form runs both at once, each on a core, which takes half the time and slows both alike.
    """
    usages: dict[str, list[tuple[Usage, Usage]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as cores:
        each = cores.map if short else map
        place = Path(scratch)
        write_table(place / "source", PICTURES[short])
        homes = (place / "now", place / "then")
        sources = (ROOT / "src", unpack_revision(against, place / "earlier"))
        list(each(partial(prepare, table=place / "source"), homes, sources))
        for turn in range(turns + 1):
            for name in names:
                words = [word.format(turn=turn, place=place) for word in COMMANDS[name]]
                now, then = each(partial(run_command, words), sources, homes)
                if turn:
                    usages[name].append((now, then))
    return usages


def _with_needed(names: Sequence[str]) -> list[str]:
    """Commands with the run that some of them need."""
    needs_run = not {"rerun", "score", "report"}.isdisjoint(names)
    return [name for name in COMMANDS if name in names or (name == "run" and needs_run)]


def show(usages: dict[str, list[tuple[Usage, Usage]]], against: str) -> list[str]:
    """Print the table; the names of commands above the limit."""
    print(
        f"{'command':<12}{'CPU s':>8}{against[:7]:>10}{'ratio':>8}{'MB':>8}{against[:7]:>10}{'ratio':>8}"
    )
    above = []
    for name, turns in usages.items():
        cpu = [min(pair[side].cpu for pair in turns) for side in (0, 1)]
        memory = [statistics.median(pair[side].memory for pair in turns) for side in (0, 1)]
        ratios = (cpu[0] / cpu[1], memory[0] / memory[1])
        print(
            f"{name:<12}{cpu[0]:>8.2f}{cpu[1]:>10.2f}{ratios[0]:>8.2f}{memory[0]:>8.0f}{memory[1]:>10.0f}{ratios[1]:>8.2f}"
        )
        above += (
            [name] if (ratios[0] > LIMIT and cpu[0] - cpu[1] > SLACK) or ratios[1] > LIMIT else []
        )
    return above


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", help="commands, separated by commas")
    parser.add_argument("--turns", type=int)
    parser.add_argument(
        "--against", default=(ROOT / "bench" / "pinned-revision").read_text().strip()
    )
    options = parser.parse_args()
    names = options.only.split(",") if options.only else SHORT if options.short else tuple(COMMANDS)
    turns = options.turns or (3 if options.short else 7)
    usages = measure(names, turns, options.short, options.against)
    if above := show(usages, options.against):
        # Others use the machine too: what is slower stays slower in more turns.
        again = measure(_with_needed(above), 3 * turns, options.short, options.against)
        above = show({name: usages[name] + again[name] for name in above}, options.against)
    if above:
        sys.exit(f"above {LIMIT} times {options.against[:7]}: {', '.join(above)}")


if __name__ == "__main__":
    main()
