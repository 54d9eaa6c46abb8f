"""Name the folder of a run after its settings and model, so that the same command resumes the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from snellen.callers import for_caller, setting
from snellen.common.paths import benchmark_folder, slug
from snellen.errors import DataError, StoreError
from snellen.models.identity import address_of, identifying_string
from snellen.records import EVALUATED
from snellen.runs.run_folder import RUN_MANIFEST, RunSession, read_manifest
from snellen.runs.spec import ExecutionSpec, QuestionSpec


def automatic_name(question: QuestionSpec, execution: ExecutionSpec) -> str:
    """Return the name of the folder of a run that its user has not named.

    This is the default name, unless an earlier run with the same settings has another: the name that earlier versions
    of Snellen gave it or, if the model has moved to another address, the name by its former address.

    Args:
        question: The settings that determine what is sent to the models.
        execution: The other settings, with the folder of runs, and whether the user says that the model has moved.

    Raises:
        DataError: Several runs may be the run of the model that has moved.
    """
    name = default_name(question)
    runs = Path(execution.runs)
    name_without_address = _name_from_settings(question, identifying_string)
    if _used_same_addresses(runs / name_without_address, question):
        return name_without_address
    if not execution.moved or (runs / name / RUN_MANIFEST).exists():
        return name

    same_runs = [folder for folder in _run_folders(runs) if _has_same_settings(folder, question)]
    if not same_runs:
        return name
    if len(same_runs) > 1:
        moved = for_caller("--moved", "moved=True")
        listed = " and ".join(str(folder) for folder in same_runs)
        raise DataError(
            f"{moved}: {listed} are the same run at other addresses; choose the one to resume with {setting('name')}"
        )
    return same_runs[0].name


def default_name(question: QuestionSpec) -> str:
    """Return the default name of a run's folder, which depends only on the settings that determine the replies."""
    return _name_from_settings(question, _identity_with_address)


def name_of_build(benchmark: str) -> str:
    """Return the name of a benchmark, if it is given by the folder of its build. Any other text is returned unchanged.

    `snellen run MODEL mine.tsv` builds the table and runs the benchmark in this folder. It has the same name as with
    `snellen run MODEL mine`.
    """
    builds = benchmark_folder("")
    path = Path(benchmark)
    is_build = path.is_absolute() and path != builds and path.is_relative_to(builds)
    if is_build:
        return path.relative_to(builds).as_posix()
    return benchmark


def announce_smaller_run(
    name: str, question: QuestionSpec, execution: ExecutionSpec, announce: Callable[[str], object]
) -> None:
    """Tell the user which run could be resumed instead of beginning a new one, because it differs only by a smaller limit.

    Samples are drawn so that a larger limit includes the samples of a smaller one.

    Args:
        name: The name of the folder of the new run. Nothing is announced if this run exists.
        question: The settings of the new run.
        execution: The other settings, with the folder of runs.
        announce: Receives the line for the user.
    """
    runs = Path(execution.runs)
    if (runs / name / RUN_MANIFEST).exists():
        return
    stem = name.rpartition("-")[0]
    smaller_runs: list[tuple[int, Path]] = []
    for folder in _run_folders(runs):
        if not folder.name.startswith(f"{stem}-"):
            continue
        for limit in _sample_limits(folder):
            is_larger = question.limit is None or question.limit > limit
            if is_larger and folder.name == default_name(replace(question, limit=limit)):
                smaller_runs.append((limit, folder))
    if not smaller_runs:
        return
    limit, folder = max(smaller_runs)
    announce(
        f"{folder} has replies to {limit:,} of these questions; add {setting('name', folder.name)} to resume that run "
        "instead of sending them again"
    )


def digest(*parts: str) -> str:
    """Return eight hexadecimal digits of a SHA-256 of strings."""
    content = "\0".join(parts)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _name_from_settings(question: QuestionSpec, identify: Callable[[str], str]) -> str:
    """Return the default name of a run's folder: the model, and a digest of all settings that are not defaults.

    Args:
        question: The settings that determine what is sent to the models.
        identify: Function that returns the part of a model string that identifies the model.
    """
    [model] = question.models
    model_identity = identify(model)
    roles = tuple((role, identify(name)) for role, name in question.roles)
    settings = replace(question, models=(model_identity,), roles=roles)
    defaults = asdict(QuestionSpec())
    changed_settings = {}
    for name, value in asdict(settings).items():
        if value != defaults[name]:
            changed_settings[name] = value
    settings_json = msgspec.json.encode(changed_settings).decode()
    # `QuestionSpec` once had further fields. Their defaults stay in the digest, so that runs of that time resume.
    settings_json = settings_json.replace('"templates":', '"runs":"","templates":', 1)
    settings_json = settings_json.removesuffix("}")
    settings_json += ',"error_budget":0.0,"scoring":{},"judge":{}}'
    return f"{slug(model_identity)[:60]}-{digest(settings_json)}"


def _identity_with_address(model: str) -> str:
    """Return a model string with its address, but without any other detail of how the model is reached."""
    identity = identifying_string(model)
    address = address_of(model)
    if not address or address in identity:
        return identity
    name, at, path = identity.partition("@/")
    if at:
        return f"{name}@{address}/{path}"
    return f"{identity}@{address}"


def _run_folders(runs: Path) -> list[Path]:
    """Return the folders of all runs in a folder, sorted."""
    manifests = runs.glob(f"*/{RUN_MANIFEST}")
    return sorted(manifest.parent for manifest in manifests)


def _used_same_addresses(folder: Path, question: QuestionSpec) -> bool:
    """Return whether a session of the run in a folder reached its models at the addresses in these settings."""
    models = {EVALUATED: question.models[0], **dict(question.roles)}
    present_addresses = {role: address_of(model) for role, model in models.items()}
    for session in _sessions(folder):
        addresses = {role: address_of(model) for role, model in session.models.items()}
        if addresses == present_addresses:
            return True
    return False


def _has_same_settings(folder: Path, question: QuestionSpec) -> bool:
    """Return whether the run in a folder has these settings and models, except for the addresses of the models.

    This is decided by the name of its folder, which contains a digest of the settings.
    """
    for session in _sessions(folder):
        model = session.models.get(EVALUATED, "")
        if identifying_string(model) != identifying_string(question.models[0]):
            continue
        roles = tuple((role, session.models.get(role, name)) for role, name in question.roles)
        with_former_addresses = replace(question, models=(model,), roles=roles)
        possible_names = (
            default_name(with_former_addresses),
            _name_from_settings(with_former_addresses, identifying_string),
        )
        if folder.name in possible_names:
            return True
    return False


def _sample_limits(folder: Path) -> list[int]:
    """Return the limits on the number of samples in the sessions of a run; none if its manifest cannot be read."""
    try:
        questions = read_manifest(folder).question_specs
    except StoreError:
        return []
    return [question.limit for question in questions if question.limit is not None]


def _sessions(folder: Path) -> tuple[RunSession, ...]:
    """Return the sessions of a run; none if its manifest cannot be read."""
    try:
        return read_manifest(folder).sessions
    except StoreError:
        return ()
