"""Train an embedded model from nothing: `python training/tiny/train.py tiny`.

Stages that are done lie in the scratch folder and are not repeated, so a stopped training goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import build
import data
import stages
import torch
from stages import Plan
from torch import nn

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "src" / "snellen" / "models" / "weights"


@dataclass(frozen=True)
class Recipe:
    """What each stage is given; a stage of no steps is left out."""

    vision: Plan
    text: Plan
    projector: Plan
    read: Plan
    joint: Plan


NONE = Plan(steps=0, rate=0.0, batch=0)
RECIPES = {
    "tiny": Recipe(
        vision=Plan(steps=1500, rate=2e-3, batch=64),
        text=Plan(steps=800, rate=1e-3, batch=64),
        projector=Plan(steps=500, rate=2e-3, batch=64),
        read=Plan(steps=1000, rate=1e-3, batch=24),
        joint=Plan(steps=3000, rate=1e-3, batch=16),
    ),
    # Without the text stage and for a short time: it sees, but has not learned to bind marks.
    "tiny-xs": Recipe(
        vision=Plan(steps=900, rate=2e-3, batch=64),
        text=NONE,
        projector=Plan(steps=300, rate=2e-3, batch=64),
        read=Plan(steps=1000, rate=1e-3, batch=24),
        joint=Plan(steps=100, rate=5e-4, batch=16),
    ),
}
FEW_OPTIONS = data.Mix(shown=0.15, told=1.0)
"""While reading is learned: options are shown seldom, and then the answer is told."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("name", choices=RECIPES)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--pictures", type=int, default=40000)
    options.add_argument("--scratch", type=Path, default=ROOT / "build" / "tiny")
    options.add_argument("--out", type=Path, help="the folder to write (default: the one in the package)")
    options.add_argument("--until", choices=("vision", "text", "projector", "read", "joint"), default="joint")
    told = options.parse_args()
    torch.set_num_threads(2)
    rng = build.seeded(told.seed)
    pool = data.pool(told.pictures, told.scratch)
    words = build.tokenizer(data.corpus(20000, pool.sources, rng))
    model = build.network(words, build.SIZES[told.name])
    heads = nn.Linear(model.config.vision_config.hidden_size, sum(data.HEADS.values()))
    print(f"{told.name}: {sum(p.numel() for p in model.parameters())} parameters, {len(words)} tokens", flush=True)
    recipe = RECIPES[told.name]
    work: dict[str, Callable[[], None]] = {
        "vision": lambda: stages.train_vision(model, pool, recipe.vision, rng, heads),
        "text": lambda: stages.train_text(model, words, pool, recipe.text, rng),
        "projector": lambda: stages.train_projector(model, words, pool, recipe.projector, rng),
        "read": lambda: stages.train_jointly(model, words, pool, recipe.read, rng, heads, FEW_OPTIONS, turns=6),
        "joint": lambda: stages.train_jointly(model, words, pool, recipe.joint, rng, heads, data.Mix()),
    }
    for number, (stage, run) in enumerate(work.items()):
        kept = told.scratch / told.name / f"{stage}.pt"
        if getattr(recipe, stage).steps and kept.exists():
            state = torch.load(kept)
            model.load_state_dict(state["model"])
            heads.load_state_dict(state["heads"])
        elif getattr(recipe, stage).steps:
            rng.seed(told.seed * 10 + number)  # a training that goes on draws as one that never stopped
            start, used = time.monotonic(), sum(os.times()[:2])
            run()
            seconds, processor = time.monotonic() - start, (sum(os.times()[:2]) - used) / 2
            print(f"{stage}: {seconds:.0f} s, {processor:.0f} s of two cores", flush=True)
            kept.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"model": model.state_dict(), "heads": heads.state_dict()}, kept)
        if stage == told.until:
            break
    out = told.out or WEIGHTS / told.name
    build.save(model.eval(), words, out)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}
    print(json.dumps(digests, indent=1))


if __name__ == "__main__":
    main()
