"""Writes the table of docs/whitebox.md: which fast path equals the plain path, architecture by architecture.

    python bench/equality.py [--write]

Small random models in float32, one thread; the numbers are the largest difference of any token's
log-probability, in nats. Without --write the table goes to standard output.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from snellen.models.hf.engine import Engine  # noqa: E402
from snellen.models.hf.ladder import PLAIN  # noqa: E402
from snellen.models.hf.model_layout import read_layout  # noqa: E402
from snellen.models.hf.noise import largest_difference  # noqa: E402
from snellen.models.hf.reference import reference_scores  # noqa: E402
from snellen.models.hf.selfcheck import CACHE, WIDER, SelfCheckResult, choose_fast_paths  # noqa: E402
from tiny_configs import ARCHITECTURES, asked, make, normal  # noqa: E402

PATHS = (CACHE, *WIDER.values())
BEGIN, END = "<!-- equality table: begin -->", "<!-- equality table: end -->"


def cell(verdict: SelfCheckResult, path: str) -> str:
    """What the self-check found of one path."""
    why = verdict.refusals.get(path, "")
    if path in verdict.differences:
        value = f"{verdict.differences[path]:.0e}"
        return f"**{value}**" if why else value
    if not why:
        return "—"
    return "facts" if "layers" in why or "begins" in why else "no" if "cannot be kept" in why else "refused"


def row(name: str) -> str:
    model, head = make(name)
    window = asked(head)
    engine = Engine(read_layout(model, 0), 8, 4096)
    verdict = choose_fast_paths(engine, window)
    exact = reference_scores(read_layout(make(name)[0], 0), window)
    fast = engine.score(window, verdict.fast_paths)
    first = window[0]
    pixels = normal(77, *first.context.extras["pixel_values"].shape)
    other = replace(first.context, extras={**first.context.extras, "pixel_values": pixels}, digests=("other",))
    sees = largest_difference(exact[:1], engine.score([replace(first, context=other)], PLAIN))
    cells = [cell(verdict, path) for path in PATHS]
    cost = f"{verdict.cost.passes} / {verdict.cost.tokens:,}"
    found = [verdict.fast_paths.name, f"{largest_difference(exact, fast):.0e}", f"{sees:.2f}", cost]
    return " | ".join([name, *cells, *found])


def table() -> str:
    heads = ["architecture", *PATHS, "strategy chosen", "chosen against exact", "another picture moves a score by"]
    heads.append("passes / tokens of the self-check")
    rows = [" | ".join(heads), " | ".join("---" for _ in heads), *(row(name) for name in ARCHITECTURES)]
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return "\n".join([f"Taken with {versions}.", "", *(f"| {line} |" for line in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    made = table()
    if not parser.parse_args().write:
        print(made)
        return
    page = ROOT / "docs" / "whitebox.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
