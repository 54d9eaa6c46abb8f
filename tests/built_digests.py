"""The version digest of every benchmark that the tests can build, to compare one state of the code with another.

    python tests/built_digests.py --write digests.json      # before a change
    python tests/built_digests.py --compare digests.json    # after it; exits with 1 when one differs

Built are: the embedded psychometric tests and eye chart, easy-VQA, the miniatures of all 61 official layouts of
ReForm-Eval (complete and as sampled), of the published data, of the hub's datasets, VisDial's candidates, the 47
data sets of LVLM-eHub, ARO's four, and a file of MMBench's form. The version digests every question, answer and
image, so a reader that was rewritten is the same when its digest is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import mini_aro
import mini_ehub
import mini_hub
import mmbench_rows
import test_published
import test_reform_suite
import test_visdial_candidates
from snellen.building.benchmark import MANIFEST
from snellen.cli import main


def digests(folder: Path) -> dict[str, str]:
    """By route and name of the benchmark: its version, or the first line of why it cannot be built."""
    return dict(sorted(row for route in ROUTES for row in route(folder)))


def _built(home: Path, *arguments: str) -> Iterator[tuple[str, str]]:
    """Build into a home of its own; the version of each benchmark that is there afterwards."""
    os.environ["SNELLEN_HOME"] = str(home)
    try:
        main(arguments)
    except SystemExit as ended:
        if ended.code:
            raise
    for path in sorted(home.glob(f"benchmarks/**/{MANIFEST}")):
        name = str(path.parent.relative_to(home / "benchmarks"))
        yield f"{home.name}:{name}", json.loads(path.read_bytes())["version"]


def embedded(folder: Path) -> Iterator[tuple[str, str]]:
    names = ["eyechart", "easy-vqa"]
    if find_spec("snellen_lab"):
        names.append("acuity")
    yield from _built(folder / "embedded", "build", *names)


def official(folder: Path) -> Iterator[tuple[str, str]]:
    files = str(test_reform_suite.official(folder / "official-files"))
    common = ("build", "reform-eval", "--source", files, "--distractors", "pool")
    yield from _built(folder / "complete", *common, "--ratio", "1")
    yield from _built(folder / "half", *common, "--ratio", "0.5", "--seed", "3", "--options", "3")


def published(folder: Path) -> Iterator[tuple[str, str]]:
    from snellen.suites.reform_eval.published import published_entries as names

    for name in names():
        test_published.miniature(name, folder / "published-files")
    yield from _built(
        folder / "published", "import", "reform-eval", str(folder / "published-files")
    )


def hub(folder: Path) -> Iterator[tuple[str, str]]:
    for name in mini_hub.DATASETS:
        files = mini_hub.snapshot(name, folder / "hub-files" / name)
        yield from _built(
            folder / "hub",
            "build",
            f"reform-eval/{name}",
            "--hub",
            "--source",
            str(files),
            "--ratio",
            "1",
            "--distractors",
            "pool",
        )


def candidates(folder: Path) -> Iterator[tuple[str, str]]:
    files = folder / "visdial-files"
    files.mkdir()
    test_visdial_candidates.official(files)
    for name in ("visdial/candidates", "visdial/listed"):
        yield from _built(folder / "visdial", "build", name, "--source", str(files))


def ehub(folder: Path) -> Iterator[tuple[str, str]]:
    for name in mini_ehub.MINIATURES:
        mini_ehub.official(name, folder / "ehub-files" / name)
    yield from _built(folder / "ehub", "build", "lvlm-ehub", "--source", str(folder / "ehub-files"))


def aro(folder: Path) -> Iterator[tuple[str, str]]:
    files = mini_aro.official(folder / "aro-files")
    yield from _built(folder / "aro", "build", "aro", "--source", str(files))


def mmbench(folder: Path) -> Iterator[tuple[str, str]]:
    rows = [mmbench_rows.row(number) for number in range(12)]
    rows += [mmbench_rows.rotation(row, turn) for row in rows for turn in (1, 2, 3)]
    file = mmbench_rows.write(rows, folder / "mmbench.tsv")
    yield from _built(folder / "mmbench", "build", "mmbench/dev-en", "--source", str(file))


ROUTES = (embedded, official, published, hub, candidates, ehub, aro, mmbench)

if __name__ == "__main__":
    what, path = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as temporary:
        now = digests(Path(temporary))
    if what == "--write":
        path.write_text(json.dumps(now, indent=1) + "\n")
        sys.exit(print(f"{len(now)} digests written to {path}"))
    before = json.loads(path.read_text())
    different = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    print(
        f"{len(now) - len([n for n in different if n in now])} of {len(before)} digests are the same"
    )
    for name in different:
        print(f"  {name}: {before.get(name, 'not there')} -> {now.get(name, 'not there')}")
    sys.exit(bool(different))
