"""Name the folder of a run after what it asks, so that asking the same resumes the same run."""

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

    This is the default name, unless an earlier run that asked the same has another: the name that earlier versions
    gave or, if the model has moved, the name by its former address.

    Raises:
        DataError: Several runs may be the run of the model that has moved.
    """
    name = default_name(question)
    runs = Path(execution.runs)
    earlier_name = _default_name(question, identifying_string)
    if _was_asked_at(runs / earlier_name, question):
        return earlier_name
    if not execution.moved or (runs / name / RUN_MANIFEST).exists():
        return name

    former = [folder for folder in _run_folders(runs) if _asked_the_same(folder, question)]
    if not former:
        return name
    if len(former) > 1:
        moved = for_caller("--moved", "moved=True")
        raise DataError(
            f"{moved}: {' and '.join(str(folder) for folder in former)} are the same run at other addresses; "
            f"choose the one to resume with {setting('name')}"
        )
    return former[0].name


def default_name(question: QuestionSpec) -> str:
    """Return the default name of a run's folder, which depends only on what is asked."""
    return _default_name(question, _identity_with_address)


def name_of_build(benchmark: str) -> str:
    """Return the name of a benchmark that is given by the folder of its build; any other text unchanged.

    `snellen run MODEL mine.tsv` builds the table and asks the folder, and `snellen run MODEL mine` asks the same.
    """
    builds = benchmark_folder("")
    path = Path(benchmark)
    if path.is_absolute() and path != builds and path.is_relative_to(builds):
        return path.relative_to(builds).as_posix()
    return benchmark


def announce_smaller_run(
    name: str, question: QuestionSpec, execution: ExecutionSpec, announce: Callable[[str], object]
) -> None:
    """Say which run could go on instead of a new one, if a run asked the same with a smaller limit.

    Samples are drawn so that a larger limit includes those of a smaller one.
    """
    runs = Path(execution.runs)
    if (runs / name / RUN_MANIFEST).exists():
        return
    stem = name.rpartition("-")[0]
    smaller_runs: list[tuple[int, Path]] = []
    for folder in _run_folders(runs):
        if not folder.name.startswith(f"{stem}-"):
            continue
        for limit in _limits(folder):
            is_larger = question.limit is None or question.limit > limit
            if is_larger and folder.name == default_name(replace(question, limit=limit)):
                smaller_runs.append((limit, folder))
    if not smaller_runs:
        return
    limit, folder = max(smaller_runs)
    go_on = setting("name", folder.name)
    announce(
        f"{folder} asked {limit:,} of these questions; with {go_on}, this model goes on with it instead of answering "
        "them again"
    )


def digest(*parts: str) -> str:
    """Return eight hexadecimal digits of a SHA-256 of strings."""
    content = "\0".join(parts)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def _default_name(question: QuestionSpec, identify: Callable[[str], str]) -> str:
    """Return the default name of a run's folder: the model, and a digest of all settings that are not defaults.

    Args:
        question: The settings that determine what is sent to the models.
        identify: Function that returns the part of a model string that identifies the model, without its address.
    """
    [model] = question.models
    model_identity = identify(model)
    roles = tuple((role, identify(name)) for role, name in question.roles)
    identified = replace(question, models=(model_identity,), roles=roles)
    defaults = asdict(QuestionSpec())
    changed = {}
    for name, value in asdict(identified).items():
        if value != defaults[name]:
            changed[name] = value
    text = msgspec.json.encode(changed).decode()
    # The record once had these fields, too. Their defaults stay in the digest, so that runs of that time resume.
    text = text.replace('"templates":', '"runs":"","templates":', 1)
    text = text.removesuffix("}") + ',"error_budget":0.0,"scoring":{},"judge":{}}'
    return f"{slug(model_identity)[:60]}-{digest(text)}"


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


def _was_asked_at(folder: Path, question: QuestionSpec) -> bool:
    """Return whether a session of a run used the same addresses of models as the present settings do."""
    models = {EVALUATED: question.models[0], **dict(question.roles)}
    present_addresses = {role: address_of(model) for role, model in models.items()}
    for session in _sessions(folder):
        addresses = {role: address_of(model) for role, model in session.models.items()}
        if addresses == present_addresses:
            return True
    return False


def _asked_the_same(folder: Path, question: QuestionSpec) -> bool:
    """Return whether a run has the same settings and models as the present ones, except for the addresses of the models.

    The name of its folder, which contains a digest of the settings, tells this.
    """
    for session in _sessions(folder):
        model = session.models.get(EVALUATED, "")
        if identifying_string(model) != identifying_string(question.models[0]):
            continue
        roles = tuple((role, session.models.get(role, name)) for role, name in question.roles)
        with_former_addresses = replace(question, models=(model,), roles=roles)
        possible_names = (
            default_name(with_former_addresses),
            _default_name(with_former_addresses, identifying_string),
        )
        if folder.name in possible_names:
            return True
    return False


def _limits(folder: Path) -> list[int]:
    """Return the limits that a run was asked with; none if its manifest cannot be read."""
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
