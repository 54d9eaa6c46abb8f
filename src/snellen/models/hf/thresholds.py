"""Facts about where a model's behaviour may change with length, and a measured tolerance for its scores.

Facts are read from the model, not from its name: a window of 4,096 tokens, a selection of 16 blocks, rotary frequencies
that change at 8,192 tokens. A probe shorter than that cannot show what a cache or a batch does to the scores. The
tolerance limits how far a fast path may differ from the reference, given the measured effect of rounding.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
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

    names = []
    if not all(_is_known(hook) for hook in _global_hooks(torch)):
        names.append("global hooks")
    known_types: dict[type, bool] = {}
    for name, module in model.named_modules():
        module_type = type(module)
        if module_type not in known_types:
            known_types[module_type] = all(_is_known(part) for part in _of_class(module_type))
        is_known = known_types[module_type] and all(
            _is_known(part) for part in _of_instance(module)
        )
        if not is_known:
            names.append(name or "the model")
    return tuple(names)


def _global_hooks(torch: Any) -> Iterator[Any]:
    """Yield the hooks that torch calls for modules of every model."""
    for name, hooks in vars(torch.nn.modules.module).items():
        if name.startswith("_global_") and isinstance(hooks, dict):
            yield from hooks.values()


def in_training_mode(model: Any) -> tuple[str, ...]:
    """Return the names of the modules that still behave as in training, such as with dropout."""
    names = []
    for name, module in model.named_modules():
        if module.training:
            names.append(name or "the model")
    return tuple(names)


def _of_class(kind: type) -> Iterator[Any]:
    """Yield a class and its bases, with what they define."""
    for base in kind.__mro__[:-1]:
        yield base
        yield from vars(base).values()


def _of_instance(module: Any) -> Iterator[Any]:
    """Yield the attributes of an instance that may run code: patched methods, hooks, objects, types of parameters."""
    for name, value in vars(module).items():
        if name == "_modules":  # each is examined by itself
            continue
        if name in ("_parameters", "_buffers"):
            yield from {type(part) for part in value.values() if part is not None}
            continue
        yield value
        if isinstance(value, dict):
            yield from value.values()


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
        wrapped = vars(part).get("__wrapped__")
        if wrapped is not None and not _is_known(wrapped):
            return False
        known_folders, standard_library = _folders()
        file = part.__code__.co_filename
        if file.startswith(known_folders):
            return True
        return file.startswith(standard_library) and "site-packages" not in file
    if not callable(part):
        return True
    if inspect.isbuiltin(part):
        return part.__name__ in POINTWISE and (part.__module__ or "torch").startswith("torch")
    type_of_part = part if inspect.isclass(part) else type(part)
    module = type_of_part.__module__
    if module.startswith(OPAQUE):
        return False
    package = module.partition(".")[0]
    return module in PLAIN_DATA or package in KNOWN_PACKAGES


@functools.cache
def _folders() -> tuple[tuple[str, ...], str]:
    """Return the folders of the known packages, and the folder of the standard library, each with a final slash."""
    package_folders = set()
    for name in KNOWN_PACKAGES:
        spec = find_spec(name)
        if spec is None:
            continue
        for location in spec.submodule_search_locations or ():
            package_folders.add(f"{Path(location)}/")
            package_folders.add(f"{Path(location).resolve()}/")
    standard_library = f"{Path(contextlib.__file__).parent}/"
    return tuple(sorted(package_folders)), standard_library


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
        """Return the settings that affect texts of `length` tokens, as in "sliding_window=512"."""
        reached = []
        for name, value in self.lengths:
            if value <= length:
                reached.append(f"{name}={value}")
        return tuple(reached)

    @property
    def selecting(self) -> tuple[str, int] | None:
        """The first setting that selects part of a text, and from how many tokens; None if there is none.

        If it counts blocks, their size is included: 16 blocks of 128 are 2,048 tokens.
        """
        unit_sizes = []
        for name, value in self.lengths:
            if UNIT_SETTING.search(name) and not SELECTION.search(name):
                unit_sizes.append(value)
        unit_size = min(unit_sizes, default=1)
        settings = []
        for name, value in self.lengths:
            if SELECTION.search(name):
                counts_units = UNIT_SETTING.search(name)
                settings.append((name, value * unit_size if counts_units else value))
        return min(settings, key=lambda setting: setting[1], default=None)

    @property
    def endless(self) -> bool:
        """Whether all lengths are windows, beyond which nothing else changes."""
        return all(name == WINDOW for name, _ in self.lengths)

    def next_length(self, length: int) -> int | None:
        """Return the first length beyond `length` at which behaviour may change; None if there is none."""
        return min((value for _, value in self.lengths if value > length), default=None)


def read_facts(model: Any, longest: int | None, cache: Any = None) -> ModelFacts:
    """Return the facts of `model`, for texts of at most `longest` tokens, and of a cache that it filled."""
    lengths = {}
    for name, value in _lengths(model):
        if longest is None or value <= longest:
            lengths[name] = value

    competing = set()
    for name, value in _settings(model):
        if value and ROW_SETTING.search(name):
            competing.add(name)

    unknown = unknown_code(model)
    odd_layers: list[str] = []
    if cache is not None:
        unknown += _unknown_cache(cache)
        for layer in getattr(cache, "layers", ()):
            if not _plain(layer):
                odd_layers.append(type(layer).__name__)
        odd_layers.extend(states_beside_layers(cache))
    return ModelFacts(
        unknown_code=unknown,
        training=in_training_mode(model),
        competing=tuple(sorted(competing)),
        lengths=tuple(sorted(lengths.items(), key=lambda item: item[1])),
        odd_layers=tuple(dict.fromkeys(odd_layers)),
    )


def longest_text(model: Any) -> int | None:
    """Return the maximum number of tokens that the model accepts, if its settings say so."""
    text = getattr(model.config, "text_config", model.config)
    longest = getattr(text, "max_position_embeddings", None)
    return int(longest) if longest else None


def crossing_length(facts: ModelFacts) -> int:
    """Return the number of tokens of a text that reaches all lengths except selections; 0 if there are none."""
    lengths = [value for name, value in facts.lengths if not SELECTION.search(name)]
    return max(lengths, default=0)


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
    """Yield the lengths at which rotary frequencies change, with names such as "dynamic rope"."""
    text_config = model.config.get_text_config(decoder=True)
    rope = getattr(text_config, "rope_parameters", None)
    rope = rope or getattr(text_config, "rope_scaling", None) or {}
    # Settings may differ by type of layer: then they are in mappings inside the mapping.
    per_layer_type = [part for part in rope.values() if isinstance(part, dict)]
    for settings in (rope, *per_layer_type):
        rope_type = settings.get("rope_type", settings.get("type", "default"))
        if rope_type in STATIC_ROPE:
            continue
        length = settings.get("original_max_position_embeddings")
        length = length or getattr(text_config, "original_max_position_embeddings", None)
        yield f"{rope_type} rope", int(length or text_config.max_position_embeddings)


def _settings(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of all settings that the text decoder may read.

    They are from its configuration and the attributes of its modules.
    """
    text_config = model.config.get_text_config(decoder=True)
    for config in (model.config, text_config):
        for name, value in config.to_dict().items():
            if not isinstance(value, bool):
                yield name, value
    if not hasattr(model, "get_decoder"):
        return
    decoder = model.get_decoder()
    if decoder is None:
        return
    for module in decoder.modules():
        for name, value in vars(module).items():
            if type(value) is int:
                yield name, value


