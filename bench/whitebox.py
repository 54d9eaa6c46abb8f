"""What sharing saves: a LLaVA-like random model with 576 image tokens, three ways in one run.

naive   the model's own forward for every option, the image encoded again, logits at every place;
        for generation the model's own `generate`, one prompt at a time
plain   Snellen's exact path (`scoring=exact`): the same, through Snellen
fast    Snellen's shared path

    python bench/whitebox.py [--size small|174m|3b|7b] [--dtype bfloat16] [--threads 1]
                                                            times, as in docs/evidence/whitebox.md
    python bench/whitebox.py --counts [--image-tokens]      what is run: forward passes, tokens, images; no times
    python bench/whitebox.py --image-tokens                 one question, for five real numbers of tokens an image
    python bench/whitebox.py --device cuda                  an accelerator: 7b in bfloat16, and its throughput

The three take turns, `--repetitions` times. Prints seconds (of the processor on a CPU, of the clock elsewhere) and
the ratios naive / fast and plain / fast, medians over the turns, the largest difference of a summed
log-probability, and peak memory beyond the model, plain / fast. Counts do not depend on what else the machine does.
Random weights: speed and equality only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import transformers as tf

from probe_cost import counting
from snellen.models.hf.cached_forward import (
    prefill,
)
from snellen.models.hf.caches import (
    copy_cache,
)
from snellen.models.hf.decoding import token_picker
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import kind_of
from snellen.models.hf.model_layout import read_layout
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.tolerance import largest_difference
from snellen.records import Decoding, Message, Request, TextPart, Variant

IMAGE, QUESTION, PATCH = 32000, 55, 14
FAST = FastPaths("tree", shared=True)
OWN_CACHE = FastPaths("rows")
"""How `scoring=exact` generates replies: each from the cache of its own prompt."""
TARGETS = {
    "one question, 4 options": 4.8,
    "5 templates x 4 options": 18.0,
    "4 rotations x 8 new tokens": 3.3,
    "5 templates x 4 rotations x 8 new tokens": 9.0,
}
IMAGE_TOKENS = {
    64: "a resampler, or SmolVLM's crop",
    256: "Gemma 3, InternVL's crop",
    576: "LLaVA-1.5",
    1024: "Qwen2-VL at 896 x 896",
    2880: "LLaVA-NeXT, five crops",
}
"""Numbers of tokens an image, and who has about as many."""


class Size(NamedTuple):
    """Width, inner width, blocks and heads of the vision tower and of the text model."""

    vision: tuple[int, int, int, int]
    text: tuple[int, int, int, int]


SIZES = {
    "tiny": Size((32, 64, 2, 2), (32, 64, 1, 2)),
    "small": Size((512, 2048, 2, 8), (768, 2048, 2, 12)),
    "174m": Size((512, 2048, 12, 8), (768, 2048, 12, 12)),
    "3b": Size((1024, 4096, 24, 16), (3072, 8192, 28, 24)),
    "7b": Size((1024, 4096, 24, 16), (4096, 11008, 32, 32)),
}
"""174m: a vision tower of 38 M and a text model of 110 M parameters. 3b: the tower of LLaVA-1.5 before a
text model with the sizes of Llama 3.2 3B. 7b: the sizes of LLaVA-1.5 7B."""


def model(size: Size, image_tokens: int, dtype: torch.dtype, device: str) -> Any:
    """A LLaVA with random weights, made on the device itself."""
    torch.manual_seed(0)
    (vision_width, vision_inner, vision_blocks, vision_heads), (width, inner, blocks, heads) = size
    vision = tf.CLIPVisionConfig(
        hidden_size=vision_width,
        intermediate_size=vision_inner,
        num_hidden_layers=vision_blocks,
        num_attention_heads=vision_heads,
        image_size=side_of(image_tokens),
        patch_size=PATCH,
        projection_dim=512,
    )
    text = tf.LlamaConfig(
        vocab_size=32064,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=blocks,
        num_attention_heads=heads,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.05 if width < 2048 else 0.015,
    )
    config = tf.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=IMAGE,
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
        dtype=dtype,
    )
    with torch.device(device):
        made = tf.AutoModelForImageTextToText.from_config(config, dtype=dtype).eval()
    made.generation_config.eos_token_id = None
    return made


def crops_of(image_tokens: int) -> int:
    """1 for a square of patches, else the number of crops of 576 tokens."""
    return 1 if isqrt(image_tokens) ** 2 == image_tokens else image_tokens // 576


def side_of(image_tokens: int) -> int:
    """Pixels of a side of the image, or of each of its crops."""
    return PATCH * isqrt(image_tokens // crops_of(image_tokens))


class Work:
    """The prompts of all rows, about one image of `image_tokens` tokens."""

    def __init__(self, image_tokens: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def words(count: int) -> tuple[int, ...]:
            return tuple(torch.randint(10, 31000, (count,), generator=generator).tolist())

        side = side_of(image_tokens)
        self.pixels = torch.randn(crops_of(image_tokens), 3, side, side, generator=generator)
        head = (*words(5), *(IMAGE,) * image_tokens)

        def prompt(*text: int) -> EncodedPrompt:
            return EncodedPrompt((*head, *text), {"pixel_values": self.pixels}, ("picture",))

        tails = tuple(words(n) for n in (1, 3, 5, 8))
        templates = [words(QUESTION) for _ in range(5)]
        opening, closing, shown = words(25), words(6), [words(7) for _ in range(4)]
        rotations = [(*opening, *sum(shown[i:] + shown[:i], ()), *closing) for i in range(4)]
        self.questions = [ContinuedPrompt(prompt(*template), tails) for template in templates]
        self.circular = [prompt(*rotation) for rotation in rotations]
        self.unstable = [
            prompt(*template[:10], *rotation) for template in templates for rotation in rotations
        ]


@dataclass(frozen=True)
class Row:
    """One kind of work, done in three ways."""

    naive: Callable[[], Any]
    plain: Callable[[], Any]
    fast: Callable[[], Any]


def rows_of(made: Any, work: Work) -> dict[str, Row]:
    one, circular, unstable = work.questions[:1], work.circular, work.unstable

    def scoring(asked: list[ContinuedPrompt]) -> Row:
        return Row(
            lambda: naive(made, asked, work.pixels),
            lambda: score(made, asked, False),
            lambda: score(made, asked, True),
        )

    def writing(rows: list[EncodedPrompt], calls: int = 1) -> Row:
        own = lambda: write(made, rows, False)  # noqa: E731
        return Row(own, own, lambda: write(made, rows, True, calls))

    return {
        "one question, 4 options": scoring(one),
        "5 templates x 4 options": scoring(work.questions),
        "4 rotations x 8 new tokens": writing(circular),
        "4 rotations one after the other": writing(circular, calls=4),
        "5 templates x 4 rotations x 8 new tokens": writing(unstable),
    }


def request(number: int) -> Request:
    return Request(
        "bench",
        str(number),
        Variant(),
        (Message("user", (TextPart(str(number)),)),),
        decoding=Decoding(8),
    )


def fresh(made: Any, fast_paths: FastPaths, rows: int) -> Engine:
    made.model.vision_tower.__dict__.pop("forward", None)
    return Engine(read_layout(made, 0), rows, 16384, fast_paths)


def write(made: Any, rows: list[EncodedPrompt], fast: bool, calls: int = 1) -> list[list[int]]:
    requests = [request(i) for i in range(len(rows))]
    engine = fresh(made, FAST if fast else PLAIN, 32)
    if fast:
        size, written = len(rows) // calls, []
        for i in range(0, len(rows), size):
            pick = token_picker(engine.layout, None, requests[i : i + size])  # type: ignore[arg-type]
            written += engine.generate(rows[i : i + size], pick, 8)
        return written
    written = []
    for row, one in zip(rows, requests, strict=True):
        pick = token_picker(engine.layout, None, [one])  # type: ignore[arg-type]
        written += fresh(made, PLAIN, 1).generate([row], pick, 8, OWN_CACHE)
    return written


def score(made: Any, asked: list[ContinuedPrompt], fast: bool) -> Any:
    return fresh(made, FAST if fast else PLAIN, 32 if fast else 1).score(asked)


def naive(made: Any, asked: list[ContinuedPrompt], pixels: Any) -> Any:
    """A textbook loop over options."""
    fresh(made, PLAIN, 1)
    made.model.vision_tower.__dict__.pop("forward", None)
    scores, shown = [], pixels.to(made.device, made.dtype)
    with torch.inference_mode():
        for one in asked:
            tails = []
            for tail in one.tails:
                ids = torch.tensor([[*one.context.ids, *tail]], device=made.device)
                logits = made(
                    input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=shown
                ).logits
                said = logits[0, -len(tail) - 1 : -1].float().log_softmax(-1)
                tails.append([float(said[i, token]) for i, token in enumerate(tail)])
            scores.append(tails)
    return scores


def seconds_of(made: Any, work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `work` takes, and its result: of this process on a CPU, of the clock on an accelerator.

    On one thread of a CPU that is what an idle machine's clock would show, but for caches that others fill too.
    """
    clock = time.process_time if kind_of(made) == "cpu" else time.perf_counter
    settle(made)
    started = clock()
    result = work()
    settle(made)
    return clock() - started, result


