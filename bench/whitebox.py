"""What sharing saves: a LLaVA-like random model with 576 image tokens, three ways in one run.

naive   the model's own forward for every option, the picture encoded again, logits at every place;
        for generation the model's own `generate`, one prompt at a time
plain   Snellen's exact path (`scoring=exact`): the same, but logits only where they are read
fast    Snellen's shared path

    python bench/whitebox.py [--small] [--dtype bfloat16] [--threads 1]

The three take turns, `--repetitions` times. Prints CPU seconds and the ratios naive / fast and plain / fast,
medians over the turns, the largest difference of a summed log-probability, and peak memory beyond the
model, plain / fast, each in a process of its own. Random weights: speed and equality only. `--small` is a
quick run with a model of a few layers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers as tf

from snellen.models.hf.decoding import generate_plainly, token_picker
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt
from snellen.models.hf.engine import Engine
from snellen.models.hf.ladder import PLAIN, FastPaths
from snellen.models.hf.model_layout import read_layout
from snellen.models.hf.noise import largest_difference
from snellen.records import Decoding, Message, Request, TextPart, Variant

IMAGE, PICTURE, QUESTION = 32000, 576, 55
FAST = FastPaths(
    vision_cache=True, cache=True, shared=True, batch=True, ragged=True, tree=True, at_once=True, prefix_cache=True
)
TARGETS = {
    "one question, 4 options": 4.5,
    "5 templates x 4 options": 14.0,
    "4 rotations x 8 new tokens": 2.8,
    "5 templates x 4 rotations x 8 new tokens": 4.5,
}
generator = torch.Generator().manual_seed(0)


def model(small: bool, dtype: torch.dtype) -> Any:
    """174 M parameters: a 38 M vision tower at 336 pixels and a 110 M text model."""
    torch.manual_seed(0)
    layers = 2 if small else 12
    vision = tf.CLIPVisionConfig(
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=layers,
        num_attention_heads=8,
        image_size=336,
        patch_size=14,
        projection_dim=512,
    )
    text = tf.LlamaConfig(
        vocab_size=32064,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=layers,
        num_attention_heads=12,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.05,
    )
    config = tf.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=IMAGE,
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
    )
    made = tf.LlavaForConditionalGeneration(config).to(dtype).eval()
    made.generation_config.eos_token_id = None
    return made


def words(count: int) -> tuple[int, ...]:
    return tuple(torch.randint(10, 31000, (count,), generator=generator).tolist())


PIXELS = torch.randn(1, 3, 336, 336, generator=generator)
HEAD = (*words(5), *(IMAGE,) * PICTURE)
TAILS = tuple(words(n) for n in (1, 3, 5, 8))
TEMPLATES = [words(QUESTION) for _ in range(5)]
OPENING, CLOSING, SHOWN = words(25), words(6), [words(7) for _ in range(4)]
ROTATIONS = [(*OPENING, *sum(SHOWN[i:] + SHOWN[:i], ()), *CLOSING) for i in range(4)]


def prompt(*text: int) -> EncodedPrompt:
    return EncodedPrompt((*HEAD, *text), {"pixel_values": PIXELS}, ("picture",))


QUESTIONS = [ContinuedPrompt(prompt(*template), TAILS) for template in TEMPLATES]
CIRCULAR = [prompt(*rotation) for rotation in ROTATIONS]
UNSTABLE = [prompt(*template[:10], *rotation) for template in TEMPLATES for rotation in ROTATIONS]


def request(number: int) -> Request:
    return Request("bench", str(number), Variant(), (Message("user", (TextPart(str(number)),)),), decoding=Decoding(8))


def fresh(made: Any, fast_paths: FastPaths, rows: int) -> Engine:
    made.model.vision_tower.__dict__.pop("forward", None)
    return Engine(read_layout(made, 0), rows, 4096, fast_paths)


def write(made: Any, rows: list[EncodedPrompt], fast: bool, calls: int = 1) -> list[list[int]]:
    requests = [request(i) for i in range(len(rows))]
    engine = fresh(made, FAST if fast else PLAIN, 32)
    if fast:
        size, written = len(rows) // calls, []
        for i in range(0, len(rows), size):
            pick = token_picker(engine.layout, None, requests[i : i + size])  # type: ignore[arg-type]
            written += engine.generate(rows[i : i + size], pick, 8)
        return written
    pairs = zip(rows, requests, strict=True)
    return [generate_plainly(engine.layout, None, [row], [one])[0] for row, one in pairs]  # type: ignore[arg-type]


def score(made: Any, asked: list[ContinuedPrompt], fast: bool) -> Any:
    return fresh(made, FAST if fast else PLAIN, 32 if fast else 1).score(asked)


def naive(made: Any, asked: list[ContinuedPrompt]) -> Any:
    """A textbook loop over options."""
    made.model.vision_tower.__dict__.pop("forward", None)
    scores = []
    with torch.inference_mode():
        for one in asked:
            tails = []
            for tail in one.tails:
                ids = torch.tensor([[*one.context.ids, *tail]])
                logits = made(
                    input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=PIXELS.to(made.dtype)
                ).logits
                said = logits[0, -len(tail) - 1 : -1].float().log_softmax(-1)
                tails.append([float(said[i, token]) for i, token in enumerate(tail)])
            scores.append(tails)
    return scores


NAIVE: dict[str, Callable[[Any], Any]] = {
    "one question, 4 options": lambda made: naive(made, QUESTIONS[:1]),
    "5 templates x 4 options": lambda made: naive(made, QUESTIONS),
}
WORK: dict[str, Callable[[Any, bool], Any]] = {
    "one question, 4 options": lambda made, fast: score(made, QUESTIONS[:1], fast),
    "5 templates x 4 options": lambda made, fast: score(made, QUESTIONS, fast),
    "4 rotations x 8 new tokens": lambda made, fast: write(made, CIRCULAR, fast),
    "4 rotations one after the other": lambda made, fast: write(made, CIRCULAR, fast, calls=4),
    "5 templates x 4 rotations x 8 new tokens": lambda made, fast: write(made, UNSTABLE, fast),
}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process, and the result.

    On one thread that is what an idle machine's clock would show, but for caches that others fill too.
    """
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def in_turns(made: Any, name: str, repetitions: int) -> tuple[list[tuple[float, float, float]], Any, Any]:
    """Seconds of the three ways, turn by turn, and the last results of the reference and the fast path."""
    turns = []
    for _ in range(repetitions):
        plain = timed(lambda: WORK[name](made, False))
        textbook = timed(lambda: NAIVE[name](made)) if name in NAIVE else plain
        fast = timed(lambda: WORK[name](made, True))
        turns.append((textbook[0], plain[0], fast[0]))
    return turns, textbook[1], fast[1]


