"""Model cards: what models were trained on, and which benchmarks are held out for all of them (ReForm-Eval D.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.callers import setting
from snellen.catalogue.entries import BenchmarkSpec
from snellen.common.foreign import read_text
from snellen.errors import DataError
from snellen.formats.json_files import packaged_toml, parse_toml

CARDS = "cards.toml"


class ModelCard(Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a model.

    Examples:
        >>> ModelCard("My model", trained_on=("coco",), hub=("me/my-model",)).trained_on
        ('coco',)
    """

    title: str
    trained_on: tuple[str, ...] | None = None
    """Datasets, by the names used in the `origins` of entries: annotations, not the underlying images. None where no
    paper says."""
    hub: tuple[str, ...] = ()
    vision: str = ""
    """The vision encoder."""
    backbone: str = ""
    """The language model."""
    connection: str = ""
    parameters: int | None = None
    trainable_parameters: int | None = None
    visual_tokens: int | None = None
    backbone_training: Literal["", "frozen", "adapted", "full"] = ""
    """What became of the language model: nothing, small parts were trained (LoRA, adapters, biases), or all of it."""
    pretraining_samples: int | None = None
    pretraining_quality: Literal["", "filtered", "high"] = ""
    """Pairs from the web, filtered by rules or CLIP; or annotated, or captioned anew (ReForm-Eval C.4)."""
    instruction_samples: int | None = None
    printed: dict[str, str] = {}
    """By suite: its name in the tables of the suite's paper."""


class SeenBenchmark(Struct, frozen=True):
    """A benchmark whose data a model was trained on."""

    benchmark: str
    seen: dict[str, tuple[str, ...]]
    """For each model the benchmark's datasets that it was trained on."""

    def __str__(self) -> str:
        """Return a line such as `VSR: instructblip was trained on VSR`."""
        reasons: list[str] = []
        for model, datasets in self.seen.items():
            reasons.append(f"{model} was trained on {', '.join(datasets)}")
        return f"{self.benchmark}: {'; '.join(reasons)}"


def model_cards(file: Path | None = None) -> dict[str, ModelCard]:
    """Return the cards that ship with Snellen, by name, and those in a user's file, which take precedence.

    Raises:
        DataError: The file cannot be read as cards.

    Examples:
        >>> model_cards()["llava-7b-v0"].backbone
        'Vicuna-7B'
    """
    if file is None:
        return _packaged_cards()
    try:
        text = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot read the model cards ({error})") from None
    return {**_packaged_cards(), **parse_cards(text, str(file))}


@cache
def _packaged_cards() -> dict[str, ModelCard]:
    return packaged_toml("snellen.catalogue", CARDS, dict[str, ModelCard])


def parse_cards(text: str, where: str) -> dict[str, ModelCard]:
    """Return the model cards of a TOML file by model; raises DataError if it is not a file of cards."""
    try:
        return msgspec.convert(parse_toml(text, where), dict[str, ModelCard])
    except msgspec.ValidationError as error:
        raise DataError(
            f"{where}: not a file of model cards ({error}); write [MODEL] with trained_on = [...]"
        ) from None


def find_card(name: str, cards: dict[str, ModelCard]) -> ModelCard:
    """Return the card of a model (what is known about it) by the model's name, or by its name on the hub.

    Raises UnknownNameError with similar names.
    """
    if name in cards:
        return cards[name]
    matches = [card for card in cards.values() if name in card.hub]
    if not matches:
        raise registry.unknown_name("model card", name, cards)
    return matches[0]


def _training_data(model: str, cards: dict[str, ModelCard]) -> tuple[str, ...]:
    """Return the datasets a model was trained on; raises DataError if its card does not say."""
    datasets = find_card(model, cards).trained_on
    if datasets is None:
        raise DataError(
            f"the card of {model} does not list its training data, so no benchmark can be left out for it; write "
            f"a card that does ({setting('cards', 'FILE')})"
        )
    return datasets


def benchmarks_seen(
    specs: Iterable[BenchmarkSpec], models: Sequence[str], cards: dict[str, ModelCard] | None = None
) -> list[SeenBenchmark]:
    """Return the benchmarks with annotations that one of the models was trained on.

    Args:
        specs: The benchmarks.
        models: Names of models, as their cards have them.
        cards: The model cards by name; by default those that are part of Snellen.

    Raises:
        UnknownNameError: A model has no card.
        DataError: A card does not say what its model was trained on.

    Examples:
        >>> from snellen.plugin_api import matching_specs
        >>> [seen] = benchmarks_seen(matching_specs("reform-eval/vqav2"), ["llava-1.5-7b"])
        >>> seen.benchmark
        'reform-eval/vqav2'
    """
    if cards is None:
        cards = model_cards()
    trained_on = {model: _training_data(model, cards) for model in models}
    benchmarks = []
    for spec in specs:
        seen_by_model: dict[str, tuple[str, ...]] = {}
        for model, datasets in trained_on.items():
            seen_datasets = tuple(name for name in spec.origins if name in datasets)
            if seen_datasets:
                seen_by_model[model] = seen_datasets
        if seen_by_model:
            benchmarks.append(SeenBenchmark(spec.name, seen_by_model))
    return benchmarks
