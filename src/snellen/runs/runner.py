"""One run: a model, benchmarks and protocols in; a run folder out. Knows nothing of answers."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.errors import ModelError, StoreError
from snellen.models.base import AsyncModel, HasFindings, Model, NeedsBenchmarks, answers_by_sample
from snellen.models.object_fingerprint import is_of_content, why_not_fingerprinted
from snellen.protocols.base import needed_kind
from snellen.runs.drivers import ProgressCallback, drive_model
from snellen.runs.journal import (
    RUN_FORMAT,
    RUN_MANIFEST,
    BenchmarkUse,
    RunManifest,
    RunStore,
    holds_answers,
    read_manifest,
    write_manifest,
)
from snellen.runs.model_identity import changed_fact, check_identity, way_out
from snellen.runs.plan import RunPlan, protocols_of, work_items
from snellen.runs.same_requests import check_same_requests

_RECORDED = ("msgspec", "pyarrow", "pillow", "httpcore", "torch", "transformers", "tokenizers")


class RunOutcome(Struct, frozen=True):
    """What this session of a run did."""

    folder: Path
    answered: int
    failed: int
    findings: tuple[str, ...] = ()
    """What the model found when it checked its own answers."""


def run_plan(model: Model | AsyncModel, plan: RunPlan, progress: ProgressCallback = lambda update: None) -> RunOutcome:
    """Ask everything that is not answered yet. The same call resumes an earlier run.

    Raises StoreError for a folder that belongs to another run, ModelError for an unusable model, DataError for samples
    that would share a reply although their answers differ.
    """
    check_model_kinds(model, plan)
    notes = check_same_requests(model, plan)
    folder = plan.folder
    manifest = replace(manifest_of(model, plan), notes=notes)
    _join(folder, manifest, first=plan.worker == 0)
    if isinstance(model, NeedsBenchmarks):
        model.prepare([selected.benchmark.folder for selected in plan.benchmarks])
    others = [other for other in plan.others if _answers_alike(other, manifest)]
    with RunStore(folder, plan.worker, by_sample=answers_by_sample(model), others=others) as store:
        try:
            drive_model(model, work_items(plan), store, window=plan.spec.window, progress=progress)
        finally:
            if is_of_content(manifest.fingerprint):
                _keep_left_as(folder, model)
        findings = model.findings() if isinstance(model, HasFindings) else ()
        outcome = RunOutcome(folder, store.answered, store.failed, findings)
    if plan.spec.workers == 1:
        note_findings(outcome)
    return outcome


def note_findings(outcome: RunOutcome) -> None:
    """Add what a session found to the notes of the run; earlier sessions' notes stay."""
    if outcome.findings:
        manifest = read_manifest(outcome.folder)
        write_manifest(outcome.folder, replace(manifest, notes=(*manifest.notes, *outcome.findings)))


def check_model_kinds(model: Model | AsyncModel, plan: RunPlan) -> None:
    """Raise ModelError for a protocol that needs a kind of request the model does not support."""
    for protocol in {p for selected in plan.benchmarks for p in protocols_of(selected.benchmark.spec, plan)}:
        kind = needed_kind(protocol)
        if kind not in model.kinds and kind == "generate":
            raise ModelError(f"{model.name} only scores options, but {protocol.label} needs replies; use likelihood")
        if kind not in model.kinds:
            raise ModelError(
                f"{model.name} cannot give log-likelihoods, which {protocol.label} needs; "
                "leave that protocol out, or evaluate the model through hf:"
            )


