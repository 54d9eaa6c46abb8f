"""Compute a fingerprint of a model object: facts that change when its replies change.

An object may declare its fingerprint itself, by an attribute or method `fingerprint` that gives a
text or a dict of texts. For any other object, digests of its class's code and of each of its
attributes are computed, which includes weights and the user's own functions. Equal objects in two
processes have equal digests.

The content of some attributes cannot be known, such as a connection, an open file or a thread. The
fingerprint then says so, and stored replies of the object are not used again. Locks are ignored,
because no reply depends on them.
"""

from __future__ import annotations

import ast
import copyreg
import dis
import hashlib
import io
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from functools import cache, cached_property
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from snellen.errors import ModelError

NOT_FINGERPRINTED = "not fingerprinted"
"""Fact of a fingerprint that says why it is incomplete."""
OF_CONTENT = "of what it holds and runs"
"""Value that marks a fingerprint which was computed and not declared."""
DECLARE = (
    "give it an attribute `fingerprint`, a string that changes whenever its replies would (docs/models.md, What "
    "its answers depend on)"
)
"""Advice for errors."""

MOST_PARTS = 2_000_000
"""Maximum number of parts of an object; a tensor or array is one part. Digesting so many takes about ten seconds."""
CHUNK = 1 << 26
"""Bytes of a tensor that are copied at once."""
LENGTH = 16
LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Names of folders in which packages are installed."""
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), range)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_PROCESSES = (threading.Thread, threading.local, Executor, subprocess.Popen, io.IOBase)
_SLOTS = (MemberDescriptorType, GetSetDescriptorType)
_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__")


def why_not_fingerprinted(fingerprint: Mapping[str, str]) -> str:
    """Return why a fingerprint is incomplete; empty if it is complete."""
    return fingerprint.get(NOT_FINGERPRINTED, "")


def is_of_content(fingerprint: Mapping[str, str]) -> bool:
    """Return whether a fingerprint was computed from an object's content and code. If not, the object declared it."""
    return fingerprint.get("fingerprint") == OF_CONTENT


class UndigestibleError(Exception):
    """An object contains something whose content cannot be known; the message names it."""


def object_fingerprint(model: Any) -> dict[str, str]:
    """Return the fingerprint of a model object, as texts by name.

    It is the one that the object declares or, without one, a digest of its class and of each of its
    attributes. Reading weights takes about a second for each 1.6 GB. Raises ModelError if the
    declared fingerprint is neither a text nor a dict.
    """
    kind = model if isinstance(model, type) else type(model)
    name = f"{kind.__module__}.{kind.__qualname__}"
    declared = getattr(model, "fingerprint", None)
    declared = declared() if callable(declared) else declared
    if isinstance(declared, str) and declared:
        return {"declared": declared}
    if isinstance(declared, Mapping) and declared:
        return {str(fact): str(text) for fact, text in declared.items()}
    if declared is not None:
        raise ModelError(
            f"{name}: its fingerprint is {declared!r}; give a text, or a dict of texts"
        )
    parts: dict[str, Any]
    if isinstance(model, (ModuleType, type)):
        parts = {"code": model}
    elif _is_plain(kind):
        parts = {"code": kind}
        for attribute, part in getattr(model, "__dict__", {}).items():
            parts[f"attribute {attribute}"] = part
    else:
        parts = {"code": kind, "state": model}
    return digested_facts(parts, {"class": name}, ObjectDigester(own=kind))


def digested_facts(
    parts: Mapping[str, Any], facts: Mapping[str, str], digester: ObjectDigester | None = None
) -> dict[str, str]:
    """Return the given facts, and a digest of each part by its name.

    Numbers, Booleans and None are written out instead, so that the user can see what has changed.
    If a part cannot be digested, the fact `NOT_FINGERPRINTED` says why.

    Args:
        parts: The parts by name, such as the attributes of an object.
        facts: Facts that are known already.
        digester: Computes the digests; by default a new one.
    """
    digester = digester or ObjectDigester()
    all_facts = {**facts, "fingerprint": OF_CONTENT}
    for name, part in parts.items():
        try:
            is_number = part is None or type(part) in (bool, int, float)
            all_facts[name] = repr(part) if is_number else digester.digest(part).hex()[:LENGTH]
        except UndigestibleError as error:
            all_facts.setdefault(NOT_FINGERPRINTED, f"{name} holds {error}")
        except RecursionError:
            all_facts.setdefault(NOT_FINGERPRINTED, f"{name} is nested too deeply")
    return all_facts


