"""Where a model's behaviour may begin at a length, or one row may change another: read from the model, not its name.

A window of 4,096 tokens, blocks of which the best 16 are read, rotary frequencies that change at 8,192 tokens: a
probe shorter than that cannot reveal what a cache or a batch does to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from snellen.models.hf.cache_layers import states_beside_layers
from snellen.models.hf.code_origin import in_training_mode, unknown_code

LENGTH_SETTING = re.compile(
    r"window|chunk|block|top_?k|sparse|compress|stride|local|segment|landmark|kpool|dilat|span|original_max"
)
"""Settings whose names contain one of these may be lengths at which behaviour begins."""
OTHER_SETTING = re.compile(
    r"layers|heads?_|_heads|num_local|expert|group|moe|pattern|_dim|dim_|theta|_step|feed_forward|types|ffn|_prob|_token"
    r"|dropout|^top_k$|factor|spatial_|res_block"
)
"""Settings that are counts of something else, of pictures, or sampling."""
SELECTION = re.compile(r"top_?k|keep_window|landmark|sparse|rope$")
"""Settings of how many tokens are read of a longer text, chosen by what the text says, or of a text's last place. What
such a model says of a token may depend on how many others were read with it, in one text and not in the next."""
UNIT_SETTING = re.compile(r"block|chunk|compress|stride|kpool")
"""Settings that are the size of a unit, of which a selection may be a number."""
WINDOW = "sliding_window"
"""The setting behind which each token is read as the one before it, however long the text is."""
PICTURE_PART = re.compile(r"(model\.)?[a-z_]*(vision|visual|image_encoder|multi_modal_projector|connector)")
"""Beginnings of the names that the code of a model gives to what it puts pictures through, and nothing else."""
ROW_SETTING = re.compile(r"capacity|drop_tokens")
"""Settings that make tokens of one forward pass compete with one another."""
STATIC_ROPE = ("default", "linear", "yarn", "llama3", "proportional", "mrope", "axial")
"""Rotary embeddings that depend on nothing but a token's position."""


@dataclass(frozen=True)
class ModelFacts:
    """What can be read from a model about where its behaviour changes."""

    unknown_code: tuple[str, ...] = ()
    """Modules whose code is not that of a known package, or is patched."""
    training: tuple[str, ...] = ()
    """Modules that still behave as in training."""
    competing: tuple[str, ...] = ()
    """Settings that make tokens of one forward pass compete."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Settings that name a length, in tokens, and that length."""
    odd_layers: tuple[str, ...] = ()
    """Kinds of cache layers that hold other things than all keys and values, such as a window."""

    @property
    def doubt(self) -> str:
        """Why no finite probe could show that texts do not change one another; empty if none."""
        if not self.in_pictures_alone(self.unknown_code):
            return f"code of unknown origin: {_listed(self.unknown_code)}"
        if not self.in_pictures_alone(self.training):
            return f"in training mode: {_listed(self.training)}"
        if self.competing:
            return f"tokens compete: {_listed(self.competing)}"
        return ""

    @property
    def picture_doubt(self) -> str:
        """Why no finite probe could show that pictures of a batch do not change one another; empty if none."""
        strange = tuple(dict.fromkeys((*self.unknown_code, *self.training)))
        return f"code of unknown origin, or in training mode: {_listed(strange)}" if strange else ""

    @staticmethod
    def in_pictures_alone(modules: Sequence[str]) -> bool:
        """Whether modules are inside what pictures are put through by known code, so that no text reaches them."""
        return all(PICTURE_PART.match(name) for name in modules)

    def reached(self, length: int) -> tuple[str, ...]:
        """Names of the settings that act on texts of `length` tokens already."""
        return tuple(f"{name}={value}" for name, value in self.lengths if value <= length)

    @property
    def selecting(self) -> tuple[str, int] | None:
        """The first setting by which a part of a text is selected, and from how many tokens; None if none does.

        Of blocks so many are read: 16 blocks of 128 are 2,048 tokens."""
        units = [value for name, value in self.lengths if UNIT_SETTING.search(name) and not SELECTION.search(name)]
        unit = min(units, default=1)
        found = [
            (name, value * unit if UNIT_SETTING.search(name) else value)
            for name, value in self.lengths
            if SELECTION.search(name)
        ]
        return min(found, key=lambda setting: setting[1], default=None)

    @property
    def endless(self) -> bool:
        """Whether the lengths that are named are windows, beyond which nothing else begins."""
        return all(name == WINDOW for name, _ in self.lengths)

    def ahead(self, length: int) -> int | None:
        """The first length beyond `length` at which something begins."""
        return min((value for _, value in self.lengths if value > length), default=None)


