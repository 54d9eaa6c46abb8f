"""Run models with the recipes of their vendors, and compare the results with the numbers of their model cards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from snellen.callers import setting
from snellen.catalogue.recipes import (
    VENDOR,
    PrintedNumber,
    RecipeSettings,
    VendorRecipe,
    find_recipe,
)
from snellen.errors import AbsentBenchmarkError, DataError, MissingExtraError, NoSourceError
from snellen.experiments.evaluation import FinishedRun
from snellen.experiments.results import Results
from snellen.models.model_strings import ModelSpec, model_string, parse_spec
from snellen.records import Estimate, Result
from snellen.runs.finding import Announce, announce_nothing, matching_specs, prompts_of
from snellen.runs.spec import RunSpec

SCHEMES_PROCESSED_HERE = frozenset({"hf", "vllm"})
"""Schemes of models whose processor runs in this process, so that recipes can set the size of images."""
SCHEMES_WITHOUT_OPTIONS = frozenset({"snellen"})
"""Schemes of models without request settings."""
SCHEMES_WITH_CHAT_TEMPLATES = frozenset({"hf", "vllm", "openai"})
"""Schemes of models whose chat template takes settings."""
EvaluateRuns = Callable[[RunSpec], list[FinishedRun]]
"""Function that runs and scores a spec, such as `snellen.experiments.evaluation.evaluate_spec`."""


class AppliedRecipe(Struct, frozen=True):
    """The settings of a run after a recipe was applied, and what could not be applied."""

    spec: RunSpec
    recipe: VendorRecipe
    size: str
    not_applied: tuple[str, ...] = ()
    """Settings of the recipe that could not be applied, each in a few words."""


class Reproduced(Struct, frozen=True):
    """A number that a vendor has published and the one that was measured, both in the unit of the model card."""

    benchmark: str
    printed_as: str
    printed: float
    measured: float | None
    low: float | None
    high: float | None
    """The 95% interval of the measured number."""
    differs: tuple[str, ...]
    """Known differences between the two evaluations."""
    questions: int = 0
    """Number of questions behind the measured number."""
    fault: str = ""
    """Why the benchmark could not be fetched, so that there is no measured number."""

    @property
    def agrees(self) -> bool | None:
        """Whether the card's number is in the interval of the measured number; None without a measured number."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.printed <= self.high


def apply_recipe(
    spec: RunSpec, name: str = VENDOR, announce: Announce = announce_nothing
) -> AppliedRecipe:
    """Give a run the settings of a recipe, except those that the run or its model string already sets.

    Args:
        spec: The run of one model, by its model string.
        name: `vendor`, the name of a recipe or the path of one.
        announce: Receives a line for the settings, and one for those that could not be applied.

    Raises:
        DataError: There are several models, or no recipe is for the model.
        UnknownNameError: No recipe has the name.
    """
    models = spec.question.models
    if len(models) != 1:
        raise DataError(f"a recipe is of one model; the run has {len(models)}; run them one by one")
    model = parse_spec(models[0])
    target = model.target.partition("@")[0]
    recipe = find_recipe(name, target)
    size = recipe.size_of(target)
    if size is None:
        raise DataError(
            f"the recipe {recipe.name} has no size for the model {target}; it has {', '.join(recipe.sizes)}"
        )

    settings = recipe.settings_of(size)
    options, not_applied = _model_options(settings, model)
    fields, left_out = _question_fields(settings, spec)
    not_applied += left_out
    if options:
        fields["models"] = (model_string(models[0], **options),)
    setting_texts: list[str] = []
    for setting_name, value in {**options, **fields}.items():
        if setting_name == "models":
            continue
        setting_texts.append(
            _setting_text(value) if isinstance(value, dict) else f"{setting_name}={value}"
        )
    applied = ", ".join(setting_texts)
    if not applied:
        applied = "none of its settings is applied" if not_applied else "no setting is stated"
    announce(f"recipe {recipe.name}, {size}: {applied}")
    for sentence in not_applied:
        announce(f"recipe {recipe.name}: {sentence}")
    return AppliedRecipe(spec.with_question(**fields), recipe, size, tuple(not_applied))


