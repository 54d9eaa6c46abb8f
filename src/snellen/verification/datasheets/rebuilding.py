"""The command that builds a benchmark again."""

from __future__ import annotations

import msgspec

from snellen.building.benchmark import Benchmark
from snellen.catalogue import entries, entry_folder
from snellen.common.paths import as_word


def rebuild_command(benchmark: Benchmark) -> str:
    """The command that builds it again, as far as one can."""
    spec, recipe = benchmark.spec, dict(benchmark.manifest.made.recipe)
    source, words = spec.source, []
    if earlier := benchmark.manifest.made.earlier:
        return f"snellen reform --refresh {as_word(earlier[-1].name)}"
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