def settle(made: Any) -> None:
    """Wait until an accelerator has done all that it was given."""
    if kind_of(made) == "accelerator":
        torch.accelerator.synchronize()


@contextmanager
def counted(made: Any) -> Iterator[dict[str, int]]:
    """Counts forward passes of the text model, tokens in them, and rows that go through the vision tower."""
    found = {"passes": 0, "tokens": 0, "pictures": 0}
    first = (
        made.model.vision_tower.embeddings
        if hasattr(made.model.vision_tower, "embeddings")
        else None
    )
    part = first or made.model.vision_tower.vision_model.embeddings

    def seen(module: Any, given: Any, output: Any) -> None:
        found["pictures"] += output.shape[0]

    hook = part.register_forward_hook(seen)
    try:
        with counting(read_layout(made, 0)) as cost:
            yield found
    finally:
        hook.remove()
        found.update(passes=cost.passes, tokens=cost.tokens)


def counts(rows: dict[str, Row], made: Any) -> dict[str, dict[str, dict[str, int]]]:
    """What each way runs for each row."""
    table: dict[str, dict[str, dict[str, int]]] = {}
    for name, row in rows.items():
        for way in ("naive", "plain", "fast"):
            with counted(made) as found:
                getattr(row, way)()
            table.setdefault(name, {})[way] = found
    return table


