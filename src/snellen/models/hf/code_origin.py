"""Which parts of a model run code that Snellen cannot vouch for: remote code, subclasses, patches, hooks.

The released code of transformers and torch treats the rows of a batch one by one and names in its settings
whatever begins at a length. Other code may do neither, and no number of probes could show that it does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

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

    seen: dict[int, bool] = {}

    def known(part: Any) -> bool:
        if id(part) not in seen:
            seen[id(part)] = _known(part)
        return seen[id(part)]

    hooks = [value for name, value in vars(torch.nn.modules.module).items() if name.startswith("_global_")]
    found = [] if all(map(known, _functions(hooks))) else ["global hooks"]
    found += [name for name, functions in _registered() if not all(map(known, functions))]
    classes: dict[type, bool] = {}
    for name, module in model.named_modules():
        kind = type(module)
        if kind not in classes:
            classes[kind] = all(map(known, _of_class(kind)))
        if not (classes[kind] and all(map(known, _of_instance(module)))):
            found.append(name or "the model")
    return tuple(dict.fromkeys(found))


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
    own = vars(module)
    yield from _held([value for name, value in own.items() if not name.startswith("_backward") and name != "_modules"])
    for values in (own.get("_parameters", {}), own.get("_buffers", {})):
        yield from {type(value) for value in values.values() if value is not None}


def _held(values: Iterable[Any]) -> Iterator[Any]:
    """Functions and objects among `values`, the kinds of these, and what they hold in turn.

    An object is called like a function wherever it stands, and one that is not called itself may hold what is.
    """
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or value is None or isinstance(value, (str, int, float)):
            continue
        seen.add(id(value))
        if inspect.isclass(value):
            yield value
        elif isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif inspect.ismethod(value):
            waiting += [value.__func__, value.__self__]
        elif inspect.isfunction(value):
            yield value
            cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
            # What a known decorator calls stands in its closure, among much that is no code.
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
    """What an object holds: the items of a collection, and the attributes of what is no module of a model, whose own
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


def _known(part: Any) -> bool:
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
    own, standard = _folders()
    return file.startswith(own) or (file.startswith(standard) and "site-packages" not in file)


@functools.cache
def _folders() -> tuple[tuple[str, ...], str]:
    """Where the known packages are, and the standard library, whose decorators' contents are looked at themselves."""
    found = [find_spec(name) for name in KNOWN_PACKAGES]
    places = [Path(place) for spec in found if spec is not None for place in spec.submodule_search_locations or ()]
    own = {f"{form}/" for place in places for form in (place, place.resolve())}
    return tuple(sorted(own)), f"{Path(contextlib.__file__).parent}/"
