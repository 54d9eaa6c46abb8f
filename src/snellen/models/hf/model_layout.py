"""What must be known about an architecture to run it in parts. A few facts; the rest is read from the model."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Tensors
from snellen.models.hf.load import import_transformers
from snellen.models.hf.sharing_plan import PrefixItem

REPLY_TYPE = {"paligemma": 1}
"""token_type_ids of a reply where they are not 0: PaliGemma reads a prompt in both directions."""
ORIGIN = {"paligemma": 1}
"""Position of the first token where it is not 0."""
TOWERS = ("vision_tower", "visual", "vision_model", "image_encoder", "vision_embed_tokens")
TAKES_INPUTS = re.compile(
    r"forward$|get_\w+_features$|get_rope_index$|prepare_inputs_for_generation$"
)
"""Methods whose parameters are inputs of a model."""
PER_QUESTION = ("qformer_input_ids", "qformer_attention_mask")
"""Inputs through which a question changes what is seen of the image (InstructBLIP)."""


@dataclass(frozen=True)
class ModelLayout:
    """The parts of a model."""

    model: Any
    language_model: Any
    """The module that continues from a cache: the model, or its language model (BLIP-2, Kosmos-2)."""
    pad: int
    encoder_decoder: bool
    start: int
    """First token of the decoder, for an encoder-decoder."""
    reply_type: int
    origin: int
    seen_tokens: frozenset[int]
    """The tokens that stand for what is seen: images, or clips."""
    rotary: Any
    """The module that gives an image's tokens places in a plane (M-RoPE, the Qwen-VL family), or None."""
    tower: Any
    """The vision encoder, or None."""
    end_tokens: frozenset[int]
    """The tokens that end a reply."""
    all_logits: bool = False
    """Whether logits are computed at all places, since the model counts places otherwise (GIT puts an image's before
    the text's)."""
    given_cache: bool = False
    """Whether the model creates no cache itself and has to be given one, as `generate` does (Granite 4 Vision)."""
    images_again: bool = False
    """Whether each forward pass must be given the images, although the cache holds them (IDEFICS-1)."""

    def first_cache(self) -> Tensors:
        """Return the setting that gives an empty cache to a model that makes none."""
        if not self.given_cache:
            return {}
        settings = self.model.config.get_text_config(decoder=True)
        return {"past_key_values": import_transformers().DynamicCache(config=settings)}

    def forget_positions(self) -> None:
        """Drop the positions that an M-RoPE model keeps from the last prompt."""
        if self.rotary is not None:
            self.rotary.rope_deltas = None

    @property
    def offset(self) -> Any:
        """Position of the next token minus the number of tokens in the previous forward pass."""
        if self.rotary is not None and self.rotary.rope_deltas is not None:
            return self.rotary.rope_deltas[:, 0]
        return self.origin

    def positions_after_clips(self, batch: Tensors) -> Any:
        """Return the positions [rows] of the next token after prompts with clips, for an M-RoPE model.

        The token after a clip follows the height and width of its frames, whatever time they reach.

        Args:
            batch: The model's inputs, padded at their ends.
        """
        import torch

        parameters = inspect.signature(self.rotary.get_rope_index).parameters
        arguments = {name: batch[name] for name in parameters if name in batch}
        positions, _ = self.rotary.get_rope_index(**arguments)
        lengths = batch["attention_mask"].sum(1)
        every_row = torch.arange(len(lengths), device=lengths.device)
        last_token = positions[1:, every_row, lengths - 1]
        return last_token.amax(0) + 1


def read_layout(model: Any, pad: int, end_of_text: int | None = None) -> ModelLayout:
    """Find the parts of a transformers model.

    Args:
        model: The model.
        pad: The token with which texts are padded.
        end_of_text: The tokenizer's end of text, for models whose settings name no end of a reply.
    """
    language_model = model
    for name in ("language_model", "text_model"):
        if hasattr(model, name):
            part = getattr(model, name)
            language_model = part if hasattr(part, "lm_head") else model
            break
    encoder_decoder = bool(
        model.config.is_encoder_decoder
        or getattr(language_model.config, "is_encoder_decoder", False)
    )
    rotary = None
    for module in (getattr(model, "model", model), model):
        if hasattr(module, "get_rope_index"):
            rotary = module
            break
    tower = None
    for name, module in model.named_modules():
        if name.split(".")[-1] in TOWERS:
            tower = module
            break
    model_type = getattr(model.config, "model_type", "")
    origin = ORIGIN.get(model_type, 0)
    if model_type in ("kosmos-2", "kosmos-2.5"):
        origin = (model.config.text_config.pad_token_id or 0) + 1
    return ModelLayout(
        model=model,
        language_model=language_model,
        pad=pad,
        encoder_decoder=encoder_decoder,
        start=_start(model, language_model) if encoder_decoder else 0,
        reply_type=REPLY_TYPE.get(model_type, 0),
        origin=origin,
        seen_tokens=_seen_tokens(model.config),
        rotary=rotary,
        tower=tower,
        end_tokens=_end_tokens(model, language_model, end_of_text),
    )


