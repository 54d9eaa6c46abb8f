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
    text_encoder: Any
    """The text encoder of an encoder-decoder, or None."""
    end_tokens: frozenset[int]
    """The tokens that end a reply."""
    all_logits: bool = False
    """Whether logits are computed at all places, since the model counts places otherwise (GIT puts an image's before
    the text's)."""
    given_cache: bool = False
    """Whether the model creates no cache itself and has to be given one, as `generate` does (Granite 4 Vision)."""

    def first_cache(self) -> Tensors:
        """The setting that gives an empty cache to a model that makes none."""
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

    def places(self, batch: Tensors, is_token: Any, per_token: frozenset[str]) -> tuple[Any, Any]:
        """Positions of the first tokens of `batch`, and of the next one in each row.

        `is_token` [rows, tokens] is 1 for a token; `per_token` names the inputs with one entry per token. Positions are
        [rows, tokens], or [3, rows, tokens] for
        M-RoPE, where an image's tokens lie in a plane.
        """
        import torch

        lengths = is_token.sum(1)
        standing = (torch.arange(is_token.shape[1], device=is_token.device) + self.origin).expand(
            *is_token.shape
        )
        if self.rotary is None:
            return standing, lengths + self.origin
        standing = standing.expand(3, -1, -1)
        if "image_grid_thw" in batch or "video_grid_thw" in batch:
            shortened = {
                name: batch[name][:, : is_token.shape[1]] for name in per_token | {"input_ids"}
            }
            inputs = {**batch, **shortened, "attention_mask": is_token.long()}
            parameters = inspect.signature(self.rotary.get_rope_index).parameters
            standing, _ = self.rotary.get_rope_index(
                **{name: inputs[name] for name in parameters if name in inputs}
            )
        if "video_grid_thw" in batch:
            # What follows a clip stands behind its frames' height and width, whatever its seconds reach to.
            last = standing[1:, torch.arange(len(lengths), device=lengths.device), lengths - 1]
            return standing, last.amax(0) + 1
        return standing, standing.masked_fill(~is_token.bool(), -1).amax(dim=(0, 2)) + 1


def read_layout(model: Any, pad: int, end_of_text: int | None = None) -> ModelLayout:
    """Find the parts of `model`. `end_of_text` is the tokenizer's, for models whose settings name no end of a reply."""
    kind = getattr(model.config, "model_type", "")
    text = next(
        (getattr(model, name) for name in ("language_model", "text_model") if hasattr(model, name)),
        None,
    )
    language_model = text if text is not None and hasattr(text, "lm_head") else model
    seq2seq = bool(
        model.config.is_encoder_decoder
        or getattr(language_model.config, "is_encoder_decoder", False)
    )
    inner = getattr(model, "model", model)
    origin = ORIGIN.get(kind, 0)
    if kind in ("kosmos-2", "kosmos-2.5"):
        origin = (model.config.text_config.pad_token_id or 0) + 1
    return ModelLayout(
        model=model,
        language_model=language_model,
        pad=pad,
        encoder_decoder=seq2seq,
        start=_start(model, language_model) if seq2seq else 0,
        reply_type=REPLY_TYPE.get(kind, 0),
        origin=origin,
        seen_tokens=_seen_tokens(model.config),
        rotary=next(
            (module for module in (inner, model) if hasattr(module, "get_rope_index")), None
        ),
        tower=next(
            (module for name, module in model.named_modules() if name.split(".")[-1] in TOWERS),
            None,
        ),
        text_encoder=language_model.get_encoder() if seq2seq else None,
        end_tokens=_end_tokens(model, language_model, end_of_text),
    )


def input_names(model: Any) -> frozenset[str] | None:
    """Names of all inputs that the code of `model` mentions; None where foreign code may take any.

    Part of what `forward` passes on without a name is named by the inner model, or by a method that reads images.
    """
    if not type(model).__module__.startswith("transformers."):
        return None
    owners = {
        id(owner): owner for owner in (model, getattr(model, "model", model), model.base_model)
    }.values()
    methods = [
        getattr(owner, name)
        for owner in owners
        for name in dir(type(owner))
        if TAKES_INPUTS.match(name)
    ]
    return frozenset(name for method in methods for name in inspect.signature(method).parameters)


def _end_tokens(model: Any, language_model: Any, end_of_text: int | None) -> frozenset[int]:
    """As the generation settings say, else the tokenizer's end of text."""
    for ends in (
        model.generation_config.eos_token_id,
        language_model.generation_config.eos_token_id,
        end_of_text,
    ):
        if ends is not None:
            return frozenset(ends if isinstance(ends, (list, tuple)) else [ends])
    return frozenset()


def to_prefix_item(layout: ModelLayout, prompt: ContinuedPrompt) -> PrefixItem:
    """What the sharing plan needs to know about a request."""
    context = prompt.context
    return PrefixItem(
        vision_digest(context), context.ids, _anchor(layout, context), prompt.tails, context.form
    )


def vision_digest(encoded: EncodedPrompt) -> str:
    """Digest of everything seen besides the tokens."""
    digest = hashlib.blake2b("|".join(encoded.digests).encode(), digest_size=16)
    for name in PER_QUESTION:
        if name in encoded.extras:
            digest.update(repr(encoded.extras[name].tolist()).encode())
    return digest.hexdigest()


def encoder_input_digest(encoded: EncodedPrompt) -> str:
    """Digest of everything that an encoder reads: tokens and images."""
    return hashlib.blake2b(
        f"{vision_digest(encoded)}{encoded.ids}".encode(), digest_size=16
    ).hexdigest()


def _anchor(layout: ModelLayout, encoded: EncodedPrompt) -> int:
    """Number of tokens up to and including the last token of an image or clip; all tokens if none can be
    identified."""
    if not encoded.digests:
        return 0
    places: Sequence[int] = [
        i for i, token in enumerate(encoded.ids) if token in layout.seen_tokens
    ]
    if "image_embeds_position_mask" in encoded.extras:
        places = encoded.extras["image_embeds_position_mask"][0].nonzero()[:, 0].tolist()
    return places[-1] + 1 if places else len(encoded.ids)


def _seen_tokens(config: Any) -> frozenset[int]:
    names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
    return frozenset(
        int(token) for name in names if (token := getattr(config, name, None)) is not None
    )


def _start(model: Any, language_model: Any) -> int:
    """The decoder's first token."""
    for settings in (
        language_model.generation_config,
        language_model.config,
        model.generation_config,
        model.config,
    ):
        for name in ("decoder_start_token_id", "bos_token_id"):
            if getattr(settings, name, None) is not None:
                return int(getattr(settings, name))
    return 0
