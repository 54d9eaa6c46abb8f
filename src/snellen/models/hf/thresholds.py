"""Where a model's behaviour may begin at a length, or one row may change another: read from the model, not its name.

A window of 4,096 tokens, blocks of which the best 16 are read, rotary frequencies that change at 8,192 tokens: a
probe shorter than that cannot reveal what a cache or a batch does to it.

What rounding does to a model's scores, measured, and so how far a fast path may be off.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

from snellen.models.hf.cached_forward import states_beside_layers
from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.load import free_memory, input_device
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores, reference_scores

KNOWN_PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "timm", "snellen")
"""Packages whose modules, wrappers and hooks are known."""
GENERATED = "<string>"
"""Where Python says that the methods of a dataclass stand."""
OPAQUE = ("torch.jit", "torch._ops", "torch._C")
"""Where torch keeps kinds of objects that run what others have written, compiled."""
POINTWISE = frozenset({"gelu", "relu", "selu", "sigmoid", "silu", "softplus", "tanh"})
"""Functions of torch without Python code that a module may hold as its activation. Others may mix places."""
CACHED = type(functools.cache(lambda: None))
"""What `functools.cache` makes of a function."""
PLAIN_DATA = ("builtins", "collections", "collections.abc", "types", "typing")
"""Where kinds of objects come from that run nothing of their own: collections, and annotations."""


def unknown_code(model: Any) -> tuple[str, ...]:
    """Names of the modules of `model` (or of what they share) that run code of other packages, in order."""
    import torch

    known_parts: dict[int, bool] = {}

    def known(part: Any) -> bool:
        if id(part) not in known_parts:
            known_parts[id(part)] = _is_known(part)
        return known_parts[id(part)]

    hooks = [value for name, value in vars(torch.nn.modules.module).items() if name.startswith("_global_")]
    names = [] if all(map(known, _functions(hooks))) else ["global hooks"]
    names += [name for name, functions in _registered() if not all(map(known, functions))]
    classes: dict[type, bool] = {}
    for name, module in model.named_modules():
        kind = type(module)
        if kind not in classes:
            classes[kind] = all(map(known, _of_class(kind)))
        if not (classes[kind] and all(map(known, _of_instance(module)))):
            names.append(name or "the model")
    return tuple(dict.fromkeys(names))


def in_training_mode(model: Any) -> tuple[str, ...]:
    """Names of the modules that still behave as in training, dropout and batch statistics included."""
    return tuple(name or "the model" for name, module in model.named_modules() if module.training)


def _of_class(kind: type) -> Iterator[Any]:
    """The methods of a class and its bases, and the functions of the modules that they are defined in; of objects in
    their places the kind."""
    for base in kind.__mro__:
        if base is object:
            continue
        yield base
        yield from _functions(vars(base).values())
        module = sys.modules.get(base.__module__)
        if module is not None and base.__module__.startswith("transformers.models"):
            yield from _functions(_named_by(module))


def _of_instance(module: Any) -> Iterator[Any]:
    """What an instance has of its own that may run: patched methods, hooks, objects, kinds of parameters."""
    attributes = vars(module)
    yield from _reachable(
        [value for name, value in attributes.items() if not name.startswith("_backward") and name != "_modules"]
    )
    for values in (attributes.get("_parameters", {}), attributes.get("_buffers", {})):
        yield from {type(value) for value in values.values() if value is not None}


def _reachable(values: Iterable[Any]) -> Iterator[Any]:
    """Functions and objects among `values`, the kinds of these, and what they hold in turn.

    An object is called like a function wherever it stands, and one that is not called itself may hold what is.
    """
    waiting, visited = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in visited or value is None or isinstance(value, (str, int, float)):
            continue
        visited.add(id(value))
        if inspect.isclass(value):
            yield value
        elif isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif inspect.ismethod(value):
            waiting += [value.__func__, value.__self__]
        elif inspect.isfunction(value):
            yield value
            cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
            # What a known decorator calls stands in its closure, among much that is not code.
            waiting += [vars(value).get("__wrapped__"), *filter(callable, cells)]
        elif inspect.isbuiltin(value):
            yield value
        elif isinstance(value, CACHED):
            waiting.append(value.__wrapped__)
        else:
            kind = type(value)
            # A path of the standard library runs nothing; what can be called may be anything, as an operator is.
            if callable(value) or kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
                yield kind
            waiting += _contents(value)


def _contents(value: Any) -> list[Any]:
    """What an object holds: the items of a collection, and the attributes of what is not a module of a model, whose own
    are looked at in its turn."""
    import torch

    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, (torch.nn.Module, torch.Tensor)):
        return []
    return list(getattr(value, "__dict__", {}).values())


def _filled(cell: Any) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _registered() -> Iterator[tuple[str, Iterable[Any]]]:
    """The functions that transformers looks up by name, and torch's own."""
    import torch

    yield "torch.nn.functional", list(_functions(_named_by(torch.nn.functional)))
    for place, names in (
        ("modeling_utils", ("ALL_ATTENTION_FUNCTIONS",)),
        ("masking_utils", ("ALL_MASK_ATTENTION_FUNCTIONS", "LAYER_PATTERN_TO_MASK_FUNCTION_MAPPING")),
        ("modeling_rope_utils", ("ROPE_INIT_FUNCTIONS",)),
    ):
        module = sys.modules.get(f"transformers.{place}")
        for name in names:
            registry = getattr(module, name, {})
            yield name, list(_functions(registry.values()))


