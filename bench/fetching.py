"""What fetching does when something on the way breaks, over many seeds: the right bytes, or one line.

    python bench/fetching.py    # 40 seeds a row, some three minutes

A file of 2 MB and a dataset of five files are fetched from servers on loopback that have a fault; where that ends in
an error the fault is taken away and the same is asked again. Counted is how often the right bytes were there at once,
how often after one line and the same command, how often neither, and the bytes that were sent beyond those that
a client without faults is sent and those that a cut or a wrong content made worthless.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))


from place_servers import Blob, Faults, FileServer, HubServer, PlaceServer, Repo, What, drawn  # noqa: E402
from snellen.errors import DataError  # noqa: E402
from snellen.fetching import download  # noqa: E402
from snellen.fetching.download import Content, fetch_file  # noqa: E402
from snellen.fetching.hub import fetch_dataset  # noqa: E402

BIG = random.Random(0).randbytes(2_000_000)
KNOWN = Content(len(BIG), hashlib.sha256(BIG).hexdigest())
FILES = {f"data/{n}.parquet": random.Random(n).randbytes(100_000 + n) for n in range(4)} | {
    "README.md": b"Data.\n" * 9
}
NAME = "owner/name"
DATA = re.compile(r"/a\.bin$|/resolve-cache/|^/repos/")
"""Where bytes of files are asked for: all else is listings and redirects."""
FETCH = """
import sys
from pathlib import Path
from snellen.fetching.download import Content, fetch_file
fetch_file([sys.argv[1]], Path(sys.argv[2]), Content(int(sys.argv[3]), sys.argv[4]))
"""
TITLES: dict[What, str] = {
    "cut": "connection closed within the file",
    "slow": "bytes that dribble",
    "flipped": "a byte that differs, right length",
    "short": "half a file with the right headers",
    "vanish": "gone",
    "storm": "429",
    "html": "a proxy's page in place of the data",
    "error": "500, 502, 503",
    "reset": "connection reset",
}


class Outcome(NamedTuple):
    at_once: bool
    is_right: bool
    twice: int


class Row(NamedTuple):
    place: str
    fault: str
    outcomes: list[Outcome]


def point_at(hub: HubServer, cache: Path) -> None:
    from huggingface_hub import constants

    constants.HF_HUB_CACHE, constants.ENDPOINT = str(cache), hub.url
    constants.HUGGINGFACE_CO_URL_TEMPLATE = (
        f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    )


def one_file(faults: tuple[Faults, ...], folder: Path) -> Outcome:
    with FileServer({"a.bin": BIG}, faults=faults) as server:
        target = folder / "a.bin"
        return tried(
            server,
            lambda: fetch_file([f"{server.url}/a.bin"], target, KNOWN),
            lambda: target.read_bytes() == BIG,
            len(BIG),
        )


def dataset(faults: tuple[Faults, ...], folder: Path) -> Outcome:
    with HubServer({NAME: Repo(FILES)}, faults=faults) as hub:
        point_at(hub, folder)
        found: list[Path] = []

        def is_right() -> bool:
            return all(
                (found[-1] / name).read_bytes() == content for name, content in FILES.items()
            )

        return tried(
            hub,
            lambda: found.append(fetch_dataset((NAME,), ("data/*", "README.md"))[0]),
            is_right,
            sum(map(len, FILES.values())),
        )


def tried(
    server: PlaceServer, fetch: Callable[[], object], is_right: Callable[[], bool], size: int
) -> Outcome:
    at_once = True
    try:
        fetch()
    except DataError as error:
        at_once = False
        assert "\n" not in str(error), error
        server.faults = ()
        fetch()
    data = [
        one
        for one in server.log
        if one.method == "GET" and one.status in (200, 206) and DATA.search(one.path)
    ]
    sent = sum(one.sent for one in data if one.fault not in ("flipped", "short", "html"))
    return Outcome(at_once, is_right(), max(0, sent - size))


def killed(seed: int, folder: Path) -> Outcome:
    """kill -9 at some moment, three times, then once more to the end."""
    draw, target = random.Random(seed), folder / "a.bin"
    with FileServer({"a.bin": BIG}, faults=Faults("slow", times=None, seconds=0.6)) as server:
        for _ in range(3):
            process = started(server, target)
            time.sleep(draw.uniform(0.15, 0.8))
            process.send_signal(signal.SIGKILL)
            process.wait()
        server.faults = ()
        before = server.sent()
        here = next(
            (
                path.stat().st_size
                for path in (target, target.with_name("a.bin.part"))
                if path.exists()
            ),
            0,
        )
        fetch_file([f"{server.url}/a.bin"], target, KNOWN)
        return Outcome(
            False, target.read_bytes() == BIG, max(0, server.sent() - before - (len(BIG) - here))
        )


def several(seed: int, folder: Path) -> Outcome:
    """Three processes at once."""
    target = folder / "a.bin"
    with FileServer({"a.bin": BIG}, faults=Faults("slow", times=None, seconds=0.3)) as server:
        processes = [started(server, target) for _ in range(3)]
        codes = [process.wait() for process in processes]
        return Outcome(codes == [0, 0, 0], target.read_bytes() == BIG, server.sent() - len(BIG))


def started(server: FileServer, target: Path) -> subprocess.Popen[bytes]:
    words = [f"{server.url}/a.bin", str(target), str(len(BIG)), KNOWN.sha256]
    return subprocess.Popen([sys.executable, "-c", FETCH, *words], stderr=subprocess.DEVNULL)


def too_large(seed: int, folder: Path) -> Outcome:
    """A file larger than any disk: refused before a byte of it is asked for."""
    with FileServer({"a.bin": Blob.vast(10**15)}, dates=False) as server:
        try:
            fetch_file([f"{server.url}/a.bin"], folder / "a.bin", Content())
        except DataError as error:
            return Outcome(False, "free some space" in str(error), 0)
    return Outcome(True, False, 0)


def measure(seeds: int) -> list[Row]:
    rows = []
    for place, fetch in (("a file", one_file), ("a dataset", dataset)):
        for what, title in TITLES.items():
            faults = [
                (
                    Faults(
                        what,
                        seed=seed,
                        start=1 + seed % 2,
                        times=(1, 2, None)[seed % 3],
                        seconds=0.1,
                        retry_after="0",
                    ),
                )
                for seed in range(seeds)
            ]
            rows.append(Row(place, title, [fetch(some, fresh()) for some in faults]))
        rows.append(
            Row(
                place,
                "one to three of these, drawn",
                [fetch(drawn(seed), fresh()) for seed in range(seeds)],
            )
        )
    some = max(3, seeds // 4)
    rows.append(
        Row("a file", "kill -9, three times", [killed(seed, fresh()) for seed in range(some)])
    )
    rows.append(
        Row("a file", "three processes at once", [several(seed, fresh()) for seed in range(some)])
    )
    rows.append(
        Row(
            "a file", "a disk that is too small", [too_large(seed, fresh()) for seed in range(some)]
        )
    )
    return rows


def fresh() -> Path:
    return Path(tempfile.mkdtemp(dir=_scratch.name))


def table(rows: list[Row]) -> str:
    lines = [
        "| what is fetched | fault | injected | right at once | one line, then right | neither | bytes sent twice |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        right = [one for one in row.outcomes if one.is_right]
        at_once = sum(one.at_once for one in right)
        twice = sum(one.twice for one in row.outcomes)
        cells = (
            len(row.outcomes),
            at_once,
            len(right) - at_once,
            len(row.outcomes) - len(right),
            twice,
        )
        lines.append(
            f"| {row.place} | {row.fault} | " + " | ".join(f"{cell:,}" for cell in cells) + " |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=40)
    chosen = parser.parse_args()
    os.environ["HF_TOKEN"] = ""
    download.MIN_PAUSE_SECONDS = 0.001
    _scratch = tempfile.TemporaryDirectory()
    print(table(measure(chosen.seeds)))