def longest_text(model: Any) -> int | None:
    """Return the maximum number of tokens that the model accepts, if its settings say so."""
    text = getattr(model.config, "text_config", model.config)
    longest = getattr(text, "max_position_embeddings", None)
    if not longest:
        return None
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") in ("dynamic", "yarn"):
        # Qwen2.5 with YaRN has max_position_embeddings of 32,768, and a factor of 4.
        original = rope.get("original_max_position_embeddings") or longest
        longest = max(longest, original * (rope.get("factor") or 1))
    return int(longest)


def input_names(model: Any) -> frozenset[str] | None:
    """Return the names of all inputs that a transformers model's own code mentions; None for code of other packages.

    Some inputs that `forward` passes on without a name are named by the inner model, or by a method that reads images.
    """
    if not type(model).__module__.startswith("transformers."):
        return None
    names: set[str] = set()
    for owner in (model, getattr(model, "model", model), model.base_model):
        for attribute in dir(type(owner)):
            if TAKES_INPUTS.match(attribute):
                method = getattr(owner, attribute)
                names.update(inspect.signature(method).parameters)
    return frozenset(names)


def _end_tokens(model: Any, language_model: Any, end_of_text: int | None) -> frozenset[int]:
    """Return the tokens that end a reply: from the generation settings, or else the tokenizer's end of text."""
    candidates = (
        model.generation_config.eos_token_id,
        language_model.generation_config.eos_token_id,
        end_of_text,
    )
    for ends in candidates:
        if isinstance(ends, (list, tuple)):
            return frozenset(ends)
        if ends is not None:
            return frozenset([ends])
    return frozenset()


def to_prefix_item(layout: ModelLayout, prompt: ContinuedPrompt) -> PrefixItem:
    """Return a prompt and its continuations in the form that the sharing plan takes.

    The plan has no torch: images are a digest of what the model reads of them, and the number of tokens up to the last.
    """
    context = prompt.context
    images = vision_digest(context)
    end_of_images = _image_end(layout, context)
    return PrefixItem(
        key=images,
        tokens=context.ids,
        image_end=end_of_images,
        tails=prompt.tails,
        form=context.form,
    )


def vision_digest(encoded: EncodedPrompt) -> str:
    """Return a digest of all inputs of the model except the tokens, such as the pixels."""
    digest = hashlib.blake2b("|".join(encoded.digests).encode(), digest_size=16)
    for name in PER_QUESTION:
        if name in encoded.extras:
            values = encoded.extras[name].tolist()
            digest.update(repr(values).encode())
    return digest.hexdigest()


def _image_end(layout: ModelLayout, encoded: EncodedPrompt) -> int:
    """Return the number of tokens up to and including the last token of an image or clip.

    All tokens if none can be identified; 0 for a prompt without images and clips.
    """
    if not encoded.digests:
        return 0
    image_positions: Sequence[int]
    if "image_embeds_position_mask" in encoded.extras:
        mask = encoded.extras["image_embeds_position_mask"][0]
        image_positions = mask.nonzero()[:, 0].tolist()
    else:
        image_positions = [i for i, token in enumerate(encoded.ids) if token in layout.seen_tokens]
    return image_positions[-1] + 1 if image_positions else len(encoded.ids)


def _seen_tokens(config: Any) -> frozenset[int]:
    """Return the ids of the tokens that mark the place of an image or a clip in prompts."""
    tokens = set()
    for name in ("image_token_id", "image_token_index", "video_token_id", "video_token_index"):
        token = getattr(config, name, None)
        if token is not None:
            tokens.add(int(token))
    return frozenset(tokens)


def _start(model: Any, language_model: Any) -> int:
    """Return the decoder's first token, from the first settings that name one."""
    for settings in (
        language_model.generation_config,
        language_model.config,
        model.generation_config,
        model.config,
    ):
        for name in ("decoder_start_token_id", "bos_token_id"):
            token = getattr(settings, name, None)
            if token is not None:
                return int(token)
    return 0