def read_facts(model: Any, longest: int | None, cache: Any = None) -> ModelFacts:
    """The facts of `model`, whose texts have at most `longest` tokens, and of a cache that it filled."""
    lengths = {name: value for name, value in _lengths(model) if longest is None or value <= longest}
    odd = [type(layer).__name__ for layer in getattr(cache, "layers", ()) if not _plain(layer)]
    odd += states_beside_layers(cache) if cache is not None else ()
    return ModelFacts(
        unknown_code=unknown_code(model) + (() if cache is None else _unknown_cache(cache)),
        training=in_training_mode(model),
        competing=tuple(sorted({name for name, value in _settings(model) if value and ROW_SETTING.search(name)})),
        lengths=tuple(sorted(lengths.items(), key=lambda item: item[1])),
        odd_layers=tuple(dict.fromkeys(odd)),
    )


def longest_text(model: Any) -> int | None:
    """Tokens that the model takes at most, if its settings say so."""
    text = getattr(model.config, "text_config", model.config)
    longest = getattr(text, "max_position_embeddings", None)
    return int(longest) if longest else None


def crossing_length(facts: ModelFacts) -> int:
    """Tokens of a text on which all lengths act that are named, but for selections; 0 if none is named."""
    return max((value for name, value in facts.lengths if not SELECTION.search(name)), default=0)


def _lengths(model: Any) -> Iterator[tuple[str, int]]:
    """Names and values of the settings that may be lengths."""
    for name, value in _settings(model):
        if not LENGTH_SETTING.search(name) or OTHER_SETTING.search(name) or "original_max" in name:
            continue
        for length in _whole_numbers(value):
            if length > 1:
                yield name, length
    yield from _rope_lengths(model)


def _rope_lengths(model: Any) -> Iterator[tuple[str, int]]:
    """Where rotary frequencies change with the length of the text."""
    text = model.config.get_text_config(decoder=True)
    whole = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    for settings in (whole, *(part for part in whole.values() if isinstance(part, dict))):
        kind = settings.get("rope_type", settings.get("type", "default"))
        if kind not in STATIC_ROPE:
            begins = settings.get("original_max_position_embeddings") or getattr(
                text, "original_max_position_embeddings", None
            )
            yield f"{kind} rope", int(begins or text.max_position_embeddings)


def _settings(model: Any) -> Iterator[tuple[str, Any]]:
    """All settings that the text decoder may read, from its configuration and as attributes of its modules."""
    text = model.config.get_text_config(decoder=True)
    for config in (model.config, text):
        yield from ((name, value) for name, value in config.to_dict().items() if not isinstance(value, bool))
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    for module in () if decoder is None else decoder.modules():
        yield from ((name, value) for name, value in vars(module).items() if type(value) is int)


def _whole_numbers(value: Any) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _whole_numbers(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _whole_numbers(part)


def _plain(layer: Any) -> bool:
    """Whether a cache layer holds the keys and values of all tokens, and nothing else."""
    return type(layer).__name__ == "DynamicLayer" and type(layer).__module__ == "transformers.cache_utils"


def _unknown_cache(cache: Any) -> tuple[str, ...]:
    kinds = {type(cache), *map(type, cache.layers)}
    return tuple(sorted(kind.__name__ for kind in kinds if not kind.__module__.startswith("transformers.")))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
