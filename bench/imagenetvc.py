"""ImageNetVC's prefix score: what Snellen runs beside a loop over candidates, prefixes and images.

    python bench/imagenetvc.py [--classes 2] [--questions 2]

A miniature of the data (ten images a class, candidates as many as the real subsets have, five prefixes) is built and
asked of a LLaVA of a few thousand random weights. Printed: sequences that went through the language model and images
through the vision tower, in Snellen's run and in the loop (one forward pass for each candidate), tokens, and the
largest difference of a summed log-probability from the loop on some of the requests. Counts, no times: they do not
depend on the model's size.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import snellen as sn  # noqa: E402
import tiny_archs  # noqa: E402
from snellen.building.builder import build_benchmark  # noqa: E402
from snellen.catalogue import entries  # noqa: E402
from snellen.models.hf.model import HFModel  # noqa: E402
from snellen.models.loading import load_model  # noqa: E402
from snellen.runs.journal import read_exchanges  # noqa: E402

PICTURES = 10
CANDIDATES = {"color": 11, "shape": 12, "material": 16, "component": 2, "others": 55}
CHECKED = 20
"""Requests that the loop scores too."""


def files(to: Path, classes: int, questions: int) -> Path:
    """The official layout: five tables, the mapping and ten images a class."""
    (to / "datasets").mkdir(parents=True)
    words = {
        subset: [f"{subset[:2]}{n:02d}" for n in range(count)]
        for subset, count in CANDIDATES.items()
    }
    for subset, answers in words.items():
        rows = [
            f"class {c},What is the {subset} {q} of class {c}?,{answers[(c + q) % len(answers)]}"
            for c in range(classes)
            for q in range(questions)
        ]
        (to / f"datasets/{subset}.csv").write_text(
            "\n".join(["category,question,answer", *rows]) + "\n"
        )
    (to / "datasets/candidates.json").write_text(json.dumps(words))
    (to / "ImageNet_mapping.txt").write_text(
        "".join(f"n{c:08d} class {c}\n" for c in range(classes))
    )
    for c in range(classes):
        folder = to / f"rank/n{c:08d}"
        folder.mkdir(parents=True)
        for n in range(PICTURES):
            Image.new("RGB", (32, 32), (20 * c, 20 * n, 90)).save(folder / f"{n}.png")
    return to


class Passes:
    """What goes through a module, counted by a hook: rows and their tokens (or images)."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on(self, module: Any) -> Any:
        def count(module: Any, inputs: Any, keywords: Any, output: Any) -> None:
            given = inputs[0] if inputs else next(iter(keywords.values()))
            self.counts["rows"] += given.shape[0]
            self.counts["tokens"] += given.numel() if given.ndim == 2 else 0

        return module.register_forward_hook(count, with_kwargs=True)


def naive(model: HFModel, requests: list[Any], images: Any) -> list[list[float]]:
    """One forward pass a candidate, the image encoded again each time; summed log-probabilities."""
    sums = []
    with torch.inference_mode():
        for request in requests:
            prompt = model._continued(request, images)
            own = []
            for tail in prompt.tails:
                ids = torch.tensor([[*prompt.context.ids, *tail]])
                tensors = dict(prompt.context.extras)
                logits = model._layout.model(
                    input_ids=ids, attention_mask=torch.ones_like(ids), **tensors
                ).logits
                said = logits[0, -len(tail) - 1 : -1].double().log_softmax(-1)
                own.append(float(sum(said[i, token] for i, token in enumerate(tail))))
            sums.append(own)
    return sums


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--classes", type=int, default=2)
    arguments.add_argument(
        "--questions", type=int, default=2, help="of each subset about each class"
    )
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        entry = entries()["lvlm-ehub/imagenetvc"]
        source = replace(
            entry.source, params={**entry.source.params, "candidate_file": "candidates.json"}
        )
        benchmark = build_benchmark(
            replace(entry, source=source),
            source=files(folder / "files", chosen.classes, chosen.questions),
            to=folder / "built",
        )
        model = load_model(f"hf:{tiny_archs.save('LLaVA', folder / 'model')}")
        assert isinstance(model, HFModel)
        made = model._layout.model
        text, vision = Passes(), Passes()
        hooks = [text.on(made.get_input_embeddings()), vision.on(made.model.vision_tower)]
        sn.evaluate(
            model,
            str(benchmark.folder),
            method="likelihood",
            templates="data",
            runs=folder,
            name="run",
        )
        for hook in hooks:
            hook.remove()
        exchanges = list(read_exchanges(folder / "run"))
        candidates = sum(len(one.request.continuations) for one in exchanges)
        made.model.vision_tower.__dict__.pop("forward", None)
        some = exchanges[:: max(1, len(exchanges) // CHECKED)][:CHECKED]
        prompts = [model._continued(one.request, benchmark.images) for one in exchanges]
        tokens = sum(
            len(prompt.context.ids) + len(tail) for prompt in prompts for tail in prompt.tails
        )
        again = naive(model, [one.request for one in some], benchmark.images)
        off = max(
            abs(score.sum - value)
            for one, own in zip(some, again, strict=True)
            for score, value in zip(one.response.scores, own, strict=True)
        )
    print(f"{benchmark_line(chosen)}; scoring: {model.fingerprint()['scoring']}")
    print("| | loop | Snellen | ratio |\n|---|---|---|---|")
    for name, loop, ours in (
        ("sequences through the language model", candidates, text.counts["rows"]),
        ("tokens through the language model", tokens, text.counts["tokens"]),
        ("images through the vision tower", candidates, vision.counts["rows"]),
    ):
        print(f"| {name} | {loop:,} | {ours:,} | {loop / ours:.1f} |")
    print(f"largest difference of a summed log-probability on {len(some)} requests: {off:.1e} nats")


def benchmark_line(chosen: argparse.Namespace) -> str:
    items = chosen.classes * chosen.questions * len(CANDIDATES)
    sizes = ", ".join(map(str, CANDIDATES.values()))
    return f"{items} questions, {PICTURES} images each, 5 prefixes, {sizes} candidates"


if __name__ == "__main__":
    main()
