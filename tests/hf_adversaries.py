"""Small LLaVA models that are spoiled on purpose, each in one way that makes a fast path wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers as tf
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaModel, LlamaRMSNorm

from tiny_configs import CLIP, IMAGE, TEXT, begun, normal, sharpen


def llava(text: Any = None) -> Any:
    """A model that reads 512 tokens, more than any window here, so that its self-check tries no longer texts."""
    torch.manual_seed(0)
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**CLIP),
        text_config=text or tf.LlamaConfig(**TEXT),
        image_token_index=IMAGE,
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
    )
    return sharpen(tf.LlavaForConditionalGeneration(config))


def head() -> Any:
    return begun(16, pixel_values=normal(1, 1, 3, 32, 32))


def text_of(model: Any) -> Any:
    return model.model.language_model


def read_so_far(cache: Any) -> int:
    return 0 if cache is None else int(cache.get_seq_length())


class BatchNorm(LlamaRMSNorm):  # type: ignore[misc]
    """A norm over all rows of a batch."""

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        scale = hidden_states.pow(2).mean((0, 2), keepdim=True)
        return self.weight * hidden_states * torch.rsqrt(scale + 1e-6)


class Capacity(LlamaMLP):  # type: ignore[misc]
    """Two experts that take half of the tokens of a forward pass each; who comes late is dropped."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1])
        first = flat[:, 0] > 0
        place = torch.where(first, first.cumsum(0), (~first).cumsum(0))
        dropped = place > (len(flat) + 1) // 2
        output = super().forward(x).reshape(flat.shape)
        return output.masked_fill(dropped[:, None], 0).reshape(x.shape)


class Dropout(LlamaMLP):  # type: ignore[misc]
    """Dropout that is never switched off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = super().forward(x)
        return torch.nn.functional.dropout(output, 0.1, training=True)


class Positions(LlamaModel):  # type: ignore[misc]
    """Takes the place in the cache for the position."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        count = settings["inputs_embeds"].shape[1]
        start = read_so_far(settings.get("past_key_values"))
        return super().forward(
            *args, **{**settings, "position_ids": torch.arange(start, start + count)[None]}
        )


class Slots(LlamaModel):  # type: ignore[misc]
    """Adds something to each place in the cache."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        embeds = settings["inputs_embeds"]
        places = torch.arange(embeds.shape[1]) + read_so_far(settings.get("past_key_values"))
        return super().forward(
            *args, **{**settings, "inputs_embeds": embeds + 0.3 * torch.sin(places)[:, None]}
        )


class Masked(LlamaModel):  # type: ignore[misc]
    """Makes its own mask where it is given one of two dimensions."""

    window = 0
    prefix = 0

    def forward(self, *args: Any, **settings: Any) -> Any:
        embeds, mask = settings.get("inputs_embeds"), settings.get("attention_mask")
        if embeds is None:
            embeds = self.embed_tokens(settings["input_ids"])
        if mask is None or mask.ndim == 2:
            past, count = read_so_far(settings.get("past_key_values")), embeds.shape[1]
            queries, keys = (
                torch.arange(past, past + count)[:, None],
                torch.arange(past + count)[None],
            )
            sees = keys <= queries
            if self.window:
                sees = sees & (queries - keys < self.window)
            if self.prefix:
                sees = sees | ((keys < self.prefix) & (queries < self.prefix))
            sees = sees[None, None].expand(len(embeds), 1, -1, -1)
            if mask is not None:
                sees = sees & mask[:, None, None, : past + count].bool()
            mask = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)
        return super().forward(*args, **{**settings, "attention_mask": mask})


class Frequencies(LlamaModel):  # type: ignore[misc]
    """Changes the scale of all positions when the last of them passes 200, as LongRoPE does, without saying so."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        count, positions = settings["inputs_embeds"].shape[1], settings.get("position_ids")
        if positions is None:
            positions = torch.arange(count)[None] + read_so_far(settings.get("past_key_values"))
        if int(positions.max()) >= 200:
            positions = positions / 2
        return super().forward(*args, **{**settings, "position_ids": positions})


