"""Train an embedded model from nothing: `python training/tiny/train.py tiny`.

Stages that are done lie in the scratch folder and are not repeated, so a stopped training goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import data
import stages
import torch
import torch.distributed as dist
from stages import Plan
from torch import nn
from torch.multiprocessing import start_processes

import build

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "src" / "snellen" / "models" / "weights"


@dataclass(frozen=True)
class Recipe:
    """What each stage is given; a stage of no steps is left out."""

    vision: Plan
    spread: Plan
    text: Plan
    projector: Plan
    joint: Plan
    refine: Plan
    say: Plan


STAGES = ("vision", "spread", "text", "projector", "joint", "refine", "say")
NONE = Plan(steps=0, rate=0.0, batch=0)
RECIPES = {
    "tiny": Recipe(
        vision=Plan(steps=1500, rate=2e-3, batch=64),
        spread=Plan(steps=500, rate=1e-3, batch=64),
        text=Plan(steps=800, rate=1e-3, batch=64),
        projector=Plan(steps=300, rate=2e-3, batch=64),
        joint=Plan(steps=1800, rate=1e-3, batch=12),
        refine=Plan(steps=700, rate=8e-4, batch=10),
        say=Plan(steps=1000, rate=1e-3, batch=10),
    ),
    # Without the text stage, and seldom shown options: it sees, but has not learned to bind marks.
    "tiny-xs": Recipe(
        vision=Plan(steps=1500, rate=2e-3, batch=32),
        spread=Plan(steps=700, rate=1e-3, batch=32),
        text=NONE,
        projector=Plan(steps=200, rate=2e-3, batch=64),
        joint=Plan(steps=1500, rate=1e-3, batch=8),
        refine=Plan(steps=2000, rate=1e-3, batch=8),
        say=NONE,
    ),
}
MIX = data.Mix(shown=0.5, told=0.15, reply=data.MARK_FIRST)
SEES = data.Mix(shown=0.15, reply=data.MARK_ALONE)
"""For the model that is to see and not to bind: options are shown seldom, and the mark alone is the reply."""
READING = data.Mix(shown=0.15, reply=data.MARK_FIRST)
SAY = data.Mix(told=0.1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("name", choices=RECIPES)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--pictures", type=int, default=40000)
    options.add_argument(
        "--workers", type=int, default=2, help="processes, of one thread each, that share a batch"
    )
    options.add_argument("--scratch", type=Path, default=ROOT / "build" / "tiny")
    options.add_argument(
        "--out", type=Path, help="the folder to write (default: the one in the package)"
    )
    options.add_argument("--until", choices=STAGES, default=STAGES[-1])
    told = options.parse_args()
    data.pool(told.pictures, told.scratch)
    with tempfile.TemporaryDirectory() as meeting:
        start_processes(train, (told, meeting), nprocs=told.workers, start_method="fork")


def train(rank: int, told: argparse.Namespace, meeting: str) -> None:
    """All stages, as one of `told.workers` processes; the first one saves."""
    # One thread each: two threads wait for each other at every operation when the machine is shared.
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{meeting}/here", rank=rank, world_size=told.workers)
    rng = build.seeded(told.seed)
    pool = data.pool(told.pictures, told.scratch)
    words = build.tokenizer(data.corpus(20000, pool.sources, rng))
    model = build.network(words, build.SIZES[told.name])
    heads = nn.Linear(model.config.vision_config.hidden_size, sum(data.HEADS.values()))
    recipe = RECIPES[told.name]

    def together(plan: Plan, mix: data.Mix) -> None:
        stages.train_jointly(model, words, pool, plan, rng, heads, mix)

    work: dict[str, Callable[[], None]] = {
        "vision": lambda: stages.train_vision(
            model, pool, recipe.vision, rng, heads, nearest=False
        ),
        "spread": lambda: stages.train_vision(model, pool, recipe.spread, rng, heads, nearest=True),
        "text": lambda: stages.train_text(model, words, pool, recipe.text, rng),
        "projector": lambda: stages.train_projector(model, words, pool, recipe.projector, rng),
        "joint": lambda: together(recipe.joint, MIX if told.name == "tiny" else SEES),
        "refine": lambda: together(recipe.refine, READING if told.name == "tiny" else SEES),
        "say": lambda: together(recipe.say, SAY),
    }
    for number, stage in enumerate(STAGES):
        kept = told.scratch / told.name / f"{stage}.pt"
        if not getattr(recipe, stage).steps:
            continue
        if kept.exists():
            state = torch.load(kept, weights_only=True)
            model.load_state_dict(state["model"])
            heads.load_state_dict(state["heads"])
        else:
            rng.seed(
                1000 * rank + 10 * told.seed + number
            )  # a training that goes on draws as one that never stopped
            start, used = time.monotonic(), sum(os.times()[:2])
            work[stage]()
            if not rank:
                print(
                    f"{stage}: {time.monotonic() - start:.0f} s, {sum(os.times()[:2]) - used:.0f} s of one core each"
                )
                kept.parent.mkdir(parents=True, exist_ok=True)
                torch.save({"model": model.state_dict(), "heads": heads.state_dict()}, kept)
        if stage == told.until:
            break
    if not rank:
        out = told.out or WEIGHTS / told.name
        build.save(model.eval(), words, out)
        print(
            f"{told.name}: {sum(p.numel() for p in model.parameters())} parameters, {len(words)} tokens"
        )
        print(
            json.dumps(
                {
                    path.name: sha256(path.read_bytes()).hexdigest()
                    for path in sorted(out.iterdir())
                },
                indent=1,
            )
        )
    dist.barrier()  # none goes on before the first one has saved
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
