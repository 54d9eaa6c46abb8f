"""Complete model folders of a few hundred kilobytes, with random weights, made on the fly."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transformers as tf
from PIL import Image
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.idefics2.image_processing_pil_idefics2 import Idefics2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import (
    LlavaNextImageProcessorPil,
)
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

import tiny_configs
from snellen.common.decoding import inspect_image
from snellen.records import Decoding, ImagePart, ImageRef, Message, Request, TextPart, Variant

CHAT = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
SPECIALS = ["<pad>", "<bos>", "<eos>", "<boi>", "<eoi>", "<image>"]
"""Their places are the ids that tiny_configs gives them."""
ROLES = ["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
SIDE = {"height": 32, "width": 32}
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


def byte_level(specials: list[str] = SPECIALS, ends: str = "<bos> $A", **names: Any) -> Any:
    """Byte-level BPE, as GPT-2's: any text round-trips. `ends` are the tokens put around a text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(CORPUS * 3, trainer)
    named = [(token, i) for i, token in enumerate(specials) if token in ends]
    made.post_processor = processors.TemplateProcessing(single=ends, special_tokens=named)
    given = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", **names}
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, **given)


def sentence_piece() -> Any:
    """Unigram with the blank as part of the word, as SentencePiece's: `_red`."""
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=160, special_tokens=[*SPECIALS, "<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(CORPUS * 3, trainer)
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
    )


def unigram(pieces: list[str], **names: Any) -> Any:
    """Unigram as in Fuyu's folder: a blank is put before every text, and control tokens are ordinary pieces of the
    vocabulary, which the tokenizer does not know to be special: `names` of others are not used."""
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=160,
        initial_alphabet=sorted(set("".join(CORPUS))),
        unk_token="<unk>",
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS * 3, trainer)
    learnt = [
        entry for entry in json.loads(trained.to_str())["model"]["vocab"] if entry[0] not in pieces
    ]
    vocabulary = [*((piece, 0.0) for piece in pieces), *map(tuple, learnt)]
    made = Tokenizer(models.Unigram(vocabulary, unk_id=pieces.index("<unk>")))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    made.decoder = decoders.Metaspace()
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
    )


def word_piece() -> Any:
    """WordPiece between [CLS] and [SEP], as BERT's."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    names = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    made.train_from_iterator(
        CORPUS * 3,
        trainers.WordPieceTrainer(vocab_size=400, special_tokens=names, show_progress=False),
    )
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
    )


def _llava() -> Any:
    words = byte_level(
        [*SPECIALS, *ROLES],
        "$A",
        eos_token="<|end|>",
        additional_special_tokens=["<image>", *ROLES],
    )
    return tf.LlavaProcessor(
        CLIPImageProcessorPil(size=SIDE, do_center_crop=False),
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        chat_template=CHAT,
        num_additional_image_tokens=1,
    )


def _llava_next() -> Any:
    pixels = LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size=SIDE, image_grid_pinpoints=[[32, 32], [64, 32]]
    )
    words = byte_level(additional_special_tokens=["<image>"])
    return tf.LlavaNextProcessor(
        pixels,
        words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def _idefics2() -> Any:
    names = ["<fake_token_around_image>", "<end_of_utterance>"]
    words = byte_level([*SPECIALS, *names], additional_special_tokens=["<image>", *names])
    pixels = Idefics2ImageProcessorPil(
        size={"longest_edge": 32, "shortest_edge": 24}, do_image_splitting=False
    )
    return tf.Idefics2Processor(pixels, words, image_seq_len=6)


def _florence2() -> Any:
    pixels = CLIPImageProcessorPil(size={"height": 64, "width": 64}, do_center_crop=False)
    pixels.image_seq_length = 5
    words = byte_level(ends="<bos> $A <eos>", extra_special_tokens={"image_token": "<image>"})
    return tf.Florence2Processor(pixels, words)


def _idefics3() -> Any:
    names = ["<fake_token_around_image>", "<end_of_utterance>"]
    words = byte_level([*SPECIALS, *names], additional_special_tokens=["<image>", *names])
    pixels = Idefics3ImageProcessorPil(
        size={"longest_edge": 64}, max_image_size={"longest_edge": 32}
    )
    return tf.Idefics3Processor(pixels, words, image_seq_len=4)


def _paligemma() -> Any:
    pixels = SiglipImageProcessorPil(size=SIDE)
    pixels.image_seq_length = 16
    return tf.PaliGemmaProcessor(
        pixels, byte_level(ends="$A", additional_special_tokens=["<image>"])
    )


def _gemma3() -> Any:
    marks = {"image_token": "<image>", "boi_token": "<boi>", "eoi_token": "<eoi>"}
    pixels = Gemma3ImageProcessorPil(size=SIDE)
    return tf.Gemma3Processor(pixels, byte_level(extra_special_tokens=marks), image_seq_length=4)


def _mllama() -> Any:
    words = byte_level(
        [*SPECIALS, "<|image|>", "<|python_tag|>"],
        extra_special_tokens={"image_token": "<|image|>"},
    )
    return tf.MllamaProcessor(MllamaImageProcessorPil(size=SIDE, max_image_tiles=1), words)


def _blip2(ends: str) -> Any:
    words = byte_level(ends=ends, additional_special_tokens=["<image>"])
    return tf.Blip2Processor(BlipImageProcessorPil(size=SIDE), words, num_query_tokens=4)


def _instructblip(ends: str) -> Any:
    words = byte_level(ends=ends, additional_special_tokens=["<image>"])
    return tf.InstructBlipProcessor(
        BlipImageProcessorPil(size=SIDE), words, word_piece(), num_query_tokens=4
    )


def _kosmos2() -> Any:
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    words = byte_level(["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>", **names)
    return tf.Kosmos2Processor(
        CLIPImageProcessorPil(size=SIDE, crop_size=SIDE), words, num_patch_index_tokens=4
    )


def _git() -> Any:
    return tf.GitProcessor(CLIPImageProcessorPil(size=SIDE, crop_size=SIDE), word_piece())


PROCESSORS: dict[str, Callable[[], Any]] = {
    "LLaVA": _llava,
    "LLaVA-NeXT": _llava_next,
    "Idefics2": _idefics2,
    "Idefics3": _idefics3,
    "PaliGemma": _paligemma,
    "Gemma 3": _gemma3,
    "Mllama": _mllama,
    "BLIP-2 OPT": lambda: _blip2("<bos> $A"),
    "BLIP-2 FlanT5": lambda: _blip2("$A <eos>"),
    "InstructBLIP Vicuna": lambda: _instructblip("<bos> $A"),
    "InstructBLIP FlanT5": lambda: _instructblip("$A <eos>"),
    "Kosmos-2": _kosmos2,
    "Florence-2": _florence2,
    "GIT": _git,
}
"""Those whose processors need neither torchvision nor num2words. LLaVA-OneVision, InternVL and the Qwen-VL
family have a video processor, a dummy without torchvision, which their processors do not accept; SmolVLM
wants num2words."""


def save(name: str, folder: Path) -> Path:
    """A complete folder of the architecture called `name`."""
    processor = PROCESSORS[name]()
    model, _ = tiny_configs.make(name)
    if name == "Mllama":
        model.config.image_token_index = processor.image_token_id
    if name == "LLaVA":
        model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    if name == "Kosmos-2":
        # The processor writes 64 places for an image.
        model = tf.Kosmos2ForConditionalGeneration(
            tf.Kosmos2Config(
                text_config=model.config.text_config.to_dict(),
                vision_config=tiny_configs.CLIP,
                latent_query_num=64,
            )
        )
        tiny_configs.sharpen(model)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