def _model_options(settings: RecipeSettings, model: ModelSpec) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a recipe that belong into the model string.

    Args:
        settings: The settings of the recipe.
        model: The model string of the run. Options that it already has are not changed.

    Returns:
        The options by name; and a sentence for each setting that this kind of model does not have.
    """
    is_own_server = model.scheme == "openai" and "@" in model.target
    thinking: dict[str, bool] = {}
    if settings.thinking is not None:
        thinking["enable_thinking"] = settings.thinking
    wanted: dict[str, Any] = {
        "min_pixels": settings.min_pixels,
        "max_pixels": settings.max_pixels,
        "system": settings.system or None,
        "reasoning_tokens": settings.reasoning_tokens,
        "chat_template_kwargs": thinking or None,
        "extra_body": settings.sampling or None,
    }
    applicable = {
        "min_pixels": model.scheme in SCHEMES_PROCESSED_HERE,
        "max_pixels": model.scheme in SCHEMES_PROCESSED_HERE,
        "chat_template_kwargs": model.scheme in SCHEMES_WITH_CHAT_TEMPLATES,
        "extra_body": is_own_server,
    }
    options: dict[str, Any] = {}
    not_applied: list[str] = []
    for name, value in wanted.items():
        if value is None or name in model.options:
            continue
        if model.scheme in SCHEMES_WITHOUT_OPTIONS or not applicable.get(name, True):
            shown = _setting_text(value)
            text = shown if isinstance(value, dict) else f"{name}={shown}"
            not_applied.append(f"{text} is not applied: a model {model.scheme}: cannot be told")
        else:
            options[name] = value
    for text in settings.other.values():
        not_applied.append(f"{text}: stated by the vendor, not applied")
    return options, not_applied


def _setting_text(value: Any) -> str:
    """Return a setting as text: `name=value` for each entry of a table."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return str(value)