def _named_by(module: ModuleType) -> list[Any]:
    """What a module names, without the builtins that Python puts in each, among which Jupyter and Ray put theirs."""
    return [value for name, value in vars(module).items() if name != "__builtins__"]


def _functions(values: Iterable[Any]) -> Iterator[Any]:
    """The functions among `values`, and in mappings among them, with all that they wrap; of objects that are called
    like functions their kind."""
    for value in values:
        if isinstance(value, property):
            yield from _functions(part for part in (value.fget, value.fset) if part is not None)
        elif isinstance(value, (staticmethod, classmethod)):
            yield from _functions([value.__func__])
        elif isinstance(value, functools.partial):
            yield from _functions([value.func, *value.args, *value.keywords.values()])
        elif inspect.ismethod(value):
            yield from _functions([value.__func__])
        elif inspect.isfunction(value):
            yield value
            yield from _functions([value.__wrapped__] if hasattr(value, "__wrapped__") else [])
        elif isinstance(value, dict):
            yield from _functions(list(value.values()))
        elif isinstance(value, CACHED):
            yield from _functions([value.__wrapped__])
        elif callable(value) and not (inspect.isclass(value) or inspect.isbuiltin(value)):
            yield type(value)


def _is_known(part: Any) -> bool:
    if inspect.isclass(part):
        origin = part.__module__
        if origin.startswith(OPAQUE):
            return False
        return origin in PLAIN_DATA or origin.partition(".")[0] in KNOWN_PACKAGES
    if inspect.isbuiltin(part):
        return part.__name__ in POINTWISE and (part.__module__ or "torch").startswith("torch")
    file = part.__code__.co_filename
    if file == GENERATED:
        return (part.__module__ or "").partition(".")[0] in KNOWN_PACKAGES and part.__name__.startswith("__")
    known_folders, standard = _folders()
    return file.startswith(known_folders) or (file.startswith(standard) and "site-packages" not in file)


@functools.cache
def _folders() -> tuple[tuple[str, ...], str]:
    """Where the known packages are, and the standard library, whose decorators' contents are looked at themselves."""
    specs = [find_spec(name) for name in KNOWN_PACKAGES]
    places = [Path(place) for spec in specs if spec is not None for place in spec.submodule_search_locations or ()]
    prefixes = {f"{form}/" for place in places for form in (place, place.resolve())}
    return tuple(sorted(prefixes)), f"{Path(contextlib.__file__).parent}/"


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
        settings = [
            (name, value * unit if UNIT_SETTING.search(name) else value)
            for name, value in self.lengths
            if SELECTION.search(name)
        ]
        return min(settings, key=lambda setting: setting[1], default=None)

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


