"""How long `snellen lint` takes on a benchmark of any size, and what memory: python bench/lint.py 100000"""

from __future__ import annotations

import hashlib
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from snellen.building.benchmark import (
    FORMAT,
    MANIFEST,
    SAMPLES,
    Benchmark,
    BenchmarkCounts,
    BenchmarkManifest,
)
from snellen.building.builder import ANSWERS
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.formats.record_files import RecordWriter
from snellen.records import Answer, ImageRef, Sample
from snellen_lab.linting import lint


def write(folder: Path, count: int) -> Benchmark:
    """Questions of nine words with four options of three, four about each image; the images are only named."""
    rng = random.Random(0)
    words = [f"w{i}" for i in range(5000)]
    with RecordWriter(folder / SAMPLES) as samples, RecordWriter(folder / ANSWERS) as answers:
        for i in range(count):
            picture = ImageRef(
                hashlib.sha256(str(i // 4).encode()).hexdigest(), "image/png", 640, 480
            )
            options = tuple(f"{' '.join(rng.choices(words, k=2))} {j}" for j in range(4))
            question = " ".join(rng.choices(words, k=9))
            samples.write(
                Sample(f"q{i}", "large", question, (picture,), options, group=picture.digest)
            )
            answers.write(Answer(f"q{i}", 0, (rng.randrange(4),)))
    spec = BenchmarkSpec(
        name="large", title="large", formulation="choice", source=SourceSpec("table")
    )
    manifest = BenchmarkManifest(
        FORMAT, spec, "bench", BenchmarkCounts(count, count, count // 4, count)
    )
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    return Benchmark(folder)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        benchmark = write(Path(folder), count)
        started, used = time.perf_counter(), time.process_time()
        findings = lint(benchmark)
        wall, cpu = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{count:,} questions, {len(findings)} findings: {wall:.1f} s, {cpu:.1f} s of CPU, peak {peak:.0f} MB"
    )


if __name__ == "__main__":
    main()
