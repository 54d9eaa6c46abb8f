"""Prints which fast path equals the plain path, architecture by architecture.

    python bench/equality.py [model_type ...]
    python bench/equality.py --device cuda [--dtype bfloat16] [model_type ...]    what an accelerator allows

The first table has each path for architectures whose inputs are made by hand; the second has every image-text
architecture that transformers registers, through its own processor. Where some are named, these alone are asked. Small random models, in float32 and on one thread; the numbers are the largest difference
of any token's log-probability, in nats. What needs torchvision or timm is asked where they are installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from equality_registered import is_right, registered_row  # noqa: E402
from probe_cost import counting  # noqa: E402
from snellen.models.hf.engine import Engine  # noqa: E402
from snellen.models.hf.load import without_warnings  # noqa: E402
from snellen.models.hf.model_layout import read_layout  # noqa: E402
from snellen.models.hf.reference import reference_scores  # noqa: E402
from snellen.models.hf.selfcheck import CACHE, CANDIDATES, SelfCheckResult, choose_fast_paths  # noqa: E402
from snellen.models.hf.sharing_plan import PLAIN  # noqa: E402
from snellen.models.hf.tolerance import largest_difference  # noqa: E402
from tiny_configs import ARCHITECTURES, asked, make, normal  # noqa: E402
from tiny_registered import REGISTERED  # noqa: E402

PATHS = (CACHE, *(candidate.name for candidate in CANDIDATES))
Place = Callable[[Any], Any]
"""Puts a model where, and in the format in which, it is to be asked."""


def cell(verdict: SelfCheckResult, path: str) -> str:
    """What the self-check found of one path."""
    why = verdict.refusals.get(path, "")
    if path in verdict.differences:
        value = f"{verdict.differences[path]:.0e}"
        return f"**{value}**" if why else value
    if not why:
        return "—"
    return (
        "facts"
        if "layers" in why or "begins" in why
        else "no"
        if "cannot be kept" in why
        else "refused"
    )


def row(name: str, place: Place) -> str:
    model, head = make(name)
    model, window = place(model), asked(head)
    engine = Engine(read_layout(model, 0), 8, 4096)
    with counting(engine.layout) as cost:
        verdict = choose_fast_paths(engine, window)
    exact = reference_scores(read_layout(place(make(name)[0]), 0), window)
    fast = engine.score(window, verdict.fast_paths)
    first = window[0]
    pixels = normal(77, *first.context.extras["pixel_values"].shape)
    other = replace(
        first.context, extras={**first.context.extras, "pixel_values": pixels}, digests=("other",)
    )
    sees = largest_difference(exact[:1], engine.score([replace(first, context=other)], PLAIN))
    cells = [cell(verdict, path) for path in PATHS]
    size = f"{cost.passes} / {cost.tokens:,}"
    found = [verdict.name, f"{largest_difference(exact, fast):.0e}", f"{sees:.2f}", size]
    return " | ".join([name, *cells, *found])


def table(place: Place) -> str:
    heads = [
        "architecture",
        *PATHS,
        "strategy chosen",
        "chosen against exact",
        "another image moves a score by",
    ]
    heads.append("passes / tokens of the self-check")
    rows = [
        " | ".join(heads),
        " | ".join("---" for _ in heads),
        *(row(name, place) for name in ARCHITECTURES),
    ]
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return "\n".join([f"Taken with {versions}.", "", *(f"| {line} |" for line in rows)])


def registered_table(lines: Sequence[str]) -> str:
    heads = [
        "model_type",
        "processor",
        "strategy chosen",
        "scores",
        "replies",
        "another image moves a score by",
    ]
    rows = [" | ".join(heads), " | ".join("---" for _ in heads), *lines]
    right = sum(map(is_right, lines))
    summary = f"{right} of {len(lines)} can be asked and are answered as by the reference."
    return "\n".join([summary, "", *(f"| {line} |" for line in rows)])


def registered_lines(names: Sequence[str], place: Place) -> dict[str, str]:
    """The line of each architecture; also to standard error as it is found."""
    lines = {}
    for name in names:
        lines[name] = registered_row(name, place)
        print(lines[name], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("names", nargs="*", metavar="model_type")
    given = parser.parse_args()

    def place(model: Any) -> Any:
        return model.to(given.device, getattr(torch, given.dtype))

    with without_warnings():
        if not given.names:
            print(table(place))
        lines = registered_lines(given.names or REGISTERED, place)
    print(registered_table(list(lines.values())))


if __name__ == "__main__":
    main()
