"""Facts about where a model's behaviour may change with length, and a measured tolerance for its scores.

Facts are read from the model, not from its name: a window of 4,096 tokens, a selection of 16 blocks, rotary frequencies
that change at 8,192 tokens. A probe shorter than that cannot show what a cache or a batch does to the scores. The
tolerance limits how far a fast path may differ from the reference, given the measured effect of rounding.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from snellen.models.hf.cached_forward import states_beside_layers
from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.load import free_memory, input_device
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores, reference_scores

KNOWN_PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "peft", "timm", "snellen")
"""Packages whose modules, wrappers and hooks are known."""
OPAQUE = ("torch.jit", "torch._ops", "torch._C")
"""Modules of torch whose objects run compiled code of unknown origin."""
POINTWISE = frozenset({"gelu", "relu", "selu", "sigmoid", "silu", "softplus", "tanh"})
"""Functions of torch without Python code that a module may have as its activation. Other functions may mix positions."""
CACHED = type(functools.cache(lambda: None))
"""Type of the result of `functools.cache`."""
PLAIN_DATA = ("abc", "builtins", "collections", "collections.abc", "types", "typing")
"""Modules whose types run no code of their own: collections and annotations."""


def unknown_code(model: Any) -> tuple[str, ...]:
    """Return the names of the modules of `model` that run code of other packages, in order.

    Such code may be their class or one of its bases, a method, a hook or any other callable of theirs.
    """
    import torch

    global_hooks = [
        hooks
        for name, hooks in vars(torch.nn.modules.module).items()
        if name.startswith("_global_")
    ]
    hooks = chain.from_iterable(hooks.values() for hooks in global_hooks if isinstance(hooks, dict))
    names = [] if all(map(_is_known, hooks)) else ["global hooks"]
    kinds = {type(module) for module in model.modules()}
    known_kinds = {kind for kind in kinds if all(map(_is_known, _of_class(kind)))}
    for name, module in model.named_modules():
        if not (type(module) in known_kinds and all(map(_is_known, _of_instance(module)))):
            names.append(name or "the model")
    return tuple(names)


def in_training_mode(model: Any) -> tuple[str, ...]:
    """Return the names of the modules that still behave as in training, such as with dropout."""
    return tuple(name or "the model" for name, module in model.named_modules() if module.training)


def _of_class(kind: type) -> Iterator[Any]:
    """Yield a class and its bases, with what they define."""
    for base in kind.__mro__[:-1]:
        yield base
        yield from vars(base).values()


def _of_instance(module: Any) -> Iterator[Any]:
    """Yield the attributes of an instance that may run code: patched methods, hooks, objects, types of parameters."""
    for name, value in vars(module).items():
        if name in ("_parameters", "_buffers"):
            yield from {type(part) for part in value.values() if part is not None}
        elif name != "_modules":  # which are looked at in their turn
            yield value
            yield from value.values() if isinstance(value, dict) else ()


def _is_known(part: Any) -> bool:
    """Return whether an object is not callable, or runs only code of known packages, including what it wraps."""
    if isinstance(part, property):
        return all(_is_known(accessor) for accessor in (part.fget, part.fset) if accessor)
    if isinstance(part, functools.partial):
        return _is_known(part.func)
    if inspect.ismethod(part):
        return _is_known(part.__func__) and _is_known(part.__self__)
    if isinstance(part, (staticmethod, classmethod, CACHED)):
        return _is_known(part.__wrapped__)
    if inspect.isfunction(part):
        if (wrapped := vars(part).get("__wrapped__")) is not None and not _is_known(wrapped):
            return False
        known_folders, standard = _folders()
        file = part.__code__.co_filename
        return file.startswith(known_folders) or (
            file.startswith(standard) and "site-packages" not in file
        )
    if not callable(part):
        return True
    if inspect.isbuiltin(part):
        return part.__name__ in POINTWISE and (part.__module__ or "torch").startswith("torch")
    origin = (part if inspect.isclass(part) else type(part)).__module__
    return not origin.startswith(OPAQUE) and (
        origin in PLAIN_DATA or origin.partition(".")[0] in KNOWN_PACKAGES
    )


@functools.cache
def _folders() -> tuple[tuple[str, ...], str]:
    """Return the folders of the known packages, and the folder of the standard library."""
    specs = [find_spec(name) for name in KNOWN_PACKAGES]
    places = [
        Path(place)
        for spec in specs
        if spec is not None
        for place in spec.submodule_search_locations or ()
    ]
    prefixes = {f"{form}/" for place in places for form in (place, place.resolve())}
    return tuple(sorted(prefixes)), f"{Path(contextlib.__file__).parent}/"


LENGTH_SETTING = re.compile(
    r"window|chunk|block|top_?k|sparse|compress|stride|local|segment|landmark|kpool|dilat|span|original_max"
)
"""Settings whose names match may be lengths at which behaviour changes."""
OTHER_SETTING = re.compile(
    r"layers|heads?_|_heads|num_local|expert|group|moe|pattern|_dim|dim_|theta|_step|feed_forward|types|ffn|_prob|_token"
    r"|dropout|^top_k$|factor|spatial_|res_block"
)
"""Settings whose names match are not such lengths: counts of something else, images, or sampling."""
SELECTION = re.compile(r"top_?k|keep_window|landmark|sparse|rope$")
"""Settings by which a model reads only selected tokens of a longer text, or treats a text's last position differently.

