"""The models that ship with Snellen: `snellen:tiny`, `snellen:tiny-xs` and the instruments."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import cast

from msgspec.structs import replace

from snellen import registry
from snellen.models import instruments
from snellen.models.base import AsyncModel, Model, ModelSpec

TRAINED = ("tiny", "tiny-xs")
TOGETHER = "64"
"""Batch size of the trained models, which are only a few megabytes."""
INSTRUMENTS = {
    "uniform": instruments.uniform,
    "always-a": instruments.always_first,
    "biased": instruments.biased,
    "scripted": instruments.scripted,
}
NAMES = (*TRAINED, "oracle", *INSTRUMENTS)


def check_name(spec: ModelSpec) -> None:
    """Raise UnknownNameError for a name that no embedded model has."""
    if spec.target not in NAMES:
        raise registry.unknown("embedded model", spec.target, NAMES)


def open_embedded(spec: ModelSpec) -> Model | AsyncModel:
    """The embedded model a spec names. Raises UnknownNameError."""
    model: Model | AsyncModel
    if spec.target in TRAINED:
        options = {"batch_size": TOGETHER, **spec.options}
        # The package is installed as plain files, so the folder outlives the block.
        with as_file(files("snellen.models") / "weights" / spec.target) as folder:
            model = registry.find("models", "hf")(replace(spec, target=str(folder), options=options))
    elif spec.target == "oracle":
        model = registry.find("instruments", "oracle")(spec)
    else:
        check_name(spec)
        model = cast(Model, INSTRUMENTS[spec.target](spec))
    return model