def show_counts(every: bool) -> None:
    """Print what each way runs. A model of a few thousand weights has as many passes as a large one."""
    heads = (f"{way}: passes  tokens images" for way in ("naive", "plain", "fast"))
    print(" " * 46 + "".join(f"{head:>31s}" for head in heads))
    for image_tokens in IMAGE_TOKENS if every else (576,):
        made = model(SIZES["tiny"], image_tokens, torch.float32, "cpu")
        for name, ways in counts(rows_of(made, Work(image_tokens)), made).items():
            columns = (
                f"{w['passes']:14d}{w['tokens']:8,d}{w['pictures']:9d}" for w in ways.values()
            )
            print(f"{image_tokens:4d} {name:41s}" + "".join(columns), flush=True)


def agreement(plain: Any, fast: Any) -> str:
    if isinstance(plain[0][0], int):
        return "same tokens" if plain == fast else "tokens differ"
    sums = [[[[sum(tail)] for tail in tails] for tails in scores] for scores in (plain, fast)]
    return f"{largest_difference(*sums):.1e} nats"


def peak(name: str, made: Any, row: Row, fast: bool, arguments: argparse.Namespace) -> int:
    """Megabytes that a path needs beyond the loaded model; on a CPU in a process of its own."""
    if kind_of(made) == "accelerator":
        torch.accelerator.reset_peak_memory_stats()
        before = torch.accelerator.memory_allocated()
        (row.fast if fast else row.plain)()
        return int(torch.accelerator.max_memory_allocated() - before) >> 20
    command = [sys.executable, __file__, "--memory", name, "--path", "fast" if fast else "plain"]
    command += [
        "--dtype",
        arguments.dtype,
        "--threads",
        str(arguments.threads),
        "--size",
        arguments.size,
    ]
    return int(
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    )