The scores of a token may then depend on how many other tokens were read with it, and differ from text to text.
"""
UNIT_SETTING = re.compile(r"block|chunk|compress|stride|kpool")
"""Settings that are the size of a unit of which a selection may be a number."""
WINDOW = "sliding_window"
"""Setting beyond which each token is read like the one before it, however long the text is."""
IMAGE_PART = re.compile(
    r"(model\.)?[a-z_]*(vision|visual|image_encoder|multi_modal_projector|connector)"
)
"""Prefixes of the names that models use for modules which only process images."""
ROW_SETTING = re.compile(r"capacity|drop_tokens")
"""Settings that make tokens of one forward pass compete with each other."""
STATIC_ROPE = ("default", "linear", "yarn", "llama3", "proportional", "mrope", "axial")
"""Rotary embeddings that depend only on a token's position."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts about where a model's behaviour changes."""

    unknown_code: tuple[str, ...] = ()
    """Modules whose code is not that of a known package, or is patched."""
    training: tuple[str, ...] = ()
    """Modules that still behave as in training."""
    competing: tuple[str, ...] = ()
    """Settings that make tokens of one forward pass compete."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Settings that are lengths, with their values in tokens."""
    odd_layers: tuple[str, ...] = ()
    """Types of cache layers that do not hold all keys and values, such as a window."""

    @property
    def doubt(self) -> str:
        """Why no finite probe could show that texts do not change each other; empty if there is no reason."""
        if not self.in_images_alone(self.unknown_code):
            return f"code of unknown origin: {_listed(self.unknown_code)}"
        if not self.in_images_alone(self.training):
            return f"in training mode: {_listed(self.training)}"
        if self.competing:
            return f"tokens compete: {_listed(self.competing)}"
        return ""

    @property
    def image_doubt(self) -> str:
        """Why no finite probe could show that images of a batch do not change each other; empty if there is no reason."""
        strange = tuple(dict.fromkeys((*self.unknown_code, *self.training)))
        return f"code of unknown origin, or in training mode: {_listed(strange)}" if strange else ""

    @staticmethod
    def in_images_alone(modules: Sequence[str]) -> bool:
        """Return whether modules process only images, so that no text reaches them."""
        return all(IMAGE_PART.match(name) for name in modules)

    def settings_reached(self, length: int) -> tuple[str, ...]:
        """Return the names of the settings that affect texts of `length` tokens."""
        return tuple(f"{name}={value}" for name, value in self.lengths if value <= length)

    @property
    def selecting(self) -> tuple[str, int] | None:
        """The first setting that selects part of a text, and from how many tokens; None if there is none.

        If it counts blocks, their size is included: 16 blocks of 128 are 2,048 tokens.
        """
        units = [
            value
            for name, value in self.lengths
            if UNIT_SETTING.search(name) and not SELECTION.search(name)
        ]
        unit = min(units, default=1)
        settings = [
            (name, value * unit if UNIT_SETTING.search(name) else value)
            for name, value in self.lengths
            if SELECTION.search(name)
        ]
        return min(settings, key=lambda setting: setting[1], default=None)

    @property
    def endless(self) -> bool:
        """Whether all lengths are windows, beyond which nothing else changes."""
        return all(name == WINDOW for name, _ in self.lengths)

    def ahead(self, length: int) -> int | None:
        """Return the first length beyond `length` at which behaviour may change."""
        return min((value for _, value in self.lengths if value > length), default=None)