def agreement(plain: Any, fast: Any) -> str:
    if isinstance(plain[0][0], int):
        return "same tokens" if plain == fast else "tokens differ"
    sums = [[[[sum(tail)] for tail in tails] for tails in scores] for scores in (plain, fast)]
    return f"{largest_difference(*sums):.1e} nats"


def peak(name: str, fast: bool, arguments: argparse.Namespace) -> int:
    """Megabytes that a path needs beyond the loaded model, in a process of its own."""
    command = [sys.executable, __file__, "--memory", name, "--path", "fast" if fast else "plain"]
    command += ["--dtype", arguments.dtype, "--threads", str(arguments.threads), *["--small"] * arguments.small]
    return int(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def resident(field: str) -> int:
    """Kilobytes of memory of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", default="")
    parser.add_argument("--path", default="fast")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    made = model(arguments.small, getattr(torch, arguments.dtype))
    if arguments.memory:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before = resident("VmRSS")
        WORK[arguments.memory](made, arguments.path == "fast")
        print((resident("VmHWM") - before) // 1024)
        return
    versions = f"torch {torch.__version__}, transformers {tf.__version__}"
    print(f"{versions}, {arguments.dtype}, {torch.get_num_threads()} threads")
    heads = ("naive", "plain", "fast", "n/f", "p/f", "target")
    print(" " * 41 + "".join(f"{head:>7s}" for head in heads) + f"{'MB':>12s}  agreement")
    for name in WORK:
        turns, expected, found = in_turns(made, name, arguments.repetitions)
        seconds = "".join(f"{median(column):7.2f}" for column in zip(*turns, strict=True))
        ratios = [median(turn[way] / turn[2] for turn in turns) for way in (0, 1)]
        memory = f"{peak(name, False, arguments)} / {peak(name, True, arguments)}"
        print(
            f"{name:41s}{seconds}{ratios[0]:7.1f}{ratios[1]:7.1f}{TARGETS.get(name, '-'):>7}{memory:>12s}  "
            f"{agreement(expected, found)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
