"""Begin a run in a folder, or resume the run that is there if it has the same models, settings and benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from snellen.building.replaced_builds import other_source
from snellen.callers import for_caller, setting
from snellen.errors import StoreError
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import identity_of
from snellen.models.object_digest import why_not_fingerprinted
from snellen.protocols.prompts.templates import SNELLEN, default_templates
from snellen.records import EVALUATED
from snellen.runs.driving import NO_ROLES, Roles
from snellen.runs.finding import Announce
from snellen.runs.journal import read_journal
from snellen.runs.making_manifest import manifest_of
from snellen.runs.plan import RunPlan
from snellen.runs.run_folder import (
    RUN_MANIFEST,
    BenchmarkUse,
    RunManifest,
    RunSession,
    holds_answers,
    journals,
    read_manifest,
    write_manifest,
)
from snellen.runs.run_models import (
    check_same_models,
    model_difference,
    models_of,
    only_replies,
)
from snellen.runs.run_name import digest
from snellen.runs.spec import QuestionSpec
from snellen.runs.unchanged_models import check_identity

T = TypeVar("T")


def begin_or_resume(
    folder: Path, current: RunManifest, *, writes: bool, moved: bool
) -> RunManifest:
    """Write the manifest of a new run, or merge it into that of the run in the folder.

    Args:
        folder: The folder of the run.
        current: The manifest of the present session.
        writes: Whether this process writes the manifest; of several workers the first one does.
        moved: Whether the user says that the models are the same at another address or server.

    Returns:
        The manifest of all sessions of the run.

    Raises:
        StoreError: The folder holds a run that differs in its models, settings or benchmarks.
    """
    if _has_lost_manifest(folder) or not holds_answers(folder):
        _check_journals(folder, current)
        if writes:
            write_manifest(folder, current)
        return current
    earlier = read_manifest(folder)
    check_same_models(folder, earlier, current, moved=moved)
    _check_same_settings(folder, earlier, current)
    _check_same_benchmarks(folder, earlier, current)
    merged = merge_manifests(earlier, current)
    if writes and merged != earlier:
        write_manifest(folder, merged)
    return merged


def _has_lost_manifest(folder: Path) -> bool:
    """Return whether a folder has no manifest, or one that was restored from journals and lacks the run's settings."""
    if not (folder / RUN_MANIFEST).exists():
        return True
    return bool(read_manifest(folder).authors_by_journal)


def _check_journals(folder: Path, current: RunManifest) -> None:
    """Check that the journals in a folder without a manifest contain replies of the present models.

    Args:
        folder: The folder of the run.
        current: The manifest of the present session.

    Raises:
        StoreError: A reply is from another model, or may be because the model has no fingerprint.
    """
    for model in models_of(current).values():
        check_identity(folder, model.model, model.fingerprint)
    for path in journals(folder):
        for _ in read_journal(path, current.authors):
            pass  # reading a reply of another model raises StoreError


def _check_same_settings(folder: Path, earlier: RunManifest, current: RunManifest) -> None:
    """Check that the run in a folder has the settings, few-shot examples and prompts of the present session.

    Args:
        folder: The folder of the run.
        earlier: The manifest of the run.
        current: The manifest of the present session.

    Raises:
        StoreError: They differ. The message lists the differences.
    """
    differences = []
    for name, before, now in _compared_settings(earlier, current):
        if before != now:
            differences.append(f"{name} {before}, now {now}")
    if differences:
        raise StoreError(
            f"{folder} contains a run with other settings ({'; '.join(differences)}); choose another {setting('name')}"
        )
    if earlier.few_shot != current.few_shot:
        raise StoreError(
            f"{folder} contains a run with other few-shot examples; choose another {setting('name')}"
        )
    for label, version in current.wording_versions.items():
        earlier_version = earlier.wording_versions.get(label, version)
        if earlier_version != version:
            raise StoreError(
                f"{folder}: {label} used prompts of version {earlier_version}, but they now have version "
                f"{version}; choose another {setting('name')}"
            )