def read_facts(model: Any, longest: int | None, cache: Any = None) -> ModelFacts:
    """Return the facts of `model`, for texts of at most `longest` tokens, and of a cache that it filled."""
    lengths = {
        name: value for name, value in _lengths(model) if longest is None or value <= longest
    }
    odd = [type(layer).__name__ for layer in getattr(cache, "layers", ()) if not _plain(layer)]
    odd += states_beside_layers(cache) if cache is not None else ()
    return ModelFacts(
        unknown_code=unknown_code(model) + (() if cache is None else _unknown_cache(cache)),
        training=in_training_mode(model),
        competing=tuple(
            sorted({name for name, value in _settings(model) if value and ROW_SETTING.search(name)})
        ),
        lengths=tuple(sorted(lengths.items(), key=lambda item: item[1])),
        odd_layers=tuple(dict.fromkeys(odd)),
    )


def longest_text(model: Any) -> int | None:
    """Return the maximum number of tokens that the model accepts, if its settings say so."""
    text = getattr(model.config, "text_config", model.config)
    longest = getattr(text, "max_position_embeddings", None)
    return int(longest) if longest else None


def crossing_length(facts: ModelFacts) -> int:
    """Return the number of tokens of a text that reaches all lengths except selections; 0 if there are none."""
    return max((value for name, value in facts.lengths if not SELECTION.search(name)), default=0)


def _lengths(model: Any) -> Iterator[tuple[str, int]]:
    """Yield names and values of the settings that may be lengths."""
    for name, value in _settings(model):
        if not LENGTH_SETTING.search(name) or OTHER_SETTING.search(name) or "original_max" in name:
            continue
        for length in _whole_numbers(value):
            if length > 1:
                yield name, length
    yield from _rope_lengths(model)


def _rope_lengths(model: Any) -> Iterator[tuple[str, int]]:
    """Yield the lengths at which rotary frequencies change."""
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
    """Yield all settings that the text decoder may read, from its configuration and the attributes of its modules."""
    text = model.config.get_text_config(decoder=True)
    for config in (model.config, text):
        yield from (
            (name, value) for name, value in config.to_dict().items() if not isinstance(value, bool)
        )
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
    """Return whether a cache layer holds the keys and values of all tokens, and nothing else."""
    return (
        type(layer).__name__ == "DynamicLayer"
        and type(layer).__module__ == "transformers.cache_utils"
    )


def _unknown_cache(cache: Any) -> tuple[str, ...]:
    kinds = {type(cache), *map(type, cache.layers)}
    return tuple(
        sorted(kind.__name__ for kind in kinds if not kind.__module__.startswith("transformers."))
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")


WIDER = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}
"""The number format in which rounding is measured, for each format."""
LEAST = {"float32": 1e-4, "float16": 0.005, "bfloat16": 0.02}
"""Minimum tolerances in nats, since rounding in a few rows may be smaller than in others."""
UNMEASURED = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.08}
"""Tolerances if the weights do not fit in memory a second time, or cannot be widened."""
MOST = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.2}
"""Maximum tolerances in nats. Larger differences from a wider format are not due to rounding."""
FACTOR = 4.0
"""Multiple of the measured noise, because a path rounds independently and more tokens are compared than were measured."""


@dataclass(frozen=True)
class Tolerance:
    """Maximum differences of scores from the reference."""

    token: float
    """For each token, in nats."""
    option: float
    """For the sum over a continuation, in nats. An option that leads by more must still lead."""
    noise: float | None = None
    """Largest difference of a token's score due to rounding, in nats; None if it was not measured."""


class UnrepeatableError(ValueError):
    """The model scores the same prompt differently in two forward passes, or its processor changes the prompt."""