def _question_fields(settings: RecipeSettings, spec: RunSpec) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a model vendor's recipe that can be applied to a run.

    A setting that the user gave takes precedence.

    Args:
        settings: The settings of the recipe.
        spec: The settings of the run.

    Returns:
        The settings by name, and sentences about those that cannot be applied to all benchmarks of the run.
    """
    question = spec.question
    fields: dict[str, Any] = {}
    for name in ("temperature", "top_p", "max_new_tokens"):
        value = getattr(settings, name)
        if value is not None and getattr(question, name) is None:
            fields[name] = value
    not_applied: list[str] = []
    if settings.templates and not question.templates and not question.prompt:
        without_prompts = _without_prompts(question.benchmarks, settings.templates)
        if without_prompts:
            not_applied.append(
                f"the prompts {settings.templates} are not applied: {', '.join(without_prompts)} declare none of that name"
            )
        else:
            fields["templates"] = settings.templates
    if settings.coordinates:
        other_benchmarks = _with_other_coordinates(question.benchmarks, settings.coordinates)
        if other_benchmarks:
            not_applied.append(
                f"the model names places in coordinates {settings.coordinates}; {', '.join(other_benchmarks)} ask for others: "
                f"build them with {setting('params', {'coordinates': settings.coordinates})}"
            )
    return fields, not_applied


def _without_prompts(patterns: Sequence[str], templates: str) -> list[str]:
    """Return the names of the benchmarks that do not declare the set of prompts `templates`; [] if all do."""
    names: list[str] = []
    for pattern in patterns:
        for spec in matching_specs(pattern):
            if templates not in prompts_of(spec):
                names.append(spec.name)
    return names


def _with_other_coordinates(patterns: Sequence[str], coordinates: str) -> list[str]:
    """Return the benchmarks that could state positions in other coordinates, but were built without them.

    Args:
        patterns: Names of benchmarks.
        coordinates: The coordinates that the model expects.
    """
    others: list[str] = []
    for pattern in patterns:
        for spec in matching_specs(pattern):
            choices = spec.source.choices.get("coordinates", {})
            needed_settings = choices.get(coordinates)
            if needed_settings is None:
                continue
            for table, needed in needed_settings.items():
                present = spec.source.params.get(table, {})
                if not needed.items() <= present.items():
                    others.append(spec.name)
                    break
    return others


def compare_with_card(
    spec: RunSpec,
    evaluate_runs: EvaluateRuns,
    name: str = VENDOR,
    announce: Announce = announce_nothing,
) -> list[Reproduced]:
    """Run the benchmarks whose numbers a model card gives, and compare the measured numbers with it.

    Args:
        spec: The run of one model. If it names benchmarks, only those of the card that are among
            them are run.
        evaluate_runs: Runs and scores some settings.
        name: `vendor`, the name of a recipe, or the path of one.
        announce: Receives lines for the user.

    Returns:
        The numbers of the card with the measured ones. Those that disagree come first; otherwise
        they are in the order of the card. A benchmark that could not be fetched has no measured
        number, and `differs` says why.

    Raises:
        DataError: There is no recipe for the model, or the card has no number for these benchmarks,
            or none of them can be fetched.
    """
    first = apply_recipe(spec.with_question(benchmarks=()), name)
    chosen: set[str] = set()
    for pattern in spec.question.benchmarks:
        chosen.update(benchmark.name for benchmark in matching_specs(pattern))
    printed = []
    for number, value in first.recipe.printed_for(first.size):
        if not chosen or number.benchmark in chosen:
            printed.append((number, value))
    if not printed:
        raise DataError(
            f"the recipe {first.recipe.name} has no printed number of {first.size} on these benchmarks; it has "
            f"{', '.join(number.benchmark for number in first.recipe.numbers)}"
        )

    default_templates = first.recipe.settings_of(first.size).templates or ""
    printed_numbers = [number for number, _ in printed]
    benchmarks_by_templates = _benchmarks_by_templates(printed_numbers, default_templates)

    faults: dict[str, str] = {}
    missing_package: MissingExtraError | None = None
    measured: dict[str, tuple[list[Result], AppliedRecipe]] = {}
    for templates, benchmarks in benchmarks_by_templates.items():
        templates = spec.question.templates or templates
        recipe_spec = spec.with_question(benchmarks=tuple(benchmarks), templates=templates)
        applied = apply_recipe(recipe_spec, name, announce)
        try:
            finished = evaluate_runs(applied.spec)
        except (NoSourceError, MissingExtraError, AbsentBenchmarkError) as error:
            # None of these benchmarks can be fetched.
            reasons = error.reasons if isinstance(error, AbsentBenchmarkError) else {}
            for benchmark in benchmarks:
                faults[benchmark] = reasons.get(benchmark, str(error))
            if isinstance(error, MissingExtraError):
                missing_package = missing_package or error
            continue
        results = Results([run.scored for run in finished])
        for run in finished:
            faults.update({absent.name: absent.fault for absent in run.absent})
        for benchmark in benchmarks:
            rows = [row for row in results.rows if row.benchmark == benchmark and not row.slice]
            rows += [row for row in results.headlines if row.benchmark == benchmark]
            measured[benchmark] = (rows, applied)

    if missing_package and not measured:
        raise missing_package
    disagreeing: list[Reproduced] = []
    others: list[Reproduced] = []
    for number, value in printed:
        fault = faults.get(number.benchmark)
        if fault is not None:
            note = f"not run: {fault}"
            not_run = Reproduced(
                benchmark=number.benchmark,
                printed_as=number.printed,
                printed=value,
                measured=None,
                low=None,
                high=None,
                differs=(note,),
                fault=fault,
            )
            others.append(not_run)
            continue
        comparison = _compare_number(number, value, *measured[number.benchmark])
        if comparison.agrees is False:
            disagreeing.append(comparison)
        else:
            others.append(comparison)
    return [*disagreeing, *others]


def _benchmarks_by_templates(
    numbers: Sequence[PrintedNumber], default_templates: str
) -> dict[str, list[str]]:
    """Group the benchmarks of a model card by the set of prompts with which they are to be run.

    A run has one set of prompts, so the benchmarks of each group have a run of their own.

    Args:
        numbers: The numbers of the card.
        default_templates: The set of prompts of numbers that name none.

    Returns:
        The benchmarks by the name of the set of prompts. It is empty for benchmarks that do not declare the set.
    """
    benchmarks: dict[str, list[str]] = defaultdict(list)
    for number in numbers:
        templates = number.templates or default_templates
        for spec in matching_specs(number.benchmark):
            if templates not in prompts_of(spec):
                templates = ""
        benchmarks[templates].append(number.benchmark)
    return benchmarks


def _compare_number(
    number: PrintedNumber, printed: float, rows: Sequence[Result], applied: AppliedRecipe
) -> Reproduced:
    """Return a published number beside the measured one, with everything that may explain a difference.

    Args:
        number: The published number, with its metric and how it was measured.
        printed: Its value for this size of the model.
        rows: The measured results of the benchmark. The last one that fits is taken.
        applied: The settings of the run.
    """
    matching_rows = [row for row in rows if not number.metric or row.metric == number.metric]
    # The headline stands last.
    estimate = (
        matching_rows[-1].estimate
        if matching_rows
        else Estimate(value=None, stderr=None, low=None, high=None, n=0)
    )
    scaled = estimate.scaled(number.scale)
    differs = [text for text in (number.differs,) if text]
    if not matching_rows:
        differs.append(f"the run has no row {number.metric or 'with a headline'}")
    differs += applied.not_applied
    limit = applied.spec.question.limit
    if limit is not None:
        differs.append(f"{limit} questions at most")
    if applied.recipe.unstated:
        differs.append(f"not stated by the vendor: {', '.join(applied.recipe.unstated)}")
    return Reproduced(
        benchmark=number.benchmark,
        printed_as=number.printed,
        printed=printed,
        measured=scaled.value,
        low=scaled.low,
        high=scaled.high,
        differs=tuple(differs),
        questions=estimate.n,
    )