WIDER = {"float32": "float64", "float16": "float32", "bfloat16": "float32"}
"""The number format in which rounding is measured."""
LEAST = {"float32": 1e-4, "float16": 0.005, "bfloat16": 0.02}
"""Tolerances below which nothing is refused, in nats: a few rows may be luckier than the rest."""
UNMEASURED = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.08}
"""Tolerances where the weights do not fit in memory a second time, or cannot be widened."""
MOST = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.2}
"""Tolerances beyond which nothing is accepted, in nats: scores that a wider format moves further are not rounded."""
FACTOR = 4.0
"""A path and its reference round independently, and many more tokens are compared than were measured."""


@dataclass(frozen=True)
class Tolerance:
    """How far scores may be off."""

    token: float
    """Nats, for each token."""
    option: float
    """Nats, for the sum over a continuation; a lead that is larger may not change hands."""
    noise: float | None = None
    """The largest difference of a token that rounding caused, in nats; None where it was not measured."""


class UnrepeatableError(ValueError):
    """A model that scores the same prompt differently from one forward pass to the next, or whose processor changes the
    prompt."""


def measure_tolerance(layout: ModelLayout, prompts: Sequence[ContinuedPrompt], scores: Sequence[Scores]) -> Tolerance:
    """The tolerance from the noise on `prompts`, whose reference scores are `scores`.

    Raises UnrepeatableError when the reference itself gives other scores a second time.
    """
    form = str(layout.model.dtype).removeprefix("torch.")
    assumed = UNMEASURED.get(form, UNMEASURED["bfloat16"])
    again = reference_scores(layout, prompts)
    repeated = largest_difference(scores, again)
    wide = _wide_scores(layout, prompts, form)
    noise = None if wide is None else max(largest_difference(scores, wide), repeated)
    if repeated > assumed:
        raise UnrepeatableError(
            f"the same prompt scored twice differs by {repeated:.2g} nats, so no score of this model could be trusted; "
            "is a part of it in training mode (dropout)?"
        )
    if wide is None or noise is None:
        return Tolerance(assumed, 2 * assumed)
    least, most = LEAST.get(form, LEAST["bfloat16"]), MOST.get(form, MOST["bfloat16"])
    option = max(largest_difference(_sums(scores), _sums(wide)), noise)
    return Tolerance(min(most, max(least, FACTOR * noise)), min(2 * most, max(2 * least, FACTOR * option)), noise)


def flaw(expected: Sequence[Scores], scored: Sequence[Scores], tolerance: Tolerance) -> str:
    """How scores differ from the reference by more than the tolerance allows; empty if they do not."""
    if not largest_difference(expected, scored) <= tolerance.token:
        return "differs"
    for reference, scores in zip(expected, scored, strict=True):
        reference_sums, sums = ([sum(tail) for tail in part] for part in (reference, scores))
        chosen = max(range(len(sums)), key=sums.__getitem__)
        if max(reference_sums) - reference_sums[chosen] > tolerance.option:
            return "chooses another option"
    return ""


def largest_difference(expected: Sequence[Scores], scored: Sequence[Scores]) -> float:
    """Largest difference of any token's log-probability, in nats; infinite where one is NaN or missing."""
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


def _wide_scores(layout: ModelLayout, prompts: Sequence[ContinuedPrompt], form: str) -> list[Scores] | None:
    """Reference scores in a wider number format; None if that is not possible."""
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
    """Within this context weights are in the format `wide`; afterwards they are the same tensors as before."""
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
    """Whether wide weights take less than half of the free memory, and the model is in one place and not quantised."""
    parts = list(chain(model.parameters(), model.buffers()))
    device = input_device(model)
    if {part.device for part in parts} != {device} or getattr(model, "is_quantized", False):
        return False
    need: int = sum(part.numel() * wide.itemsize for part in parts if _widens(part, wide))
    return need < free_memory(device) / 2
