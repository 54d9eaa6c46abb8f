"""Questions a second of whole runs, `snellen run hf:FOLDER BENCHMARK`, against plain loops over transformers.

    python bench/run_speed.py [--size small|174m|3b|7b] [--dtype float32] [--questions 32]
    python bench/run_speed.py --device cuda --questions 256     an accelerator: 3b in bfloat16
    python bench/run_speed.py --profile 12                      and the costliest calls of a run, on CPU and device

A LLaVA with random weights and 576 image tokens is written to a folder, and loaded from it as any model is. It is
asked `--questions` of four options, one or four about each photograph, by generation (`--new-tokens` at most; random
weights write them all) and by likelihood: by Snellen, with what is shared chosen by itself; with `scoring=exact` and
with `batch_size` as in `--rows`; and by two loops as model cards have them, one question after the other and `--batch`
at a time, padded on the left. Prints seconds and questions a second of each, images decoded and text written
included, the model's loading not: CPU seconds of the process on a CPU, which other programs change little, and seconds of
the clock on an accelerator. Exact and loops are asked an eighth of the questions, since they are slow.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import tiny_archs
import whitebox
from snellen.api import build, evaluate
from snellen.models.loading import load_model

OPTIONS = ("a red kite", "the dog", "two large boats on a lake", "nothing")


def write_model(folder: Path, size: str, device: str, dtype: torch.dtype) -> None:
    """A LLaVA of `size` with a processor; its replies end nowhere but at their limit."""
    marks = [*tiny_archs.SPECIALS, *tiny_archs.ROLES]
    words = tiny_archs.byte_level(
        marks, "$A", eos_token="<|end|>", additional_special_tokens=["<image>"]
    )
    side = {"height": 336, "width": 336}
    processor = tf.LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 336}, crop_size=side),
        words,
        patch_size=whitebox.PATCH,
        vision_feature_select_strategy="default",
        chat_template=tiny_archs.CHAT,
        num_additional_image_tokens=1,
    )
    model = whitebox.model(whitebox.SIZES[size], 576, dtype, device)
    model.config.image_token_index = model.config.image_token_id = processor.image_token_id
    model.generation_config.eos_token_id = 32063
    model.save_pretrained(folder, max_shard_size="2GB")
    processor.save_pretrained(folder)


def write_benchmark(folder: Path, questions: int, each: int, seed: int) -> str:
    """Photographs of 1280 x 960 with `each` questions of four options about every one."""
    source = folder / "source"
    source.mkdir(parents=True)
    rng, rows = random.Random(seed), []

    def photograph(number: int) -> None:
        noise = Image.frombytes(
            "RGB", (320, 240), random.Random(f"{seed} {number}").randbytes(320 * 240 * 3)
        )
        noise.resize((1280, 960)).save(source / f"{number}.jpg", quality=90)

    with ThreadPoolExecutor() as pool:
        list(pool.map(photograph, range(questions // each)))
    for number in range(questions // each):
        for question in range(each):
            words = " ".join(
                rng.sample(
                    "what which colour shape animal left right behind large small".split(), 6
                )
            )
            row = {
                "id": f"{number}-{question}",
                "image": f"{number}.jpg",
                "question": f"{words} {number}?",
            }
            rows.append({**row, "options": list(OPTIONS), "answer": rng.choice("ABCD")})
    (source / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build(source / "rows.jsonl", name="speed", to=folder / "speed")
    return str(folder / "speed")


class Timer:
    """Seconds and questions a second, a line each."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._clock = time.process_time if device == "cpu" else time.perf_counter

    def __call__(self, name: str, questions: int, run: Callable[[], Any]) -> Any:
        self._settle()
        started = self._clock()
        result = run()
        self._settle()
        seconds = self._clock() - started
        print(
            f"{name:58s}{questions:7d}{seconds:9.2f} s{questions / seconds:9.2f} a second",
            flush=True,
        )
        return result

    def _settle(self) -> None:
        if self._device != "cpu":
            torch.accelerator.synchronize()