def manifest_of(model: Model | AsyncModel, plan: RunPlan) -> RunManifest:
    labels = [tuple(p.label for p in protocols_of(use.benchmark.spec, plan)) for use in plan.benchmarks]
    return RunManifest(
        format=RUN_FORMAT,
        model=model.name,
        fingerprint=_fingerprint(model),
        benchmarks=tuple(
            BenchmarkUse(
                use.benchmark.name,
                use.benchmark.manifest.version,
                str(use.benchmark.folder.resolve()),
                use.selection.where,
                use.selection.limit,
                asked_by,
                use.benchmark.manifest.questions,
            )
            for use, asked_by in zip(plan.benchmarks, labels, strict=True)
        ),
        protocols=tuple(dict.fromkeys(label for asked_by in labels for label in asked_by)),
        templates=plan.templates.id,
        asked=(plan.spec.of_model(),),
        software={"snellen": __version__, "python": platform.python_version(), **_versions()},
        hardware={"machine": platform.machine(), "system": platform.system(), "cores": str(os.cpu_count())},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        answers_by_sample=answers_by_sample(model),
    )


def _fingerprint(model: Model | AsyncModel) -> dict[str, str]:
    # A version may be a text of a kind of its own, as torch's is.
    return {name: "".join(value) for name, value in model.fingerprint().items()}


def _answers_alike(folder: Path, manifest: RunManifest) -> bool:
    """Whether the answers in another run's folder are those of this run's model, for all that its fingerprint says."""
    if not holds_answers(folder) or why_not_fingerprinted(manifest.fingerprint):
        return False
    other = read_manifest(folder)
    return (
        other.model == manifest.model
        and manifest.fingerprint in (other.fingerprint, other.left_as)
        and other.answers_by_sample == manifest.answers_by_sample
    )


def _keep_left_as(folder: Path, model: Model | AsyncModel) -> None:
    """Note what an object became in answering, so that the same object may go on."""
    manifest, now = read_manifest(folder), _fingerprint(model)
    if now not in (manifest.fingerprint, manifest.left_as):
        write_manifest(folder, replace(manifest, left_as=now))


def _versions() -> dict[str, str]:
    versions = {}
    for name in _RECORDED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _join(folder: Path, manifest: RunManifest, first: bool) -> None:
    """Begin a run in `folder`, or go on with the one that is there when it is the same model on the same data."""
    if not (folder / RUN_MANIFEST).exists() or not holds_answers(folder):
        if first:
            write_manifest(folder, manifest)
        return
    earlier = read_manifest(folder)
    check_identity(folder, manifest.model, manifest.fingerprint)
    if manifest.fingerprint not in (earlier.fingerprint, earlier.left_as) or earlier.model != manifest.model:
        changed = changed_fact(earlier.fingerprint, manifest.fingerprint)
        changed = changed or f"the model was {earlier.model}, is {manifest.model}"
        raise StoreError(f"{folder} holds a run of another model ({changed}); {way_out(manifest.fingerprint)}")
    if (earlier.templates, earlier.decoding, earlier.prefix) != (
        manifest.templates,
        manifest.decoding,
        manifest.prefix,
    ):
        raise StoreError(f"{folder} holds a run with other templates or decoding; choose another --name")
    now = {use.name: use for use in manifest.benchmarks}
    for use in earlier.benchmarks:
        if use.name in now and not use.fits(now[use.name].version, now[use.name].questions):
            raise StoreError(
                f"{folder} was run on version {use.version} of {use.name}, which is now {now[use.name].version}; "
                "choose another --name"
            )
    before = {use.name: use.protocols or earlier.protocols for use in earlier.benchmarks}
    joined = (
        replace(use, protocols=tuple(dict.fromkeys((*before.get(use.name, ()), *use.protocols))))
        for use in manifest.benchmarks
    )
    grown = replace(
        earlier,
        benchmarks=(*(use for use in earlier.benchmarks if use.name not in now), *joined),
        protocols=tuple(dict.fromkeys((*earlier.protocols, *manifest.protocols))),
        asked=tuple(dict.fromkeys((*earlier.asked, *manifest.asked))),
        notes=tuple(dict.fromkeys((*earlier.notes, *manifest.notes))),
        answers_by_sample=earlier.answers_by_sample or manifest.answers_by_sample,
    )
    if first and grown != earlier:
        write_manifest(folder, grown)