class Pruning(LlamaModel):  # type: ignore[misc]
    """Sees of an image's sixteen tokens the half that is most like the last token of the first forward pass."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        embeds, past = settings["inputs_embeds"], read_so_far(settings.get("past_key_values"))
        mask = torch.ones(len(embeds), past + embeds.shape[1], dtype=torch.long)
        if not past and embeds.shape[1] > 19:
            alike = (embeds[:, 3:19] @ embeds[:, -1, :, None])[..., 0]
            mask[:, 3:19] = mask[:, 3:19].scatter(1, alike.argsort(1)[:, :8], 0)
        return super().forward(*args, **{**settings, "attention_mask": mask})


class Reading(tf.LlavaForConditionalGeneration):  # type: ignore[misc]
    """Its vision tower looks at the question."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        if settings.get("pixel_values") is not None:
            asked = settings["input_ids"].float().mean(1).sin()
            settings["pixel_values"] = settings["pixel_values"] + asked[:, None, None, None]
        return super().forward(*args, **settings)


def _text(kind: type, **state: Any) -> Callable[[], Any]:
    def build() -> Any:
        model = llava()
        text_of(model).__class__ = kind
        vars(text_of(model)).update(state)
        return model

    return build


def _blocks(part: str, kind: type) -> Callable[[], Any]:
    def build() -> Any:
        model = llava()
        for layer in text_of(model).layers:
            getattr(layer, part).__class__ = kind
        return model

    return build


def _reading() -> Any:
    model = llava()
    model.__class__ = Reading
    return model


def quantised() -> Any:
    """Weights of eight bits, with a scale for all activations of a forward pass together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(llava(), {torch.nn.Linear})


def selecting(window: int = 8) -> Any:
    """Attention to so many of the earlier tokens, as Doge's is released: its settings name their number."""
    return llava(tf.DogeConfig(**TEXT, keep_window_size=window))


def plain_reply(model: Any, row: Any, longest: int) -> list[int]:
    """Greedy tokens by a loop that a textbook has: each from a forward pass over all before it, and nothing else."""
    written: list[int] = []
    while len(written) < longest and (not written or written[-1] != TEXT["eos_token_id"]):
        ids = torch.tensor([[*row.ids, *written]])
        with torch.no_grad():
            output = model(
                input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **row.extras
            )
        written.append(int(output.logits[0, -1].argmax()))
    return written


def long_rope() -> Any:
    """LongRoPE as released, whose settings name the length."""
    rope = {
        "rope_type": "longrope",
        "short_factor": [1.0] * 8,
        "long_factor": [1.5 + i / 3 for i in range(8)],
        "rope_theta": 1e4,
        "original_max_position_embeddings": 96,
    }
    return llava(tf.LlamaConfig(**TEXT, rope_parameters=rope))


def sliding() -> Any:
    """A window as released, whose cache layers name it."""
    return llava(tf.MistralConfig(**TEXT, sliding_window=100))


ADVERSARIES: dict[str, Callable[[], Any]] = {
    "batch statistics": _blocks("input_layernorm", BatchNorm),
    "capacity": _blocks("mlp", Capacity),
    "window by mask": _text(Masked, window=24),
    "a wide window by mask": _text(Masked, window=300),
    "prefix in both directions": _text(Masked, prefix=24),
    "positions ignored": _text(Positions),
    "injection by slot": _text(Slots),
    "frequencies by length": _text(Frequencies),
    "text-dependent tower": _reading,
    "pruning by the last token": _text(Pruning),
    "LongRoPE": long_rope,
    "a sliding window": sliding,
}
"""Each must be noticed, when the model is loaded or on the requests of a run."""
MEASURED = {
    "batch statistics": "a cached prompt",
    "capacity": "a text without what follows",
    "window by mask": "tree, prompt shared",
    "prefix in both directions": "tree, image shared",
    "positions ignored": "tree, prompt shared",
    "injection by slot": "tree, prompt shared",
    "text-dependent tower": "a text without what follows",
}
"""Those that the self-check notices when the model is loaded, and the path that it finds wrong."""
