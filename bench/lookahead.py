"""What preparing images in the background costs or saves: the same requests with and without it, in turns.

    python bench/lookahead.py [--device cpu] [--images 24] [--repetitions 5] [--threads 2]

A LLaVA of a few layers with 576 image tokens is asked about photographs of 1280 x 960, two prompts each, by the
driver that a run uses. Prints wall-clock and CPU seconds of both ways and their ratio (with / without), medians of
the turns. On a CPU both share the same cores, so a ratio near 1 is what is to be shown: no harm. On an accelerator
it should fall towards the share of the language model.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers as tf
from PIL import Image, ImageFilter
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import tiny_archs
from snellen.common.decoding import inspect_image
from snellen.models.loading import load_model


def saved(folder: Path) -> Path:
    """A LLaVA with small blocks and images of real size."""
    words = tiny_archs.byte_level(
        [*tiny_archs.SPECIALS, *tiny_archs.ROLES], "$A", eos_token="<|end|>"
    )
    side = {"height": 336, "width": 336}
    processor = tf.LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": 336}, crop_size=side),
        words,
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=tiny_archs.CHAT,
        num_additional_image_tokens=1,
    )
    vision = tf.CLIPVisionConfig(
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=336,
        patch_size=14,
    )
    text = tf.LlamaConfig(
        vocab_size=420,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=2048,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    config = tf.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=5, vision_feature_layer=-2
    )
    torch.manual_seed(0)
    model = tf.LlavaForConditionalGeneration(config)
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


class Photographs(dict[str, bytes]):
    """Images with blurred noise, as JPEG."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.refs = []
        for seed in range(count):
            noise = Image.frombytes("RGB", (320, 240), random.Random(seed).randbytes(320 * 240 * 3))
            file = io.BytesIO()
            noise.resize((1280, 960)).filter(ImageFilter.GaussianBlur(2)).save(
                file, "JPEG", quality=90
            )
            self.refs.append(inspect_image(file.getvalue(), "bench"))
            self[self.refs[-1].digest] = file.getvalue()

    def read(self, image: Any) -> bytes:
        return self[image.digest]


def asked(model: Any, photographs: Photographs, ahead: int) -> tuple[float, float]:
    """Wall-clock and CPU seconds of a run in windows of four images, told of `ahead` images before they come."""
    model._encoder._decoded.clear()
    model._encoder._pixels._cached.clear()
    model._engine.prefix_cache.clear()
    model._engine.vision_tower._cached.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    refs = photographs.refs
    for i in range(0, len(refs), 4):
        model._encoder.expect(refs[i : i + ahead], photographs)
        requests = [
            tiny_archs.ask(text, ref, continuations=("a", "b c"))
            for ref in refs[i : i + 4]
            for text in "xy"
        ]
        assert not any(response.error for response in model.loglikelihood(requests, photographs))
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    photographs = Photographs(arguments.pictures)
    with tempfile.TemporaryDirectory() as folder:
        model = load_model(f"hf:{saved(Path(folder))}?device={arguments.device}")
        asked(model, photographs, 8)
        turns = [
            (asked(model, photographs, 0), asked(model, photographs, 8))
            for _ in range(arguments.repetitions)
        ]
    for place, name in enumerate(("wall-clock", "CPU")):
        without, ahead = (median(turn[way][place] for turn in turns) for way in (0, 1))
        ratio = median(turn[1][place] / turn[0][place] for turn in turns)
        print(f"{name:10s} without {without:.2f} s  with {ahead:.2f} s  ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
