"""What a shell gets when it completes a word: verbs, flags, names, runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    split_arg_string,
)

from snellen import registry

GROUPS: Mapping[str, registry.Group] = {
    "protocol": "protocols", "protocols": "protocols", "metric": "metrics", "metrics": "metrics",
    "extractor": "extractors", "import what": "importers", "init form": "scaffolds", "export form": "exporters",
}  # fmt: skip
"""Groups of the registry by the parameter whose values they name, with its verb where its own name does not say it."""
MODELS = ("model", "models", "judge_models", "writer")
BENCHMARKS = (
    "benchmark",
    "benchmarks",
    "build what",
    "verify what",
    "fetch names",
    "sample what",
    "report runs",
)
DECLARED = {
    "suite": "snellen.catalogue:suite_members",
    "held_out_for": "snellen.catalogue.cards:model_cards",
    "study name": "snellen.experiments.studies.declaration:studies",
    "analyse name": "snellen.experiments.model_groups.declaration:analyses",
}
"""The same for what TOML files declare: where they are listed."""
RUNS = ("run", "runs")
MANIFEST = "manifest.json"
BREAK = re.compile(r"[:=]")
"""Where bash divides words, so that it replaces only what follows."""


class BashWords(BashComplete):
    """Bash takes `snellen:tiny` for three words: they are put together here, and what it has already is left out."""

    def get_completion_args(self) -> tuple[list[str], str]:
        words = ["".join(split_arg_string(word)) for word in os.environ["COMP_WORDS"].split("\n")]
        cursor = int(os.environ["COMP_CWORD"])
        joined: list[str] = []
        for before, word in pairwise(["", *words[: cursor + 1]]):
            if joined and (BREAK.fullmatch(word) or (word and BREAK.fullmatch(before))):
                joined[-1] += word
            else:
                joined.append(word)
        self._begun = joined[-1] if cursor < len(words) else ""
        return joined[1 : None if cursor >= len(words) else -1], self._begun

    def format_completion(self, item: CompletionItem) -> str:
        start = max((match.end() for match in BREAK.finditer(self._begun)), default=0)
        return f"{item.type},{item.value[start:]}"


def prepare() -> None:
    """Have bash's words put together as it divided them."""
    add_completion_class(BashWords)


def completing(verb: str, command: click.Command) -> click.Command:
    """The command of a verb, or of a group of them, whose parameters are completed by what they name."""
    for parameter in command.params:
        if not isinstance(parameter.type, click.Choice):
            parameter.shell_complete = partial(_completed, verb, parameter)  # pyrefly: ignore[method-assign]  # of this one alone
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            completing(f"{verb} {name}", inner)
    return command


def _completed(
    verb: str, parameter: click.Parameter, ctx: click.Context, incomplete: str
) -> list[CompletionItem]:
    is_path = isinstance(parameter.type, click.Path)
    names = [
        CompletionItem(name)
        for name in _values(verb, parameter, is_path, incomplete)
        if name.startswith(incomplete)
    ]
    return names or ([CompletionItem(incomplete, type="file")] if is_path else [])


def _values(verb: str, parameter: click.Parameter, is_path: bool, incomplete: str) -> list[str]:
    name = parameter.name or ""
    places = {name, f"{verb} {name}"}
    values: list[str] = []
    if (name in RUNS and is_path) or "lint benchmarks" in places:
        values += _runs(incomplete)
    if places.intersection(MODELS):
        values += [*_models(), *(f"replay:{run}" for run in _runs("")), *_cached_models()]
    if places.intersection(BENCHMARKS):
        values += _benchmarks()
    for place in places.intersection(GROUPS):
        values += registry.names(GROUPS[place])
    for place in places.intersection(DECLARED):
        values += registry.load_target(DECLARED[place])()
    return values


def _models() -> list[str]:
    from snellen.models.embedded import NAMES as EMBEDDED

    schemes = (f"{name}:" for name in registry.names("models") if name != "snellen")
    return [*(f"snellen:{name}" for name in EMBEDDED), *schemes]


def _benchmarks() -> list[str]:
    from snellen.building.benchmark import own_benchmarks
    from snellen.catalogue import entries, suite_members

    return [*suite_members(), *entries(), *own_benchmarks()]


def _runs(incomplete: str) -> list[str]:
    """Folders of runs: those below the folder that is being typed, below ./runs when none is."""
    below = Path(f"{incomplete}_").parent if "/" in incomplete else Path("runs")
    return (
        sorted(str(file.parent) for file in below.glob(f"*/{MANIFEST}")) if below.is_dir() else []
    )


def hub_cache() -> Path:
    """Where the Hugging Face hub keeps what it fetched, by the environment variables that it documents."""
    if chosen := os.environ.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    default = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface")
    return Path(os.environ.get("HF_HOME", default), "hub").expanduser()


def _cached_models() -> list[str]:
    """Models in the hub's cache on this machine."""
    return sorted(
        f"hf:{folder.name[8:].replace('--', '/')}" for folder in hub_cache().glob("models--*")
    )
