"""What a shell gets when it completes a word: verbs, flags, names, runs. Loads no verb (`outline`)."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from snellen.cli.outline import CompletionOutline, ParameterOutline, VerbOutline
from snellen.cli.surroundings import hub_cache

NAMES_BY_PARAMETER = {
    "model": "models", "models": "models", "judge_models": "models", "writer": "models", "benchmark": "benchmarks",
    "benchmarks": "benchmarks", "protocol": "protocols", "protocols": "protocols", "metric": "metrics",
    "metrics": "metrics", "extractor": "extractors", "suite": "suites", "held_out_for": "cards",
}  # fmt: skip
"""What a flag or an argument of this name takes, whatever the verb."""
NAMES_BY_PLACE = {
    ("build", "what"): "benchmarks", ("verify", "what"): "benchmarks", ("fetch", "names"): "benchmarks",
    ("sample", "what"): "benchmarks", ("study", "name"): "studies", ("analyse", "name"): "analyses",
    ("import", "what"): "importers", ("init", "form"): "scaffolds", ("export", "form"): "exporters",
    ("report", "runs"): "benchmarks",
}  # fmt: skip
"""The same where the name of the parameter does not say it."""
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


def stand_in(verb: str, outline: CompletionOutline) -> click.Command:
    """A command with the flags and arguments of a verb, which completes words and does nothing."""
    return _command(verb, outline.verbs[verb], outline)


def _command(verb: str, form: VerbOutline, outline: CompletionOutline) -> click.Command:
    parameters = [_parameter(verb, parameter, outline) for parameter in form.parameters]
    if form.verbs:
        inner = {name: _command(f"{verb} {name}", part, outline) for name, part in form.verbs.items()}
        return click.Group(verb, commands=inner, params=parameters)
    return click.Command(verb, params=parameters)


def _parameter(verb: str, form: ParameterOutline, outline: CompletionOutline) -> click.Parameter:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(name) for name in _values(verb, form, outline, incomplete) if name.startswith(incomplete)
        ] or ([CompletionItem(incomplete, type="file")] if form.is_path else [])

    if form.flags and form.is_switch:
        return click.Option([*form.flags, form.name], is_flag=True, help=form.help)
    if form.flags:
        return click.Option([*form.flags, form.name], multiple=True, help=form.help, shell_complete=complete)
    return click.Argument([form.name], nargs=form.count, required=False, shell_complete=complete)


def _values(verb: str, form: ParameterOutline, outline: CompletionOutline, incomplete: str) -> list[str]:
    if form.choices:
        return form.choices
    kind = NAMES_BY_PLACE.get((verb, form.name)) or NAMES_BY_PARAMETER.get(form.name, "")
    if kind == "models":
        return [*outline.names[kind], *(f"replay:{run}" for run in _runs("")), *_cached_models()]
    takes_runs = (form.name in RUNS and form.is_path) or (verb, form.name) == ("lint", "benchmarks")
    return [*(_runs(incomplete) if takes_runs else []), *outline.names.get(kind, [])]


def _runs(incomplete: str) -> list[str]:
    """Folders of runs: those below the folder that is being typed, below ./runs when none is."""
    below = Path(f"{incomplete}_").parent if "/" in incomplete else Path("runs")
    return sorted(str(file.parent) for file in below.glob(f"*/{MANIFEST}")) if below.is_dir() else []


def _cached_models() -> list[str]:
    """Models in the hub's cache on this machine."""
    return sorted(f"hf:{folder.name[8:].replace('--', '/')}" for folder in hub_cache().glob("models--*"))