def resident(field: str) -> int:
    """Kilobytes of memory of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


def compare(
    name: str, made: Any, row: Row, arguments: argparse.Namespace, target: str, memory: bool
) -> None:
    """Time the three ways in turns, and print a line."""
    turns = []
    for _ in range(arguments.repetitions):
        plain = seconds_of(made, row.plain)
        textbook = plain if row.naive is row.plain else seconds_of(made, row.naive)
        fast = seconds_of(made, row.fast)
        turns.append((textbook[0], plain[0], fast[0]))
    columns = "".join(f"{median(column):7.2f}" for column in zip(*turns, strict=True))
    ratios = [median(turn[way] / turn[2] for turn in turns) for way in (0, 1)]
    held = (
        " / ".join(str(peak(name, made, row, fast, arguments)) for fast in (False, True))
        if memory
        else "-"
    )
    print(
        f"{name:41s}{columns}{ratios[0]:7.1f}{ratios[1]:7.1f}{target:>7}{held:>12s}  {agreement(textbook[1], fast[1])}",
        flush=True,
    )


def show_throughput(made: Any, work: Work, repetitions: int) -> None:
    """Tokens a second of a prefill, of decoding, and what share they are of a matrix product and of a copy here.

    The peaks are measured in the same run, so that no table of devices is needed: the product of two square
    matrices, and reading one buffer and writing another.
    """
    layout, context = read_layout(made, 0), work.questions[0].context
    language_model = made.model.language_model
    weights = sum(part.numel() for part in language_model.parameters())
    width = 8192 if kind_of(made) == "accelerator" else 1024
    left = torch.randn(width, width, device=made.device, dtype=made.dtype)

    def best(run: Callable[[], Any]) -> float:
        run()
        return min(seconds_of(made, run)[0] for _ in range(repetitions))

    with torch.inference_mode():
        product = 2 * width**3 / best(lambda: left @ left)
        buffer = torch.empty(
            2**28 if width == 8192 else 2**24, device=made.device, dtype=torch.uint8
        )
        copied = 2 * buffer.numel() / best(buffer.clone)
        read = best(lambda: prefill(layout, [context]))
        embedded = made.get_input_embeddings()(torch.tensor([context.ids], device=made.device))
        text = best(lambda: language_model(inputs_embeds=embedded, use_cache=True))
        state = prefill(layout, [context])
        token = torch.tensor([[5]], device=made.device)
        step = best(
            lambda: made(input_ids=token, past_key_values=copy_cache(state.cache), use_cache=True)
        )
    tokens = len(context.ids)
    held = weights * made.dtype.itemsize
    print(
        f"a matrix product reaches {product / 1e12:.2f} TFLOP/s here, a copy {copied / 1e9:.1f} GB/s"
    )
    print(f"prefill, image included {tokens / read:10.0f} tokens/s")
    share = 2 * weights * tokens / text / product
    print(
        f"prefill, text model       {tokens / text:10.0f} tokens/s, {share:.0%} of the product's rate"
    )
    print(
        f"decoding, one row         {1 / step:10.1f} tokens/s, {held / step / copied:.0%} of the copy's rate"
    )
    table = counts(dict(list(rows_of(made, work).items())[:2]), made)
    for name, ways in table.items():
        saved = ways["naive"]["tokens"] / ways["fast"]["tokens"]
        print(f"{name}: {saved:.1f} times fewer tokens are read than by the naive way")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--image-tokens", action="store_true")
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--memory", default="", help=argparse.SUPPRESS)
    parser.add_argument("--path", default="fast", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    here = torch.device(arguments.device).type == "cpu"
    arguments.size = arguments.size or ("174m" if here else "7b")
    arguments.dtype = arguments.dtype or ("float32" if here else "bfloat16")
    torch.set_num_threads(arguments.threads)

    def loaded(image_tokens: int) -> tuple[Any, Work]:
        dtype = getattr(torch, arguments.dtype)
        return model(SIZES[arguments.size], image_tokens, dtype, arguments.device), Work(
            image_tokens
        )

    if arguments.memory:
        made, work = loaded(576)
        row = rows_of(made, work)[arguments.memory]
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
        before = resident("VmRSS")
        (row.fast if arguments.path == "fast" else row.plain)()
        print((resident("VmHWM") - before) // 1024)
        return
    if arguments.counts:
        show_counts(arguments.image_tokens)
        return
    versions = f"torch {torch.__version__}, transformers {tf.__version__}"
    print(
        f"{versions}, {arguments.device}, {arguments.size}, {arguments.dtype}, {torch.get_num_threads()} threads"
    )
    heads = ("naive", "plain", "fast", "n/f", "p/f", "target")
    print(" " * 41 + "".join(f"{head:>7s}" for head in heads) + f"{'MB':>12s}  agreement")
    if arguments.image_tokens:
        for image_tokens in IMAGE_TOKENS:
            made, work = loaded(image_tokens)
            row = rows_of(made, work)["one question, 4 options"]
            compare(
                f"one question, {image_tokens} image tokens",
                made,
                row,
                arguments,
                "-",
                memory=False,
            )
        return
    made, work = loaded(576)
    for name, row in rows_of(made, work).items():
        compare(name, made, row, arguments, str(TARGETS.get(name, "-")), memory=True)
    if arguments.throughput or not here:
        show_throughput(made, work, arguments.repetitions)


if __name__ == "__main__":
    main()