def _compared_settings(
    earlier: RunManifest, current: RunManifest
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the settings that must stay the same when a run is resumed.

    Args:
        earlier: The manifest of the run.
        current: The manifest of the present session.

    Yields:
        The name of a setting, its value when the run was started, and its value now. Both values are for a message.
    """
    if earlier.templates != current.templates:
        earlier_templates, current_templates = _template_names(earlier, current)
        yield "templates", earlier_templates, current_templates
    # The digests of templates may also differ because benchmarks were added, so the prompts are compared separately.
    yield "prompt", _prompt_text(earlier), _prompt_text(current)
    yield "prefix", earlier.prefix, current.prefix
    earlier_decoding = _decoding_settings(earlier)
    for name, value in _decoding_settings(current).items():
        setting_name = for_caller(name.replace("_", "-"), name)
        yield setting_name, earlier_decoding[name], value


def _template_names(earlier: RunManifest, current: RunManifest) -> tuple[str, str]:
    """Return two names by which a user can tell the prompt templates of a run from those of the present session.

    These are the names that the user gave; "as usual" stands for the default templates. If both names are the same,
    the content of the templates has changed. Then the beginnings of the digests of their content are returned.
    """
    earlier_name = _first_question_spec(earlier).templates
    current_name = _first_question_spec(current).templates
    if earlier_name == current_name:
        has_other_prompt = _prompt_text(earlier) != _prompt_text(current)
        if has_other_prompt:  # which is said, and is part of what identifies templates
            return "as usual", "as usual"
        if not current_name and earlier.templates == default_templates().id:
            # Runs of earlier versions asked the benchmarks of some suites so.
            how_to_continue = setting("templates", SNELLEN)
            return f"{SNELLEN} ({how_to_continue} continues it)", "as its entries declare"
        return earlier.templates[:12], current.templates[:12]
    return earlier_name or "as usual", current_name or "as usual"


def _first_question_spec(manifest: RunManifest) -> QuestionSpec:
    """Return the settings of the first session of a run; the defaults if the run was imported and has none."""
    if manifest.question_specs:
        return manifest.question_specs[0]
    return QuestionSpec()


def _prompt_text(manifest: RunManifest) -> str:
    """Return the prompt that the user gave, quoted; "as usual" if there was none."""
    prompt = _first_question_spec(manifest).prompt
    return repr(prompt) if prompt else "as usual"


def _decoding_settings(manifest: RunManifest) -> dict[str, Any]:
    """Return how replies were sampled, by the name of the setting, with values for a message."""
    settings = asdict(manifest.decoding)
    settings["max_new_tokens"] = manifest.decoding.max_new_tokens or "the benchmark's"
    return settings


def _check_same_benchmarks(folder: Path, earlier: RunManifest, current: RunManifest) -> None:
    """Check that the benchmarks of a run, and their few-shot examples, are the same in the present session.

    Args:
        folder: The folder of the run.
        earlier: The manifest of the run.
        current: The manifest of the present session. It may have further benchmarks.

    Raises:
        StoreError: A benchmark was built again since the run and has other questions, or it has other examples.
    """
    current_uses = {use.name: use for use in current.benchmarks}
    for use in earlier.benchmarks:
        current_use = current_uses.get(use.name)
        if current_use is None:
            continue
        if not use.matches_build(current_use.version, current_use.questions):
            sources = other_source(use.name, use.origin, current_use.origin)
            reason = f" ({sources})" if sources else ""
            raise StoreError(
                f"{folder} used version {use.version} of {use.name}, but the current build is version "
                f"{current_use.version}{reason}; choose another {setting('name')} (a shared {setting('cache')} avoids sending the same requests "
                "again), or rebuild that version from its original source"
            )
        if use.examples != current_use.examples:
            raise StoreError(
                f"{folder}: {use.name} was run with other few-shot examples; choose another {setting('name')}"
            )


def merge_manifests(earlier: RunManifest, current: RunManifest) -> RunManifest:
    """Return the manifest of a run after a further session.

    Args:
        earlier: The manifest of the run so far.
        current: The manifest of the present session.
    """
    return replace(
        earlier,
        benchmarks=_merged_benchmarks(earlier, current),
        protocols=_merged(earlier.protocols, current.protocols),
        question_specs=_merged(earlier.question_specs, current.question_specs),
        executed=_merged(earlier.executed, current.executed),
        notes=_merged(earlier.notes, current.notes),
        answers_by_sample=earlier.answers_by_sample or current.answers_by_sample,
        roles={**current.roles, **earlier.roles},
        sessions=_merged_sessions(earlier.sessions, current.sessions),
        wording_versions={**current.wording_versions, **earlier.wording_versions},
    )


def _merged(earlier: tuple[T, ...], current: tuple[T, ...]) -> tuple[T, ...]:
    """Return the items of both tuples, the earlier ones first, without duplicates."""
    items = dict.fromkeys(earlier)
    items.update(dict.fromkeys(current))
    return tuple(items)


def _merged_benchmarks(earlier: RunManifest, current: RunManifest) -> tuple[BenchmarkUse, ...]:
    """Combine the benchmarks of a run so far with those of the present session.

    A benchmark that is in both has the present settings, and the protocols of both.
    """
    current_names = {use.name for use in current.benchmarks}
    earlier_protocols = {}
    merged = []
    for use in earlier.benchmarks:
        earlier_protocols[use.name] = use.protocols or earlier.protocols
        if use.name not in current_names:
            merged.append(use)
    for use in current.benchmarks:
        protocols = _merged(earlier_protocols.get(use.name, ()), use.protocols)
        merged.append(replace(use, protocols=protocols))
    return tuple(merged)


def _merged_sessions(
    earlier: tuple[RunSession, ...], current: tuple[RunSession, ...]
) -> tuple[RunSession, ...]:
    """Combine the sessions of a run with the present one.

    A session is added only if a model has another address, or if a server describes itself differently. Otherwise the
    last session continues.
    """
    if not earlier:
        return current
    last = earlier[-1]
    present = current[-1]
    has_same_addresses = last.models == present.models
    has_same_servers = {**last.servers, **present.servers} == last.servers
    if has_same_addresses and has_same_servers:
        return earlier
    return (*earlier, *current)


# --- the automatic name of a run --------------------------------------------------------------------------------------


def choose_folder(
    plan: RunPlan, model: Model | AsyncModel, roles: Roles, announce: Announce
) -> RunPlan:
    """Choose another folder for a run if its automatically named folder has replies of another model or benchmark.

    The name of a run follows from its settings and the model string. It stays the same if a checkpoint was trained
    further, if a class was edited, or if a benchmark was built again from edited questions. The run then gets a folder
    of its own, whose name ends with a digest of what has changed.

    Args:
        plan: The plan of the run.
        model: The evaluated model.
        roles: The models in other roles, such as a judge.
        announce: Receives a line that says what has changed, and which folder the run has.

    Returns:
        The plan with the folder; unchanged if its folder can be used, or was named by the user.
    """
    plan = _with_folder_for_builds(plan, model, roles, announce)
    if not _may_have_other_replies(plan):
        return plan
    folder = plan.folder
    earlier = read_manifest(folder)
    current = manifest_of(model, plan, roles)
    difference = _first_model_difference(earlier, current)
    if not difference:
        return plan
    renamed_plan = with_name_by_fingerprint(plan, model, roles)
    announce(
        f"{folder} contains replies of {earlier.model} from before it changed ({difference}); new replies go to "
        f"{renamed_plan.folder}"
    )
    return renamed_plan


def _may_have_other_replies(plan: RunPlan) -> bool:
    """Return whether the folder of a plan was named automatically and has replies, perhaps of another model."""
    folder = plan.folder
    return plan.has_automatic_name and not _has_lost_manifest(folder) and holds_answers(folder)


def _with_folder_for_builds(
    plan: RunPlan, model: Model | AsyncModel, roles: Roles, announce: Announce
) -> RunPlan:
    """Choose another folder for a run if its folder has replies to earlier builds of the same benchmarks.

    The arguments are those of `choose_folder`.

    Returns:
        The plan with the folder; unchanged if its folder can be used.
    """
    if not _may_have_other_replies(plan):
        return plan
    folder = plan.folder
    current_uses = {use.name: use for use in manifest_of(model, plan, roles).benchmarks}
    rebuilt_uses = []
    for use in read_manifest(folder).benchmarks:
        current_use = current_uses.get(use.name)
        if current_use and not use.matches_build(current_use.version, current_use.questions):
            rebuilt_uses.append(current_use)
    if not rebuilt_uses:
        return plan
    suffix = digest(*(use.version for use in rebuilt_uses))
    new_name = f"{plan.execution.name}-{suffix}"
    renamed_plan = replace(plan, spec=plan.spec.with_execution(name=new_name))
    benchmark_names = ", ".join(use.name for use in rebuilt_uses)
    announce(
        f"{folder} contains replies to an earlier build of {benchmark_names}; new replies go to {renamed_plan.folder}"
    )
    return renamed_plan


def _first_model_difference(earlier: RunManifest, current: RunManifest) -> str:
    """Describe how a model of a run has changed, such as `dtype was float32, is bfloat16`.

    Args:
        earlier: The manifest of the run.
        current: The manifest of the present session.

    Returns:
        The first difference; empty if there is none, or if a model has no fingerprint, so that it cannot be compared.
    """
    earlier_models = models_of(earlier)
    current_models = models_of(current)
    for model in current_models.values():
        if why_not_fingerprinted(model.fingerprint):
            return ""
    for role, model in current_models.items():
        earlier_model = earlier_models.get(role, model)
        gives_only_replies = only_replies(role, earlier, current)
        difference = model_difference(earlier_model, model, only_replies=gives_only_replies)
        if difference:
            return difference
    return ""


def with_name_by_fingerprint(
    plan: RunPlan, model: Model | AsyncModel, roles: Roles = NO_ROLES
) -> RunPlan:
    """Return the plan of a run with a digest of the models' properties appended to the name of its folder.

    Models that have changed get a folder of their own in this way.

    Args:
        plan: The plan of the run.
        model: The evaluated model.
        roles: The models in other roles, such as a judge.
    """
    fingerprints = {EVALUATED: identity_of(model).fingerprint}
    for role, role_model in roles.items():
        fingerprints[role] = identity_of(role_model).fingerprint
    fingerprints_json = msgspec.json.encode(fingerprints, order="sorted").decode()
    new_name = f"{plan.execution.name}-{digest(fingerprints_json)}"
    return replace(plan, spec=plan.spec.with_execution(name=new_name))
