"""`snellen run`"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import (
    GroupedCommand,
    details_flag,
    field_flags,
    flags_given,
    json_flag,
    offline_flag,
    scoring_flags,
    yes_flag,
)
from snellen.cli.show import (
    announce,
    announce_next_of_runs,
    console,
    run_progress,
    show_results,
)
from snellen.errors import DataError, SnellenError
from snellen.models.loading import names_model
from snellen.models.model_strings import parse_spec
from snellen.registry import register_scoring_code
from snellen.runs.spec import (
    ExecutionSpec,
    QuestionSpec,
    RunSpec,
    overlaid,
    read_run_spec,
    run_spec,
)


class _Run(GroupedCommand):
    usual = (
        "--protocol", "--limit", "--where", "--method", "--templates", "--max-new-tokens", "--name", "--runs",
        "--workers", "--judge", "--dry-run", "--offline", "--help",
    )  # fmt: skip


@click.command(cls=_Run)
@click.argument("model")
@click.argument("benchmarks", nargs=-1)
@field_flags(QuestionSpec, but=("models", "benchmarks"))
@field_flags(ExecutionSpec)
@click.option(
    "--share",
    metavar="K/N",
    help="Run share K of N without scoring, as one of N processes on any machines.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Estimate requests, tokens and images without calling the model.",
)
@click.option(
    "--recipe",
    metavar="vendor|NAME|FILE",
    help="Settings of a recipe: that of the model's vendor, one by its name, or a TOML file.",
)
@yes_flag
@offline_flag
@scoring_flags
@details_flag
@json_flag
def run_command(
    model: str,
    benchmarks: tuple[str, ...],
    as_json: bool,
    with_details: bool,
    dry_run: bool,
    share: str | None,
    recipe: str | None,
    **flags: Any,
) -> None:
    """Evaluate MODEL on BENCHMARKS and score it. Several models make a run each.

    \b
      snellen run hf:llava-hf/llava-1.5-7b-hf eyechart -p circular
      snellen run snellen:tiny snellen:tiny-xs eyechart --limit 50
      snellen run openai:qwen2-vl@http://localhost:8000/v1 ./mine --limit 200
      snellen run exam.toml

    Every reply is stored as soon as it arrives. If you repeat the command, it sends only the requests that have no
    reply. A TOML file in place of MODEL can have all settings that flags set, under the same names; flags take
    precedence (docs/runs.md).
    """
    from snellen.experiments.evaluation import check_finished, estimate_requests, evaluate_spec
    from snellen.experiments.results import Results

    spec = _spec(model, benchmarks, flags)
    if recipe is not None:
        from snellen.experiments.vendor_recipes import apply_recipe

        spec = apply_recipe(spec, recipe, announce).spec
    if dry_run:
        for forecast in estimate_requests(spec, announce):
            console.print(forecast, soft_wrap=True)
        return
    if share is not None:
        _run_share(spec, share)
        return
    with run_progress() as progress:
        finished = evaluate_spec(spec, progress=progress, announce=announce)
    show_results(Results([run.scored for run in finished]), as_json, with_details=with_details)
    check_finished(finished, spec.execution.error_budget)
    if as_json:
        return
    announce_next_of_runs([run.scored.folder for run in finished])


def _run_share(spec: RunSpec, share: str) -> None:
    """Send one share of a run's requests without scoring, so that several machines can divide a run.

    Then print which command scores the run when all shares are complete.

    Args:
        spec: The settings of the run.
        share: Which share, such as `3/8`.
    """
    from snellen.experiments.outcome_checks import check_budget
    from snellen.experiments.shares import run_share

    with run_progress() as progress:
        outcomes = run_share(spec, share, progress=progress, announce=announce)
    for outcome in outcomes:
        announce(
            f"share {share} of {outcome.folder} is complete; when all shares are, run the command without --share to score"
        )
    for outcome in outcomes:
        check_budget(outcome, spec.execution.error_budget)


def _spec(first: str, others: tuple[str, ...], flags: dict[str, Any]) -> RunSpec:
    """Return the settings of a run: from a TOML file if there is one, from the arguments, and from the flags.

    Arguments and flags take precedence over the file.

    Args:
        first: The first argument: a model, or a TOML file with settings.
        others: The other arguments: further models, and benchmarks.
        flags: Values of the flags by name.

    Raises:
        DataError: The arguments are in the wrong order, or a setting is not valid.
    """
    fields = flags_given(flags)
    if any("," in word for word in (first, *others, *fields.get("protocols", ()))):
        first, others = _separated(first, others, fields)
    models = tuple(word for word in others if names_model(word))
    benchmarks = tuple(word for word in others if not names_model(word))
    if Path(first).suffix in (".yaml", ".yml", ".json") and not others:
        raise DataError(
            f"{first}: the settings of a run are a TOML file, such as exam.toml (docs/runs.md)"
        )
    _check_code(first, others)
    is_file = first.endswith(".toml")
    if not is_file and not names_model(first) and (models or _is_benchmark(first)):
        words = ["snellen", "run", *models, first, *benchmarks]
        if not models:
            words = ["snellen", "run", "MODEL", first]
        raise DataError(f"give the model first, then the benchmarks: `{shlex.join(words)}`")
    if benchmarks:
        fields["benchmarks"] = tuple(_built_if_file(word) for word in benchmarks)
    if not is_file:
        return run_spec({**fields, "models": (first, *models)})

    if models:
        fields["models"] = models
    spec = run_spec(overlaid(read_run_spec(Path(first)), fields))
    if not spec.question.models:
        raise DataError(f"{first}: models = [...] is missing")
    register_scoring_code(spec.scoring.metrics, spec.scoring.extractor)
    return spec


def _check_code(first: str, others: tuple[str, ...]) -> None:
    """Raise ModelError for a Python file whose function or class is not named. The file is not imported."""
    for word in (first, *others):
        if word.endswith(".py") and ":" not in word and (word == first or Path(word).is_file()):
            parse_spec(word)


def _separated(
    first: str, others: tuple[str, ...], fields: dict[str, Any]
) -> tuple[str, tuple[str, ...]]:
    """Split models, benchmarks and protocols that the user separated by commas instead of spaces: `pope,mme`.

    Args:
        first: The first argument of the command, a model.
        others: The other arguments: models and benchmarks.
        fields: Settings by name. Its protocols are split in place.

    Returns:
        The first model, and all other models and benchmarks.
    """
    from snellen.runs.separated_names import (
        separated_benchmarks,
        separated_models,
        separated_protocols,
    )

    first_model, *further = separated_models([first])
    for word in separated_models(others):
        if names_model(word):
            further.append(word)
        else:
            further += separated_benchmarks([word])
    if "protocols" in fields:
        fields["protocols"] = tuple(separated_protocols(fields["protocols"]))
    return first_model, tuple(further)


def _built_if_file(word: str) -> str:
    """Return the folder of the benchmark that is built from a file of questions. Any other text is returned unchanged."""
    if not Path(word).suffix or not Path(word).is_file():
        return word
    from snellen.benchmark_building import benchmark_pattern

    return benchmark_pattern(word, announce)


def _is_benchmark(word: str) -> bool:
    """Return whether a word names a file of questions or benchmarks of the catalogue."""
    if Path(word).suffix and Path(word).is_file():
        return True
    from snellen.runs.finding import matching_specs

    with suppress(SnellenError):
        return bool(matching_specs(word))
    return False
