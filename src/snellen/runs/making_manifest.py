"""Make the manifest of the present session of a run."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

from msgspec.structs import replace

from snellen import __version__
from snellen.building.benchmark import EXAMPLES, Benchmark
from snellen.installation import installed_versions
from snellen.models.base import AsyncModel, Model, answers_by_sample
from snellen.models.identity import identity_of
from snellen.protocols.base import Protocol, declaration_of
from snellen.records import EVALUATED
from snellen.runs.driving import NO_ROLES, Roles
from snellen.runs.finding import SelectedBenchmark
from snellen.runs.plan import RunPlan, example_source
from snellen.runs.run_folder import RUN_FORMAT, BenchmarkUse, RoleModel, RunManifest, RunSession
from snellen.runs.server_checks import ServerFacts

RECORDED_PACKAGES = ("msgspec", "pyarrow", "pillow", "torch", "transformers", "tokenizers")


def manifest_of(model: Model | AsyncModel, plan: RunPlan, roles: Roles = NO_ROLES) -> RunManifest:
    """Return the manifest of a run: which models answer which benchmarks, with which settings and software.

    No request is sent.

    Args:
        model: The evaluated model.
        plan: The plan of the run.
        roles: The models in other roles, such as a judge.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    uses = []
    protocol_by_label: dict[str, Protocol] = {}
    for selected in plan.benchmarks:
        protocols = plan.protocols_of(selected.benchmark.spec)
        labels = tuple(protocol.label for protocol in protocols)
        uses.append(_benchmark_use(selected, labels, plan))
        protocol_by_label.update(zip(labels, protocols, strict=True))

    wording_versions = {}
    for label, protocol in protocol_by_label.items():
        wording_version = declaration_of(protocol).words
        if wording_version is not None:
            wording_versions[label] = wording_version(plan.templates)

    model_strings = {EVALUATED: model.name}
    role_models = {}
    for role, role_model in roles.items():
        model_strings[role] = role_model.name
        role_models[role] = RoleModel(
            role_model.name,
            identity_of(role_model).fingerprint,
            answers_by_sample=answers_by_sample(role_model),
        )

    return RunManifest(
        format=RUN_FORMAT,
        model=model.name,
        fingerprint=identity_of(model).fingerprint,
        benchmarks=tuple(uses),
        protocols=tuple(protocol_by_label),
        templates=plan.templates.id,
        question_specs=(plan.question,),
        executed=(plan.execution,),
        software={
            "snellen": __version__,
            "python": platform.python_version(),
            **installed_versions(RECORDED_PACKAGES),
        },
        hardware={
            "machine": platform.machine(),
            "system": platform.system(),
            "cores": str(os.cpu_count()),
        },
        started=started,
        sessions=(RunSession(started, model_strings),),
        answers_by_sample=answers_by_sample(model),
        roles=role_models,
        wording_versions=wording_versions,
    )


def _benchmark_use(
    selected: SelectedBenchmark, labels: tuple[str, ...], plan: RunPlan
) -> BenchmarkUse:
    """Return how a run uses a benchmark, for the manifest of the run.

    Args:
        selected: The benchmark, and which of its samples the run uses.
        labels: The labels of the protocols under which it is evaluated.
        plan: The plan of the run.
    """
    benchmark = selected.benchmark
    examples_from, examples_digest = _examples_shown(benchmark, plan)
    return BenchmarkUse(
        name=benchmark.name,
        version=benchmark.manifest.version,
        folder=str(benchmark.folder.resolve()),
        where=selected.selection.where,
        limit=_effective_limit(selected),
        protocols=labels,
        questions=benchmark.manifest.questions,
        part=selected.selection.part,
        examples_from=examples_from,
        examples=examples_digest,
        origin=benchmark.manifest.build_info.origin,
    )


def _effective_limit(selected: SelectedBenchmark) -> int | None:
    """Return the limit on the number of a benchmark's samples, or None if no sample is left out because of it.

    If only a part of the benchmark was built, the rest may have further samples, so the limit is always returned.
    """
    limit = selected.selection.limit
    if limit is None:
        return None
    manifest = selected.benchmark.manifest
    build_limit = manifest.build_info.limit
    is_partial_build = 0 < build_limit <= manifest.counts.samples
    if is_partial_build:
        return limit
    without_limit = replace(selected.selection, limit=None, part=None)
    n_samples = selected.benchmark.count(without_limit)
    return limit if limit < n_samples else None


def _examples_shown(benchmark: Benchmark, plan: RunPlan) -> tuple[str, str]:
    """Return where the solved examples in the prompts of a benchmark come from.

    Returns:
        The folder of the benchmark that has the examples, and a digest of them; two empty texts if prompts have no
        examples.
    """
    if not plan.question.few_shot:
        return "", ""
    source = example_source(benchmark, plan)
    return str(source.folder.resolve()), source.manifest.files.get(EXAMPLES, "")


def with_servers(manifest: RunManifest, servers: dict[str, ServerFacts]) -> RunManifest:
    """Return the manifest of a run with the facts that servers stated about their models in its last session.

    Args:
        manifest: The manifest.
        servers: The facts by the role of the model.
    """
    *earlier_sessions, last_session = manifest.sessions
    last_session = replace(last_session, servers=servers)
    return replace(manifest, sessions=(*earlier_sessions, last_session))
