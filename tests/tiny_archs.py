"""Complete model folders of a few hundred kilobytes, with random weights, made on the fly."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from PIL import Image
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from snellen.images import inspect_image
from snellen.records import Decoding, ImagePart, ImageRef, Message, Request, TextPart, Variant

CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
SPECIALS = ["<pad>", "<|end|>", "<image>", "<|user|>", "<|assistant|>", "<|system|>"]
CORPUS = [
    "What colour is the circle on the left of the picture? The answer is (A) red square.",
    "Look at the picture and answer the question. Options: (A) blue; (B) dark green; (C) no; (D) yes.",
    "How many red triangles are there? There are two of them, beside the large black star.",
]


class Pictures(dict[str, bytes]):
    """Images in memory, by digest."""

    def add(self, colour: str, size: tuple[int, int] = (40, 30)) -> ImageRef:
        buffer = io.BytesIO()
        Image.new("RGB", size, colour).save(buffer, "PNG")
        image = inspect_image(buffer.getvalue(), colour)
        self[image.digest] = buffer.getvalue()
        return image

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def ask(text: str, *images: ImageRef, reply: str | None = None, **fields: Any) -> Request:
    """A request of one user turn; `reply` opens the assistant's turn."""
    messages = [Message("user", (*(ImagePart(image) for image in images), TextPart(text)))]
    if reply is not None:
        messages.append(Message("assistant", (TextPart(reply),)))
    kind = "loglikelihood" if "continuations" in fields else "generate"
    fields.setdefault("decoding", Decoding(max_new_tokens=6))
    return Request("tiny", text, Variant(), tuple(messages), kind=kind, **fields)


def byte_tokenizer() -> Any:
    """Byte-level BPE: any text round-trips."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\w+|\s|[^\w\s]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS * 3, trainer)
    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="<|end|>", additional_special_tokens=SPECIALS[2:]
    )
    tokenizer.chat_template = CHAT
    return tokenizer


def sharpen(model: Any) -> Any:
    """Large random weights: with small ones all tokens are equally likely and equality proves nothing."""
    generator = torch.Generator().manual_seed(0)
    for name, values in model.named_parameters():
        if values.ndim > 1:
            values.data.normal_(0, 0.12, generator=generator)
        elif "norm" not in name and "bias" in name:
            values.data.normal_(0, 0.05, generator=generator)
        elif "gate" in name:
            values.data.fill_(0.7)
    return model.eval()


def llava(folder: Path) -> Path:
    """A LLaVA with 16 image tokens."""
    tokenizer = byte_tokenizer()
    pixels = CLIPImageProcessorPil(size={"height": 32, "width": 32}, do_center_crop=False)
    processor = tf.LlavaProcessor(
        pixels,
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token="<image>",
        chat_template=CHAT,
        num_additional_image_tokens=1,
    )
    vision = tf.CLIPVisionConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8
    )
    text = tf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    config = tf.LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
    )
    model = sharpen(tf.LlavaForConditionalGeneration(config))
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = 0, 1
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