class Loop:
    """What model cards do: processor, `generate` or a forward for each option."""

    def __init__(self, folder: Path, source: Path, device: str, dtype: torch.dtype) -> None:
        self._processor = tf.AutoProcessor.from_pretrained(folder)
        self._processor.tokenizer.padding_side = "left"
        self._model = (
            tf.AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).to(device).eval()
        )
        self._source = source
        self.rows = [json.loads(line) for line in (source / "rows.jsonl").read_text().splitlines()]

    def _inputs(self, rows: Sequence[Any], texts: Sequence[str]) -> Any:
        pictures = [Image.open(self._source / row["image"]).convert("RGB") for row in rows]
        inputs = self._processor(
            images=pictures, text=list(texts), return_tensors="pt", padding=True
        )
        return inputs.to(self._model.device, self._model.dtype)

    @staticmethod
    def _prompt(row: Any) -> str:
        listed = "\n".join(
            f"({letter}) {option}" for letter, option in zip("ABCD", row["options"], strict=True)
        )
        return f"<|user|><image>{row['question']}\n{listed}\nAnswer with the option's letter.<|end|><|assistant|>"

    @torch.inference_mode()
    def generate(self, rows: Sequence[Any], batch: int, new_tokens: int) -> None:
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            inputs = self._inputs(part, [self._prompt(row) for row in part])
            said = self._model.generate(
                **inputs, max_new_tokens=new_tokens, do_sample=False, pad_token_id=0
            )
            self._processor.batch_decode(
                said[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
            )

    @torch.inference_mode()
    def likelihood(self, rows: Sequence[Any], batch: int) -> None:
        """`batch` options in a forward."""
        pairs = [(row, option) for row in rows for option in row["options"]]
        for start in range(0, len(pairs), batch):
            part = pairs[start : start + batch]
            inputs = self._inputs(
                [row for row, _ in part], [self._prompt(row) + option for row, option in part]
            )
            logits = self._model(**inputs).logits[:, :-1].float().log_softmax(-1)
            logits.gather(-1, inputs["input_ids"][:, 1:, None])[:, -8:, 0].sum(-1).tolist()


def run(model: Any, benchmark: str, protocol: str, limit: int, new_tokens: int, runs: Path) -> Any:
    """One run into a folder of its own."""
    to = tempfile.mkdtemp(dir=runs)
    settings = {"limit": limit, "max_new_tokens": new_tokens, "error_budget": 0.0}
    return evaluate(model, benchmark, protocol, runs=to, name="speed", **settings)


EACH = {1: "one question an image", 4: "four questions an image"}
PROTOCOLS = ("vanilla", "likelihood")


def measure(arguments: argparse.Namespace, home: Path) -> None:
    device, dtype, tokens = arguments.device, getattr(torch, arguments.dtype), arguments.new_tokens
    timed, folder = Timer(device), home / "model"
    write_model(folder, arguments.size, device, dtype)
    # Each kind of run has images of its own, of which nothing can be kept from the run before.
    kinds = [(each, protocol) for each in EACH for protocol in PROTOCOLS]
    benchmarks = {
        kind: write_benchmark(home / f"{number}", arguments.questions, kind[0], number)
        for number, kind in enumerate(kinds)
    }
    warm = write_benchmark(home / "warm", 4, 4, len(kinds))
    few = max(4, arguments.questions // 8)
    short = {"float32": "float32", "bfloat16": "bf16", "float16": "fp16"}[arguments.dtype]
    name = f"hf:{folder}?device={device}&dtype={short}"

    def asked(options: str, limit: int) -> Any:
        model: Any = timed(f"loading{options}", 1, lambda: load_model(name + options))
        print(f"    {model.fingerprint()['scoring']}; {model.fingerprint()['attention']}")
        for protocol in PROTOCOLS:  # spot checks of the first request, and first kernels
            run(model, warm, protocol, 4, tokens, home)
        for (each, protocol), benchmark in benchmarks.items():
            work = partial(run, model, benchmark, protocol, limit, tokens, home)
            timed(f"{protocol}{options}, {EACH[each]}", limit, work)
        return model

    model = asked("", arguments.questions)
    for protocol in PROTOCOLS if arguments.profile else ():
        work = partial(run, model, benchmarks[4, protocol], protocol, few, tokens, home)
        profile(work, arguments.profile, protocol)
    for rows in arguments.rows:
        model = None  # which leaves its memory to the next
        model = asked(f"&batch_size={rows}", arguments.questions)
    model = None
    model = asked("&scoring=exact", few)
    model = None
    loop = Loop(folder, home / "0" / "source", device, dtype)
    loop.generate(loop.rows[:1], 1, tokens)
    part = loop.rows[:few]
    for batch in (1, arguments.batch):
        timed(
            f"a loop over generate, {batch} at a time",
            few,
            partial(loop.generate, part, batch, tokens),
        )
        timed(f"a loop over options, {batch} at a time", few, partial(loop.likelihood, part, batch))


def profile(work: Callable[[], Any], rows: int, name: str) -> None:
    """The costliest calls of `work`: Python's by their own time, torch's by time on the device."""
    import cProfile
    import pstats

    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    kinds = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(ProfilerActivity.CUDA)
    with torch_profile(activities=kinds, acc_events=True) as traced:
        work()
    order = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    table = traced.key_averages()
    for key in dict.fromkeys((order, "self_cpu_time_total")):
        print(f"--- {name}, {key}")
        print(table.table(sort_by=key, row_limit=rows, max_name_column_width=60))
    python = cProfile.Profile()
    python.runcall(work)
    pstats.Stats(python).sort_stats("tottime").print_stats(rows)
    pstats.Stats(python).sort_stats("cumtime").print_stats("snellen", 2 * rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=whitebox.SIZES, default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="")
    for name, value in (
        ("--questions", 32),
        ("--new-tokens", 8),
        ("--batch", 16),
        ("--profile", 0),
    ):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--rows", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    here = torch.device(arguments.device).type == "cpu"
    arguments.size = arguments.size or ("small" if here else "3b")
    arguments.dtype = arguments.dtype or ("float32" if here else "bfloat16")
    print(f"torch {torch.__version__}, transformers {tf.__version__}, {arguments}")
    with tempfile.TemporaryDirectory() as home:
        measure(arguments, Path(home))


if __name__ == "__main__":
    main()
