"""What a run does when something around it breaks, and how many samples that costs.

    python bench/reliability.py    # all of it, some three minutes

Each fault is injected into real parts: a server on loopback, processes that are killed, files that are cut. Afterwards
the fault is taken away and the same command given again; a sample is lost when it then has no answer, or another
one than in a run that nothing happened to.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import slow_model  # noqa: E402
import small  # noqa: E402
import snellen as sn  # noqa: E402
from servers import (  # noqa: E402
    Fault,
    broken,
    dropped,
    endless,
    malformed,
    rate_limited,
    reply_body,
    start_server,
)
from slow_model import PROTOCOLS, Slow  # noqa: E402
from snellen.building.benchmark import Benchmark  # noqa: E402
from snellen.errors import SnellenError, StoreError  # noqa: E402
from snellen.models.client import Clock  # noqa: E402
from snellen.models.openai import OpenAIModel  # noqa: E402
from snellen.models.openai_places import OpenAIOptions, Place  # noqa: E402
from snellen.records import ContinuationScore, Request, Response  # noqa: E402
from snellen.runs.journal import read_exchanges  # noqa: E402
from snellen.runs.mending import mend_run  # noqa: E402
from snellen.runs.run_folder import journals  # noqa: E402
from test_predictions import as_lmms_eval  # noqa: E402

SAMPLES, KILLS, CUTS = 120, 5, 100
KEY = "sk-never-to-be-stored-0123"


class Row(NamedTuple):
    fault: str
    injected: int
    did: str
    lost: int


# --- what a run has ----------------------------------------------------------------------------------------------


def answers(run: Path) -> dict[tuple[Any, ...], Any]:
    """The answers of a run by presentation."""
    return {
        (e.protocol, e.request.sample_id, e.request.variant): (e.response.text, e.response.scores)
        for e in read_exchanges(run)
        if e.response.error is None
    }


def lost(whole: Path, run: Path) -> int:
    """Presentations of the whole run that the other has not, or answered in another way."""
    has = answers(run)
    return sum(has.get(place) != answer for place, answer in answers(whole).items())


def go(model: Any, benchmark: Benchmark, runs: Path, protocols: Sequence[str] = PROTOCOLS) -> str:
    """How a run ends, in a word or in its error's words."""
    try:
        sn.evaluate(model, str(benchmark.folder), protocols, runs=runs, name="run")
    except (SnellenError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return "whole"


# --- servers -----------------------------------------------------------------------------------------------------


async def no_wait(seconds: float) -> None:
    """Waits between attempts are not what is measured here."""


def serve_faults(benchmark: Benchmark, scratch: Path) -> Iterator[Row]:
    text = reply_body("(A)")
    odd_usage = (
        text.partition('"usage":')[0] + '"usage":{"prompt_tokens":"seven","completion_tokens":"3"}}'
    )
    tenth: dict[str, Fault] = {
        "429 for a tenth of the prompts": rate_limited(),
        "500 for a tenth of the prompts": broken(500),
        "no JSON for a tenth": malformed(),
        "connection closed before the reply, a tenth": dropped("before"),
        "connection closed within the reply, a tenth": dropped("within"),
        "a body without end, a tenth": endless(),
        "token counts as texts, a tenth": malformed(odd_usage),
    }
    for name, fault in tenth.items():
        yield _served(name, benchmark, scratch / name, replace(fault, share=0.1))
    yield _served(
        "500 for the first 36 requests", benchmark, scratch / "first", broken(500, times=36)
    )
    yield _served(
        "500 for everything, then well again", benchmark, scratch / "all", broken(500, times=10**6)
    )
    yield _served("the key in every reply", benchmark, scratch / "key", reply=f"(A) {KEY}")


def _served(name: str, benchmark: Benchmark, runs: Path, *script: Fault, reply: str = "(A)") -> Row:
    with start_server(reply=reply, script=script) as server:
        options = OpenAIOptions(reply_bytes=1 << 16, prefix="drop")
        place = Place((server.url,), headers={"authorization": f"Bearer {KEY}"}, key=KEY)
        model = OpenAIModel("openai:any", "any", place, options, Clock(no_wait))
        ended = go(model, benchmark, runs, ("vanilla",))
        requests, struck = (server.stats()[name] for name in ("requests", "struck"))
        failed = sum(e.response.error is not None for e in read_exchanges(runs / "run"))
        server.script()
        again = go(model, benchmark, runs, ("vanilla",))
    kept = [
        path
        for path in (runs / "run").rglob("*")
        if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    injected = struck or (min(script[0].times, requests) if script else SAMPLES)
    did = f"{requests} requests for {SAMPLES} samples"
    if "stopped" in ended:
        did += ", then stopped with the reason; the same command again"
    elif failed:
        did += f", {failed} failed with their kind; the same command again"
    if reply != "(A)":
        did += f"; the key stands in {len(kept)} files"
    assert again == "whole" and not kept, (name, again, kept)
    got = answers(runs / "run")
    return Row(
        name, injected, did, SAMPLES - sum(text in ("(A)", "(A) ***") for text, _ in got.values())
    )


# --- local models ------------------------------------------------------------------------------------------------


class Breaking(Slow):
    """Out of memory at the twentieth request, or log-likelihoods that are no numbers."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def respond(self, request: Request) -> Response:
        response = super().respond(request)
        if self._how == "memory" and len(self.asked) == 20:
            raise MemoryError("out of memory")
        if self._how == "nan" and request.kind == "loglikelihood" and len(self.asked) % 3 == 0:
            return Response(
                scores=tuple(ContinuationScore(float("nan"), 1, 1) for _ in request.continuations)
            )
        return response


def break_models(benchmark: Benchmark, whole: Path, scratch: Path) -> Iterator[Row]:
    for how, name in (
        ("memory", "a local model out of memory"),
        ("nan", "log-likelihoods that are NaN"),
    ):
        runs = scratch / how
        go(Breaking(how), benchmark, runs)
        failed = sum(e.response.error is not None for e in read_exchanges(runs / "run"))
        kept = len(answers(runs / "run"))
        did = f"{failed} failed with their kind" if failed else f"stopped, {kept} answers kept"
        assert go(Slow(), benchmark, runs) == "whole"
        yield Row(name, failed or 1, f"{did}; the same command again", lost(whole, runs / "run"))
    runs = scratch / "abort"
    script = (
        "import os, sys, slow_model\n"
        "respond = slow_model.Slow.respond\n"
        "slow_model.Slow.respond = lambda self, r: os.abort() if len(self.asked) == 30 else respond(self, r)\n"
        "slow_model.main(*sys.argv[1:])\n"
    )
    words = [sys.executable, "-c", script, "1", str(benchmark.folder), str(runs), "run", "0"]
    code = subprocess.run(words, env=_environment(), capture_output=True, check=False).returncode
    assert code == -signal.SIGABRT, code
    kept = len(answers(runs / "run"))
    assert go(Slow(), benchmark, runs) == "whole"
    did = f"died, {kept} answers kept; the same command again"
    yield Row("a native crash of the model", 1, did, lost(whole, runs / "run"))


# --- kills -------------------------------------------------------------------------------------------------------


def kill_commands(benchmark: Benchmark, whole: Path, scratch: Path) -> Iterator[Row]:
    table = small.write(small.rows(40), scratch / "table.jsonl")
    build = _snellen("build", str(table), "--to", "made")
    yield _killed(
        "build",
        build,
        scratch / "build",
        lambda at: json.loads((at / "made/benchmark.json").read_text())["version"],
    )

    run = [sys.executable, slow_model.__file__, "1", str(benchmark.folder), "runs", "run", "0.005"]
    yield _killed("run", run, scratch / "run", lambda at: _lines(at / "runs/run/scores.jsonl"))
    for verb in ("score", "report"):

        def prepared(at: Path) -> None:
            shutil.copytree(whole, at / "run")

        result = "scores.jsonl" if verb == "score" else "report.html"
        yield _killed(
            verb,
            _snellen(verb, "run"),
            scratch / verb,
            lambda at, name=result: _lines(at / "run" / name),
            prepared,
        )
    with _inside(scratch):
        vanilla = scratch / "vanilla"
        go(Slow(), benchmark, vanilla, ("vanilla",))
        predictions = as_lmms_eval(benchmark, vanilla / "run").resolve()
    taken = _snellen(
        "score", str(predictions), "--benchmark", str(benchmark.folder), "--to", "taken"
    )
    yield _killed("import", taken, scratch / "import", lambda at: _lines(at / "taken/scores.jsonl"))


def _killed(
    name: str,
    words: Sequence[str],
    folder: Path,
    result: Callable[[Path], Any],
    prepare: Callable[[Path], None] = lambda at: None,
) -> Row:
    """Kill a command at random moments, and give it again each time; all must end as when nothing happened."""
    chance, different, stopped = random.Random(name), 0, 0

    def start(at: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words, cwd=at, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def finish(at: Path) -> Any:
        process = start(at)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        return result(at)

    (folder / "whole").mkdir(parents=True)
    prepare(folder / "whole")
    began = time.monotonic()
    expected = finish(folder / "whole")
    seconds = time.monotonic() - began
    for number in range(KILLS):
        at = folder / "killed"
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir()
        prepare(at)
        process = start(at)
        time.sleep(seconds * (number + chance.random()) / KILLS)
        process.kill()
        process.communicate()
        stopped += process.returncode == -signal.SIGKILL
        different += finish(at) != expected
    return Row(
        f"kill -9 of `{name}`",
        KILLS,
        "the same command again ends as one that was not killed",
        different,
    )


# --- disks and journals ------------------------------------------------------------------------------------------


def fill_disks(benchmark: Benchmark, whole: Path, scratch: Path) -> Row:
    chance, missing, told = random.Random(1), 0, 0
    for number in range(10):
        runs, (soft, hard) = scratch / f"full-{number}", resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (chance.randrange(1, 60_000), hard))
        try:
            told += "cannot write" in go(Slow(), benchmark, runs)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert go(Slow(), benchmark, runs) == "whole"
        missing += lost(whole, runs / "run")
    return Row(
        "a disk that is full",
        10,
        f"{told} times one line that says so; the same command again",
        missing,
    )


def damage_journals(benchmark: Benchmark, whole: Path, scratch: Path) -> Iterator[Row]:
    [source] = journals(whole)
    content, chance = source.read_bytes(), random.Random(2)
    missing = 0
    for number in range(CUTS):
        run = _copied(
            whole, scratch / f"cut-{number}" / "run", content[: chance.randrange(len(content))]
        )
        assert go(Slow(), benchmark, run.parent) == "whole"
        missing += lost(whole, run)
    yield Row(
        "a journal cut at any byte",
        CUTS,
        "the torn line is dropped; the same command again",
        missing,
    )

    missing = refused = 0
    for number in range(CUTS):
        broken_content = bytearray(content)
        broken_content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        run = _copied(whole, scratch / f"byte-{number}" / "run", bytes(broken_content))
        try:
            sn.score(run)
        except StoreError as error:
            refused += "journal-0.jsonl:" in str(error)
        mend_run(run)
        assert go(Slow(), benchmark, run.parent) == "whole"
        missing += lost(whole, run)
    did = (
        f"{refused} times one line with file and line number; `snellen mend`, then the same command"
    )
    yield Row("a flipped bit in a journal", CUTS, did, missing)

    run = _copied(whole, scratch / "manifest" / "run", content)
    (run / "manifest.json").write_bytes(b"")
    told = "remove it and give the run's command again" in go(Slow(), benchmark, run.parent)
    (run / "manifest.json").unlink()
    model = Slow()
    assert told and go(model, benchmark, run.parent) == "whole"
    yield Row(
        "an empty manifest",
        1,
        f"one line; removed, {len(model.asked)} asked again",
        lost(whole, run),
    )


def two_at_once(benchmark: Benchmark, whole: Path, scratch: Path) -> Row:
    words = [
        sys.executable,
        slow_model.__file__,
        "1",
        str(benchmark.folder),
        str(scratch),
        "run",
        "0.02",
    ]
    first = subprocess.Popen(words, env=_environment(), stdout=subprocess.DEVNULL)
    while not journals(scratch / "run"):
        time.sleep(0.01)
    refused, asked = 0, 0
    for _ in range(3):
        second = Slow()
        refused += "in use by another run" in go(second, benchmark, scratch)
        asked += len(second.asked)
    assert first.wait() == 0
    did = f"{refused} refused in one line, {asked} asked twice"
    return Row("a second process on the same run", 3, did, lost(whole, scratch / "run"))


def turn_back_clock(benchmark: Benchmark, whole: Path, scratch: Path) -> Row:
    clock, now = time.time, [time.time()]

    def backwards() -> float:
        now[0] -= 3600
        return now[0]

    time.time = backwards
    try:
        ended = go(Slow(), benchmark, scratch)
    finally:
        time.time = clock
    return Row(
        "a clock that goes back an hour at each look",
        1,
        f"{ended}: no time is part of what is found",
        lost(whole, scratch / "run"),
    )


# --- helpers -----------------------------------------------------------------------------------------------------


def _copied(whole: Path, run: Path, journal: bytes) -> Path:
    run.mkdir(parents=True)
    shutil.copy(whole / "manifest.json", run)
    (run / "journal-0.jsonl").write_bytes(journal)
    return run


def _lines(path: Path) -> list[bytes]:
    return sorted(path.read_bytes().splitlines())


def _snellen(*words: str) -> list[str]:
    return [sys.executable, "-m", "snellen", *words]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def measure(scratch: Path) -> Iterator[Row]:
    served = small.built(small.rows(SAMPLES), scratch / "served")
    benchmark = small.built(small.rows(12), scratch / "made")
    go(Slow(), benchmark, scratch / "whole")
    whole = scratch / "whole" / "run"
    yield from serve_faults(served, scratch / "servers")
    yield from break_models(benchmark, whole, scratch / "models")
    yield from kill_commands(benchmark, whole, _made(scratch / "kills"))
    yield fill_disks(benchmark, whole, scratch / "disks")
    yield from damage_journals(benchmark, whole, scratch / "journals")
    yield two_at_once(benchmark, whole, scratch / "two")
    yield turn_back_clock(benchmark, whole, scratch / "clock")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    print("| fault | injected | what the run did | samples lost |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SNELLEN_HOME"] = folder
        for row in measure(Path(folder)):
            print(f"| {row.fault} | {row.injected} | {row.did} | {row.lost} |", flush=True)


if __name__ == "__main__":
    main()