def _whole_numbers(value: Any) -> Iterator[int]:
    """Yield the whole numbers in a value, which may be nested mappings and lists."""
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
    layer_type = type(layer)
    return (
        layer_type.__name__ == "DynamicLayer"
        and layer_type.__module__ == "transformers.cache_utils"
    )


def _unknown_cache(cache: Any) -> tuple[str, ...]:
    """Return the types of a cache and its layers that are not from transformers."""
    types = {type(cache)} | {type(layer) for layer in cache.layers}
    names = []
    for cache_type in types:
        if not cache_type.__module__.startswith("transformers."):
            names.append(cache_type.__name__)
    return tuple(sorted(names))


def _listed(names: Sequence[str]) -> str:
    """Return the first two names, and how many more there are."""
    listed = ", ".join(names[:2])
    if len(names) > 2:
        return f"{listed} and {len(names) - 2} more"
    return listed


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

    Noise is the larger of two differences: from a second computation, and from one in a wider number format.

    Raises UnrepeatableError if the reference gives other scores a second time.
    """
    number_format = str(layout.model.dtype).removeprefix("torch.")
    assumed = UNMEASURED.get(number_format, UNMEASURED["bfloat16"])
    repeated_difference = largest_difference(scores, reference_scores(layout, prompts))
    wide_scores = _wide_scores(layout, prompts, number_format)
    if repeated_difference > assumed:
        raise UnrepeatableError(
            f"two scores of the same prompt differ by {repeated_difference:.2g} nats, so scores of this model are "
            "unreliable; check whether a part of it is in training mode (dropout)"
        )
    if wide_scores is None:
        return Tolerance(assumed, 2 * assumed)
    noise = max(largest_difference(scores, wide_scores), repeated_difference)
    option_noise = max(largest_difference(_sums(scores), _sums(wide_scores)), noise)
    least = LEAST.get(number_format, LEAST["bfloat16"])
    most = MOST.get(number_format, MOST["bfloat16"])
    return Tolerance(
        token=min(most, max(least, FACTOR * noise)),
        option=min(2 * most, max(2 * least, FACTOR * option_noise)),
        noise=noise,
    )


def flaw(expected: Sequence[Scores], scored: Sequence[Scores], tolerance: Tolerance) -> str:
    """Return how scores differ from the reference by more than the tolerance; empty if they do not.

    Args:
        expected: For each prompt, the reference scores of the tokens of each continuation.
        scored: The same from a fast path.
        tolerance: The maximum difference of a token, and of the sum over a continuation.
    """
    if not largest_difference(expected, scored) <= tolerance.token:  # also if it is NaN
        return "differs"
    for reference_tails, tails in zip(expected, scored, strict=True):
        reference_sums = [sum(tail) for tail in reference_tails]
        sums = [sum(tail) for tail in tails]
        chosen = sums.index(max(sums))
        if max(reference_sums) - reference_sums[chosen] > tolerance.option:
            return "chooses another option"
    return ""


def largest_difference(expected: Sequence[Scores], scored: Sequence[Scores]) -> float:
    """Return the largest difference of any token's log-probability in nats; infinite if one is NaN or missing."""
    largest = 0.0
    for expected_tails, scored_tails in zip(expected, scored, strict=True):
        for expected_tail, scored_tail in zip(expected_tails, scored_tails, strict=True):
            for a, b in zip_longest(expected_tail, scored_tail, fillvalue=math.nan):
                difference = abs(a - b)
                largest = max(largest, math.inf if math.isnan(difference) else difference)
    return largest