def measure_tolerance(
    layout: ModelLayout, prompts: Sequence[ContinuedPrompt], scores: Sequence[Scores]
) -> Tolerance:
    """Return the tolerance from the noise on `prompts`, whose reference scores are `scores`.

    Raises UnrepeatableError if the reference gives other scores a second time.
    """
    form = str(layout.model.dtype).removeprefix("torch.")
    assumed = UNMEASURED.get(form, UNMEASURED["bfloat16"])
    again = reference_scores(layout, prompts)
    repeated = largest_difference(scores, again)
    wide = _wide_scores(layout, prompts, form)
    noise = None if wide is None else max(largest_difference(scores, wide), repeated)
    if repeated > assumed:
        raise UnrepeatableError(
            f"two scores of the same prompt differ by {repeated:.2g} nats, so scores of this model are "
            "unreliable; check whether a part of it is in training mode (dropout)"
        )
    if wide is None or noise is None:
        return Tolerance(assumed, 2 * assumed)
    least, most = LEAST.get(form, LEAST["bfloat16"]), MOST.get(form, MOST["bfloat16"])
    option = max(largest_difference(_sums(scores), _sums(wide)), noise)
    return Tolerance(
        min(most, max(least, FACTOR * noise)), min(2 * most, max(2 * least, FACTOR * option)), noise
    )


def flaw(expected: Sequence[Scores], scored: Sequence[Scores], tolerance: Tolerance) -> str:
    """Return how scores differ from the reference by more than the tolerance; empty if they do not."""
    if not largest_difference(expected, scored) <= tolerance.token:
        return "differs"
    for reference, scores in zip(expected, scored, strict=True):
        reference_sums, sums = ([sum(tail) for tail in part] for part in (reference, scores))
        chosen = max(range(len(sums)), key=sums.__getitem__)
        if max(reference_sums) - reference_sums[chosen] > tolerance.option:
            return "chooses another option"
    return ""


def largest_difference(expected: Sequence[Scores], scored: Sequence[Scores]) -> float:
    """Return the largest difference of any token's log-probability in nats; infinite if one is NaN or missing."""
    missing = float("nan")
    values = [
        abs(a - b)
        for scores, other_scores in zip(expected, scored, strict=True)
        for tail, tail_ in zip(scores, other_scores, strict=True)
        for a, b in zip_longest(tail, tail_, fillvalue=missing)
    ]
    return max((value if value == value else float("inf") for value in values), default=0.0)


def _sums(scores: Sequence[Scores]) -> list[Scores]:
    return [[[sum(tail)] for tail in tails] for tails in scores]


def _wide_scores(
    layout: ModelLayout, prompts: Sequence[ContinuedPrompt], form: str
) -> list[Scores] | None:
    """Return reference scores in a wider number format; None if that is not possible."""
    import torch

    if form not in WIDER or not _fits_twice(layout.model, getattr(torch, WIDER[form])):
        return None
    try:
        with _widened(layout.model, getattr(torch, WIDER[form])):
            return reference_scores(layout, prompts)
    except (RuntimeError, TypeError, ValueError, MemoryError):
        # A part of the model computes in a format of its own. Nothing is lost: the tolerance is then assumed.
        return None


@contextlib.contextmanager
def _widened(model: Any, wide: Any) -> Iterator[None]:
    """Convert weights to the format `wide` inside the block; afterwards they are the same tensors as before."""
    narrow = [part for part in chain(model.parameters(), model.buffers()) if _widens(part, wide)]
    narrow_values = [part.data for part in narrow]
    try:
        for part in narrow:
            part.data = part.data.to(wide)
        yield
    finally:
        for part, values in zip(narrow, narrow_values, strict=True):
            part.data = values


def _widens(part: Any, wide: Any) -> bool:
    return bool(part.dtype.is_floating_point and part.dtype.itemsize < wide.itemsize)


def _fits_twice(model: Any, wide: Any) -> bool:
    """Return whether wide weights take less than half of the free memory, on one device and without quantisation."""
    parts = list(chain(model.parameters(), model.buffers()))
    device = input_device(model)
    if {part.device for part in parts} != {device} or getattr(model, "is_quantized", False):
        return False
    need: int = sum(part.numel() * wide.itemsize for part in parts if _widens(part, wide))
    return need < free_memory(device) / 2
