"""The parts of a tiny vision-language model: tokenizer, chat template, processor, network, initialisation.

All of them are plain Hugging Face classes, so that the folder loads like any other model's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen2Config,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

SIDE, PATCH = 64, 8
GRID = SIDE // PATCH
PATCHES = GRID * GRID
MEAN, STD = 0.9, 0.3
"""The pictures are mostly light paper: with its own mean the background is near zero."""

SPECIAL = ("<pad>", "<|end|>", "<image>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% endif %}{% endfor %}"
    "{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{{ '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@dataclass(frozen=True)
class Size:
    """Widths and depths of the two transformers."""

    vision_width: int
    vision_depth: int
    text_width: int
    text_depth: int
    text_mlp: int


SIZES = {
    "tiny": Size(vision_width=128, vision_depth=4, text_width=128, text_depth=6, text_mlp=256),
    "tiny-xs": Size(vision_width=64, vision_depth=3, text_width=96, text_depth=3, text_mlp=224),
}


def tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE of `texts`: a word is at most one token wide, capitals and digits stand alone.

    So a mark is always one token, and a word in capitals is spelled letter by letter.
    """
    bpe = Tokenizer(models.BPE(unk_token=None))
    words = Regex(r" ?[A-Z]?[a-z]+| ?[A-Z]| ?[0-9]| ?[^\w\s]| ?\w+|\s")
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=1200,
            min_frequency=2,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token="<pad>",
        eos_token="<|end|>",
        additional_special_tokens=list(SPECIAL[2:]),
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    fast.chat_template = CHAT
    return fast


def processor(words: PreTrainedTokenizerFast) -> LlavaProcessor:
    pixels = CLIPImageProcessorPil(
        size={"height": SIDE, "width": SIDE},
        do_center_crop=False,
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
        resample=2,  # bilinear, with smoothing: both of transformers' back ends know it
    )
    return LlavaProcessor(
        pixels,
        words,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        image_token="<image>",
        chat_template=CHAT,
        num_additional_image_tokens=1,
    )


def network(words: PreTrainedTokenizerFast, size: Size) -> LlavaForConditionalGeneration:
    vision = CLIPVisionConfig(
        hidden_size=size.vision_width,
        intermediate_size=size.vision_width * 3,
        num_hidden_layers=size.vision_depth,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
        projection_dim=size.vision_width,
        initializer_range=0.06,
    )
    text = Qwen2Config(
        vocab_size=len(words),
        hidden_size=size.text_width,
        intermediate_size=size.text_mlp,
        num_hidden_layers=size.text_depth,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
        initializer_range=0.06,
        use_sliding_window=False,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
        tie_word_embeddings=True,
        image_seq_length=PATCHES,
    )
    model = LlavaForConditionalGeneration(config)
    helpful_start(model.model.language_model)
    model.generation_config.pad_token_id = words.pad_token_id
    model.generation_config.eos_token_id = words.eos_token_id
    model.generation_config.bos_token_id = None
    return model


@torch.no_grad()
def helpful_start(decoder: Any, sharpness: float = 7.0, scale: float = 0.08) -> None:
    """Initialise the decoder so that looking back and looking up are near.

    The heads of the first layer prefer the tokens 1, 2, 3 and 4 places back: with rotary positions a
    bias on query and key is a preference for a distance. Later layers start with W_q = W_k (like finds
    like) and all with W_o = W_v^T (what is found is copied), after "Mimetic Initialization of
    Self-Attention Layers" (Trockman & Kolter 2023). From a plain start, binding marks to options does
    not form within a thousand steps.
    """
    config = decoder.config
    width, heads = config.hidden_size, config.num_attention_heads
    head = width // heads
    pace = 1.0 / 10000.0 ** (torch.arange(0, head, 2).float() / head)
    for depth, layer in enumerate(decoder.layers):
        attention = layer.self_attn
        if depth:
            attention.q_proj.weight.normal_(0, scale)
            attention.k_proj.weight.copy_(attention.q_proj.weight)
        else:
            for number in range(heads):
                rows, back = slice(number * head, (number + 1) * head), number + 1
                attention.q_proj.weight[rows] *= 0.1
                attention.k_proj.weight[rows] *= 0.1
                attention.q_proj.bias[rows] = torch.cat(
                    [torch.full((head // 2,), sharpness), torch.zeros(head // 2)]
                )
                attention.k_proj.bias[rows] = sharpness * torch.cat(
                    [torch.cos(back * pace), torch.sin(back * pace)]
                )
        value = torch.randn(width, width) / width**0.5
        attention.v_proj.weight.copy_(value)
        attention.o_proj.weight.copy_(value.T)


def save(
    model: LlavaForConditionalGeneration, words: PreTrainedTokenizerFast, folder: Path
) -> None:
    """Write the folder: half precision, and the files that transformers 4 and 5 look for."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    model.half().save_pretrained(folder)
    model.float().load_state_dict(state)
    parts = processor(words)
    parts.save_pretrained(folder)
    parts.image_processor.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    for name, change in (
        ("preprocessor_config.json", {"image_processor_type": "CLIPImageProcessor"}),
        ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ):
        path = folder / name
        content = {**json.loads(path.read_text()), **change}
        if "extra_special_tokens" in content:  # transformers 4 expects another name for the list
            content["additional_special_tokens"] = content.pop("extra_special_tokens")
        path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def seeded(seed: int) -> random.Random:
    """Seed the global generator of torch and return one of Python's."""
    torch.manual_seed(seed)
    return random.Random(seed)
