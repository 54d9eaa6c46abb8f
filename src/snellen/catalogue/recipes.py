"""Recipes of models: the settings by which a vendor evaluates a family of models, and the numbers that it prints.

A recipe is a TOML file (docs/recipes.md). Each setting and each number names its source. A setting that no source states
is listed as unstated and never invented.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec
import msgspec.structs
from msgspec import Struct

from snellen import registry
from snellen.common.foreign import read_text
from snellen.errors import DataError
from snellen.formats.json_files import parse_toml, read_packaged_text

FOLDER = "recipe_files"
VENDOR = "vendor"
"""Stands for the recipe of the model's family."""
PERCENT = 100.0


class RecipeSettings(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The settings that a vendor states for its model. What is left out is set by the model or the run.

    Examples:
        >>> RecipeSettings(max_pixels=1003520).max_pixels
        1003520
    """

    min_pixels: int | None = None
    max_pixels: int | None = None
    """Bounds of the area, in pixels, to which an image is resized."""
    system: str | None = None
    """The system prompt; an empty text for none."""
    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    """The longest reply, in tokens."""
    reasoning_tokens: int | None = None
    """Tokens for reasoning besides those of the answer."""
    thinking: bool | None = None
    """Whether the model reasons before its answer, for chat templates with the switch `enable_thinking`."""
    sampling: dict[str, int | float] = {}
    """Further sampling settings, by the names of vLLM's server: `top_k`, `presence_penalty`, `repetition_penalty`."""
    other: dict[str, str] = {}
    """Stated settings that Snellen cannot apply, in words, such as the frames of a video."""
    templates: str | None = None
    """The set of prompts, where a benchmark declares it."""
    coordinates: str | None = None
    """In which coordinates the model names places: `1`, `1000` or `pixels`."""


class PrintedNumber(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that a model card prints for a benchmark, for each size of the model.

    Examples:
        >>> PrintedNumber(benchmark="modern/mmmu", printed="MMMU", values={"7B": 58.6}).values["7B"]
        58.6
    """

    benchmark: str
    """The benchmark of Snellen that asks the same."""
    printed: str
    """Its name on the card."""
    values: dict[str, float]
    """By the sizes of the recipe."""
    metric: str = ""
    """The row that is meant; the benchmark's headline where it is left out."""
    scale: float = PERCENT
    """What a value of Snellen is multiplied by to be in the unit of the card."""
    templates: str = ""
    """The set of prompts for this benchmark, instead of the recipe's."""
    differs: str = ""
    """What is known to differ from the number of the card, such as the split."""


class VendorRecipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings and printed numbers of a family of models."""

    name: str
    title: str
    sizes: dict[str, tuple[str, ...]]
    """By the name of a size on the card: patterns of model names."""
    settings: RecipeSettings = RecipeSettings()
    size_settings: dict[str, RecipeSettings] = {}
    """By size: settings in which it differs from `settings`."""
    setting_sources: dict[str, str] = {}
    """Where each setting is stated."""
    unstated: tuple[str, ...] = ()
    """Settings that the vendor does not state."""
    source: str = ""
    """Where the numbers are printed."""
    numbers: tuple[PrintedNumber, ...] = ()

    def size_of(self, model: str) -> str | None:
        """Return the size of a model by its name, such as `Qwen/Qwen2.5-VL-7B-Instruct`; None if the name has no known size."""
        folded = model.casefold()
        for size, patterns in self.sizes.items():
            if any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns):
                return size
        return None

    def settings_of(self, size: str) -> RecipeSettings:
        """Return the settings for a model of a size, such as `7B`: those of the recipe, replaced by those of the size."""
        size_settings = self.size_settings.get(size)
        if size_settings is None:
            return self.settings
        # A record is converted without the fields that have their defaults.
        stated_names = msgspec.to_builtins(size_settings)
        changes = {name: getattr(size_settings, name) for name in stated_names}
        return msgspec.structs.replace(self.settings, **changes)

    def printed_for(self, size: str) -> Iterator[tuple[PrintedNumber, float]]:
        """Yield the published numbers of a model size with their values."""
        for number in self.numbers:
            if size in number.values:
                yield number, number.values[size]


@cache
def packaged_recipes() -> dict[str, VendorRecipe]:
    """Return the recipes (a vendor's settings for its models) that are part of Snellen, by name."""
    folder = resources.files("snellen.catalogue").joinpath(FOLDER)
    recipes_by_name: dict[str, VendorRecipe] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            recipe = parse_recipe(read_packaged_text(file), file.name)
            recipes_by_name[recipe.name] = recipe
    return recipes_by_name


def parse_recipe(text: str, where: str) -> VendorRecipe:
    """Parse a recipe: a vendor's settings for its models, and the numbers that it published with them.

    Args:
        text: The recipe as TOML.
        where: Its file, for messages.

    Raises:
        DataError: A field is wrong.
    """
    try:
        recipe = msgspec.convert(parse_toml(text, where), VendorRecipe)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: not a recipe of models ({error}); see docs/recipes.md") from None
    stated = set(msgspec.to_builtins(recipe.settings))
    for settings in recipe.size_settings.values():
        stated |= msgspec.to_builtins(settings).keys()
    without_source = sorted(stated - recipe.setting_sources.keys())
    if without_source:
        raise DataError(f"{where}: setting_sources has no source of {', '.join(without_source)}")

    sizes = ", ".join(recipe.sizes)
    unknown_sizes = sorted(recipe.size_settings.keys() - recipe.sizes.keys())
    if unknown_sizes:
        raise DataError(
            f"{where}: size_settings has {', '.join(unknown_sizes)}, which is none of the sizes {sizes}"
        )
    if recipe.numbers and not recipe.source:
        raise DataError(f"{where}: source is missing; write where the numbers are printed")
    for number in recipe.numbers:
        if not all(math.isfinite(value) for value in number.values.values()):
            raise DataError(f"{where}: {number.printed} has a value that is no finite number")
        unknown_sizes = sorted(number.values.keys() - recipe.sizes.keys())
        if unknown_sizes:
            raise DataError(
                f"{where}: {number.printed} has a value of {', '.join(unknown_sizes)}, which is none of the sizes "
                f"{sizes}"
            )
    return recipe


def find_recipe(name: str, model: str) -> VendorRecipe:
    """Return the recipe that a name means for a model.

    Args:
        name: `vendor` for the recipe of the model's family, the name of a recipe, or the path of a TOML file.
        model: The model's name, such as `Qwen/Qwen2.5-VL-7B-Instruct`.

    Raises:
        DataError: The file is no recipe, or no recipe is of the model.
        UnknownNameError: No recipe has the name.
    """
    if name.endswith(".toml"):
        path = Path(name)
        try:
            text = read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot read the recipe ({error})") from None
        return parse_recipe(text, name)
    recipes = packaged_recipes()
    if name != VENDOR:
        if name not in recipes:
            raise registry.unknown_name("recipe", name, recipes)
        return recipes[name]
    for recipe in recipes.values():
        if recipe.size_of(model) is not None:
            return recipe
    raise DataError(
        f"no recipe is of the model {model}; there are recipes of {', '.join(recipes)}; write one "
        "(docs/recipes.md) and give its file"
    )
