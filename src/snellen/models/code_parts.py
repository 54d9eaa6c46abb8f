"""What a function or class of the user's program consists of, and whether it is the user's at all. Pure.

Code is taken as Python has compiled it: it is there in a notebook too, is what really runs, and does not change with
comments, with blank lines or with what else stands in the file. Another version of Python compiles it otherwise.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Folders that packages are installed in."""
_SLOTS = (MemberDescriptorType, GetSetDescriptorType)
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")


def is_library(module: str) -> bool:
    """Whether a module was installed, or comes with Python, so that its name and version stand for it."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "snellen":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not LIBRARIES.isdisjoint(Path(file).parts)


def library_name(module: str, name: str) -> str:
    """`torch 2.7.0 torch.nn.functional.relu`: what stands for a thing of a library."""
    top = module.partition(".")[0]
    version = getattr(sys.modules.get(top), "__version__", "")
    return f"{top} {version} {module}.{name}"


def is_importable(thing: Any) -> bool:
    """Whether a function or class can be found under its name, so that this stands for it in a library."""
    found: Any = sys.modules.get(thing.__module__ or "")
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


def code_parts(code: CodeType) -> tuple[object, ...]:
    """What compiled code does, without where it stands; functions inside it are among its constants."""
    arguments = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, code.co_consts, names, arguments, code.co_exceptiontable


def global_names(code: CodeType) -> list[str]:
    """The names that code, with the functions inside it, looks up outside of itself, in order."""
    names = {step.argval: None for step in dis.get_instructions(code) if step.opname in _GLOBALS}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(global_names(constant)))
    return list(names)


def closure_values(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function has of the functions around it, by name; names that have no value yet are left out."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def class_parts(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods and attributes that a class itself defines, by name, in the order of their names.

    What Python or a decorator keeps there for itself is left out: names with two underscores that are no methods.
    """
    for name, part in sorted(vars(kind).items()):
        kept = name.startswith("__") and name.endswith("__") and not isinstance(part, FunctionType)
        if not (kept or name.startswith(("__annot", "_abc_")) or isinstance(part, _SLOTS)):
            yield name, part
