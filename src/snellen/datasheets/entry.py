"""How a benchmark was made: its entry in the catalogue's language, and the command that builds it again."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmark import Benchmark, BenchmarkManifest
from snellen.catalogue import entries, entry_folder
from snellen.paths import as_word


def entry_text(manifest: BenchmarkManifest) -> str:
    """The benchmark's entry in the catalogue's language: what differs from the defaults."""
    spec = manifest.spec
    fields = {
        name: value
        for name, value in msgspec.to_builtins(spec).items()
        if name in ("name", "title", "formulation") or (value and value != _default(type(spec), name))
    }
    source = fields.pop("source")
    lines = [f"{name} = {_toml(value)}" for name, value in fields.items()]
    kept = {
        name: value
        for name, value in source.items()
        if name == "reader" or (value and value != _default(type(spec.source), name))
    }
    return "\n".join([*lines, "", "[source]", *(f"{name} = {_toml(value)}" for name, value in kept.items())]) + "\n"


def _default(form: type[Struct], name: str) -> Any:
    defaults = {field.name: field.default for field in msgspec.structs.fields(form)}
    return msgspec.to_builtins(defaults[name]) if defaults[name] is not msgspec.NODEFAULT else None


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return msgspec.json.encode(value).decode()


def _key(name: str) -> str:
    return name if name.replace("-", "_").isidentifier() and name.isascii() else msgspec.json.encode(name).decode()


def rebuild_command(benchmark: Benchmark) -> str:
    """The command that builds it again, as far as one can."""
    spec, recipe = benchmark.spec, dict(benchmark.manifest.made.recipe)
    source, words = spec.source, []
    if earlier := benchmark.manifest.made.earlier:
        return f"snellen reform ENTRY.toml --refresh {as_word(earlier[-1].name)}"
    if source.reader == "built":
        sampling = msgspec.to_builtins(source.sample)
        words = ["snellen sample", as_word(source.params["of"])]
        words += [f"--{name} {sampling[name]}" for name in ("rule", "ratio", "count", "each", "step") if sampling[name]]
        words += [f"--seed {recipe['seed']}"] if "seed" in recipe else []
        return " ".join([*words, f"--name {as_word(spec.name)}"])
    if spec.name in entries():
        words = ["snellen build", as_word(spec.name)]
        words += [] if source.embedded or entry_folder(spec) else ["--source OFFICIAL_FILES"]
    elif "file" in source.params or "files" in source.params:
        file = source.params.get("file") or source.params["files"][0]
        words = ["snellen build", as_word(file), f"--name {as_word(spec.name)}"]
        words += [f"--images {as_word(source.params['images'])}"] if source.params.get("images") else []
    else:
        words = ["snellen build", "ENTRY.toml"]
    ratio = (recipe.pop("sample", None) or {}).get("ratio")
    words += [f"--ratio {ratio}"] if ratio else []
    return " ".join([*words, *(f"--{name} {as_word(str(value))}" for name, value in recipe.items())])