def content_facts(name: str, content: object) -> dict[str, str]:
    """Return a digest of an object by the given name, for a fingerprint; or the reason why it cannot be computed."""
    facts = digested_facts({name: content}, {})
    del facts["fingerprint"]  # the caller declares what else replies depend on
    return facts


def _is_plain(kind: type) -> bool:
    """Return whether the objects of a class have all their state in attributes.

    They do not if the class has slots, or changes how its objects are pickled.
    """
    for name in _PICKLING:
        if getattr(kind, name) is not getattr(object, name):
            return False
    return not any(vars(base).get("__slots__") for base in kind.__mro__)


class ObjectDigester:
    """Computes digests of objects. A part that several objects share is read only once.

    Args:
        own: A class whose code is digested even if it is in an installed package.
        own_package: A package whose code is digested by its content even if it is installed.
        skips_unknown: Whether a default, a global variable or another value that a function uses is
            digested by its type alone if its content cannot be known, instead of raising an error.

    Attributes:
        files: The files of all modules whose code was digested by its content.
    """

    def __init__(
        self, own: type | None = None, *, own_package: str = "", skips_unknown: bool = False
    ) -> None:
        self.files: set[Path] = set()
        self._own: Any = own
        self._own_package = own_package
        self._skips_unknown = skips_unknown
        # Digests by id, with the objects, so that no id is used again while the digester exists.
        self._done: dict[int, tuple[object, bytes]] = {}
        self._open: dict[int, int] = {}
        self._parts = 0

    def digest(self, value: object) -> bytes:
        """Return a digest (32 bytes) of everything that an object contains.

        The object is kept together with its digest. Otherwise it could be deleted, and another
        object could get the same `id`.

        Raises:
            UndigestibleError: The object has too many parts, or a part whose content cannot be
                known.
        """
        stored = self._done.get(id(value))
        if stored is not None:
            return stored[1]
        if id(value) in self._open:
            # The object contains itself: its distance in the nesting identifies it.
            distance = len(self._open) - self._open[id(value)]
            return _hash(b"again", str(distance).encode())
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise UndigestibleError(f"more than {MOST_PARTS:,} parts")
        if type(value) in _ATOMS:
            content = value if isinstance(value, bytes) else repr(value).encode()
            return _hash(type(value).__name__.encode(), content)
        self._open[id(value)] = len(self._open)
        try:
            digest = self._content(value)
        finally:
            del self._open[id(value)]
        self._done[id(value)] = value, digest
        return digest

    def _all(self, name: str, parts: Iterable[object]) -> bytes:
        """Return a digest of a name and of all parts, in order."""
        digests = [self.digest(part) for part in parts]
        return _hash(name.encode(), *digests)

    def _content(self, part: Any) -> bytes:
        """Return the digest of an object that may contain others. How it is computed depends on the object's type."""
        name = type(part).__name__
        if type(part) in (list, tuple):
            return self._all(name, part)
        if type(part) is dict:
            keys_and_values: list[object] = []
            for key, value in part.items():
                keys_and_values += [key, value]
            return self._all(name, keys_and_values)
        if type(part) in (set, frozenset):
            return _hash(b"set", *sorted(self.digest(item) for item in part))
        if isinstance(part, _LOCKS):
            return _hash(b"lock")
        if isinstance(part, _PROCESSES):
            raise UndigestibleError(f"a {type(part).__module__}.{type(part).__qualname__}")
        if isinstance(part, (type, FunctionType, CodeType, MethodType, ModuleType)):
            return self._code(part)
        if isinstance(part, (BuiltinFunctionType, WrapperDescriptorType)):
            return self._all("builtin", (part.__qualname__, part.__module__, _owner(part)))
        wrappers = (staticmethod, classmethod, property, cached_property, type(cache(id)))
        if isinstance(part, wrappers):
            functions = []
            for attribute in ("__wrapped__", "func", "fget", "fset"):
                functions.append(getattr(part, attribute, None))
            return self._all(name, functions)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(part, torch.Tensor):
            return self._tensor(part)
        if hasattr(part, "__array__") and hasattr(part, "dtype"):
            return self._array(part)
        return self._reduced(part)

    # --- code: as Python has compiled it, which is there in a notebook too, and does not change with comments ---------

    def _code(self, part: Any) -> bytes:
        """Return the digest of a function, class, module or method.

        Code of the user is digested by its content, and code of a library by its name and the
        version of the library.
        """
        if isinstance(part, CodeType):
            return self._compiled(part)
        if isinstance(part, MethodType):
            return self._all("method", (part.__func__, part.__self__))
        module = part.__name__ if isinstance(part, ModuleType) else part.__module__ or ""
        package = module.partition(".")[0]
        is_own = part is self._own or package == self._own_package
        if not is_own and _is_library(module) and _is_importable(part, module):
            version = _version(package)
            return _hash(f"{version} {module}.{getattr(part, '__qualname__', '')}".encode())
        self._note_file(module)
        if isinstance(part, ModuleType):
            return self._module(part)
        if isinstance(part, type):
            return self._all("class", (part.__qualname__, part.__bases__, _class_parts(part)))
        # A function. Names of attributes are included, which at worst makes it depend on too much.
        used_globals = {}
        for name in _names(part.__code__):
            if name in part.__globals__:
                used_globals[name] = self._used(part.__globals__[name])
        closure = []
        for cell in part.__closure__ or ():
            if cell != CellType():  # not empty
                closure.append(self._used(cell.cell_contents))
        parts = [
            part.__code__,
            self._used(part.__defaults__),
            self._used(part.__kwdefaults__),
            self._used(part.__dict__),
            used_globals,
            closure,
        ]
        for file in _imported_files(part.__code__):
            self.files.add(file)
            parts.append(file.read_bytes())
        return self._all("function", parts)

    def _used(self, value: Any) -> Any:
        """Return a value that a function uses, or its type if its content cannot be known and is to be skipped.

        For example, a client of a service holds connections. Its type is then all that is digested.
        """
        if not self._skips_unknown:
            return value
        try:
            self.digest(value)
        except (UndigestibleError, RecursionError):
            return f"{type(value).__module__}.{type(value).__qualname__}"
        return value

    def _module(self, module: ModuleType) -> bytes:
        """Return the digest of a module: its file, and the code of the user that it imports from other files."""
        try:
            content = Path(str(module.__file__)).read_bytes()
        except (AttributeError, OSError):
            raise UndigestibleError(f"the module {module.__name__}, which has no file") from None
        imported: list[bytes] = []
        for part in vars(module).values():
            if isinstance(part, ModuleType):
                origin = part.__name__
            elif isinstance(part, (type, FunctionType)):
                origin = part.__module__ or ""
            else:
                continue
            if origin != module.__name__ and not _is_library(origin):
                imported.append(self.digest(part))
        return _hash(b"module", content, *imported)

    def _note_file(self, module: str) -> None:
        """Note the files of a module and of the user's modules that it imports.

        A script that is running is left out: it has more than the code that is digested.
        """
        file = getattr(sys.modules.get(module), "__file__", None)
        if file is None or module == "__main__" or Path(file) in self.files:
            return
        self.files.add(Path(file))
        for imported in _imported_modules(module, Path(file)):
            if imported in sys.modules and not _is_library(imported):
                self._note_file(imported)

    def _compiled(self, code: CodeType) -> bytes:
        """Return the digest of compiled code, without file name and line numbers."""
        names = (
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_flags,
        )
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        return self._all(
            "code", (code.co_code, code.co_consts, names, counts, code.co_exceptiontable)
        )

    # --- content ------------------------------------------------------------------------------------------------------

    def _tensor(self, tensor: Any) -> bytes:
        """Return the digest of a PyTorch tensor on any device. It does not depend on strides."""
        import torch

        try:
            values = tensor.detach().resolve_conj().resolve_neg().contiguous()
            flat = values.reshape(-1).view(torch.uint8)
            content = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            for start in range(0, flat.numel(), CHUNK):
                chunk = flat[start : start + CHUNK].cpu().numpy()
                content.update(memoryview(chunk))
        except RuntimeError as error:  # of a kind without bytes, or on the device meta
            raise UndigestibleError(
                f"a tensor whose bytes cannot be read ({str(error).splitlines()[0]})"
            ) from None
        attributes = getattr(tensor, "__dict__", None) or None
        return _hash(b"tensor", content.digest(), self.digest(attributes))

    def _array(self, part: Any) -> bytes:
        """Return the digest of a NumPy array, or of an object that NumPy can convert to one."""
        import numpy

        array = numpy.asarray(part)
        if array.dtype.hasobject:
            return self._all(f"array {array.shape}", array.ravel().tolist())
        flat = numpy.ascontiguousarray(array).reshape(-1)
        content = hashlib.sha256(flat.view(numpy.uint8).tobytes())
        return _hash(b"array", f"{array.dtype} {array.shape}".encode(), content.digest())

    def _reduced(self, part: Any) -> bytes:
        """Return the digest of any other object.

        A model is digested by its own fingerprint, and other objects by what `pickle` would store
        of them.
        """
        kind = type(part)
        answers = any(callable(getattr(kind, name, None)) for name in ("generate", "ask"))
        if answers and callable(getattr(kind, "fingerprint", None)):
            return self._all("model", (part.fingerprint(),))
        try:
            reducer = copyreg.dispatch_table.get(kind)
            reduced = reducer(part) if reducer else part.__reduce_ex__(4)
        except Exception as error:  # foreign classes may raise anything
            fault = " ".join(str(error).split()) or type(error).__name__
            raise UndigestibleError(f"a {kind.__module__}.{kind.__qualname__} ({fault})") from None
        if isinstance(reduced, str):
            return _hash(b"named", reduced.encode())
        made_by, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        return self._all(
            "object", (made_by, arguments, state, list(items or ()), list(pairs or ()))
        )