def _sums(scores: Sequence[Scores]) -> list[Scores]:
    """Return scores with one value per continuation: the sum over its tokens."""
    sums: list[Scores] = []
    for tails in scores:
        sums.append([[sum(tail)] for tail in tails])
    return sums


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
    narrow = [
        part for part in chain(model.parameters(), model.buffers()) if _is_narrower(part, wide)
    ]
    narrow_values = [part.data for part in narrow]
    try:
        for part in narrow:
            part.data = part.data.to(wide)
        yield
    finally:
        for part, values in zip(narrow, narrow_values, strict=True):
            part.data = values


def _is_narrower(part: Any, wide: Any) -> bool:
    """Return whether a tensor holds floating-point numbers of a narrower format than `wide`."""
    return bool(part.dtype.is_floating_point and part.dtype.itemsize < wide.itemsize)


def _fits_twice(model: Any, wide: Any) -> bool:
    """Return whether wide weights take less than half of the free memory, on one device and without quantisation."""
    parts = list(chain(model.parameters(), model.buffers()))
    device = input_device(model)
    if {part.device for part in parts} != {device} or getattr(model, "is_quantized", False):
        return False
    values = sum(part.numel() for part in parts if _is_narrower(part, wide))
    needed: int = values * wide.itemsize
    return needed < free_memory(device) / 2