def _hash(*parts: bytes) -> bytes:
    """Return the SHA-256 of some bytes, each with its length, so that ("ab", "c") and ("a", "bc") differ."""
    content = hashlib.sha256()
    for part in parts:
        content.update(len(part).to_bytes(8))
        content.update(part)
    return content.digest()


def _owner(function: Any) -> object:
    """Return the object to which a builtin method is bound; None for a builtin function of a module."""
    owner = getattr(function, "__self__", None)
    return None if isinstance(owner, ModuleType) else owner


def _version(package: str) -> str:
    """Return the version of an installed package; empty if it has none, as a module of Python."""
    declared = getattr(sys.modules.get(package), "__version__", None)
    if declared is not None or package in sys.stdlib_module_names:
        return str(declared or "")
    # Imported here because it takes 20 ms, and most packages declare their version.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _imported_modules(module: str, file: Path) -> list[str]:
    """Return the names that a module's file may import as modules at its top level, in full."""
    package = getattr(sys.modules.get(module), "__package__", "") or ""
    try:
        statements = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[str] = []
    for statement in statements:
        if isinstance(statement, ast.Import):
            names += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            origin = statement.module or ""
            with suppress(ImportError):
                origin = resolve_name("." * statement.level + origin, package)
            names += [origin, *(f"{origin}.{alias.name}" for alias in statement.names)]
    return names


def _imported_files(code: CodeType) -> list[Path]:
    """Return the files of the user's modules that a function imports when it is called.

    Only modules outside of packages are looked up, because looking up others could import a large package.
    """
    files: list[Path] = []
    for instruction in dis.get_instructions(code):
        module = instruction.argval
        if instruction.opname != "IMPORT_NAME" or not module.isidentifier():
            continue
        if module in sys.stdlib_module_names or module == "snellen":
            continue
        with suppress(ImportError, ValueError):
            spec = find_spec(module)
            if spec is not None and spec.has_location and spec.origin:
                files.append(Path(spec.origin))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            files += _imported_files(constant)
    return [file for file in files if file.suffix == ".py" and LIBRARIES.isdisjoint(file.parts)]


def _is_library(module: str) -> bool:
    """Return whether a module belongs to Python, to Snellen or to an installed package.

    The code of such a module is identified by its name and version. Other code, such as a user's script, is not.
    """
    top_package = module.partition(".")[0]
    if top_package in sys.stdlib_module_names or top_package == "snellen":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return False
    return not LIBRARIES.isdisjoint(Path(file).parts)


def _is_importable(part: Any, module: str) -> bool:
    """Return whether a module has this function or class under its qualified name.

    If so, the name identifies it in a library. It is not so for a function that was defined inside
    another function.
    """
    current: Any = sys.modules.get(module)
    qualified_name = getattr(part, "__qualname__", "")
    for name in qualified_name.split("."):
        if name:
            current = getattr(current, name, None)
    return current is part


def _names(code: CodeType) -> list[str]:
    """Return the names that compiled code may look up outside of itself, without duplicates.

    Names in functions that are defined inside the code are included.
    """
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return list(names)


def _class_parts(kind: type) -> list[tuple[str, Any]]:
    """Return the methods and attributes that a class itself defines, by name.

    Names with two underscores that are not methods are left out, because Python or a decorator sets them.
    """
    parts = []
    for name, part in sorted(vars(kind).items()):
        is_special = name.startswith("__") and name.endswith("__")
        if is_special and not isinstance(part, FunctionType):
            continue
        if name.startswith(("__annot", "_abc_")) or isinstance(part, _SLOTS):
            continue
        parts.append((name, part))
    return parts
