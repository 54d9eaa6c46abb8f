"""One run: a model, benchmarks and protocols in; a run folder out. Knows nothing of answers."""

from __future__ import annotations

import itertools
import math
import os
import platform
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen import __version__
from snellen.building.benchmark import EXAMPLES, Benchmark, RandomPart
from snellen.common.paths import as_word
from snellen.errors import DataError, ModelError, SnellenError, StoreError
from snellen.installation import installed_versions
from snellen.models.base import (
    ADDRESS,
    AsyncModel,
    HasFindings,
    Model,
    NeedsBenchmarks,
    address_of,
    answers_by_sample,
    as_latest_adapter,
    identity_of,
)
from snellen.models.object_digest import is_of_content, why_not_fingerprinted
from snellen.protocols.base import declaration_of, needed_kind, parse_protocol
from snellen.records import EVALUATED, IndistinguishableQuestion
from snellen.runs.drivers import (
    ProgressCallback,
    ProgressUpdate,
    RunBudget,
    SampleItem,
    questions_of,
)
from snellen.runs.driving import NO_ROLES, Roles, drive_model
from snellen.runs.finding import Announce, SelectedBenchmark
from snellen.runs.journal import RunStore, read_journal
from snellen.runs.own_questions import keep_questions, questions_folder
from snellen.runs.plan import (
    RunPlan,
    check_roles,
    digest,
    example_source,
    protocols_of,
    shown_pictures,
    work_items,
)
from snellen.runs.run_folder import (
    RUN_FORMAT,
    RUN_MANIFEST,
    BenchmarkUse,
    RoleModel,
    RunManifest,
    Stretch,
    changed_fact,
    check_identity,
    holds_answers,
    journals,
    locked_run,
    read_manifest,
    way_out,
    write_manifest,
)
from snellen.runs.server_checks import ServerFacts, ask_servers, changed_server_fact

if TYPE_CHECKING:
    from snellen.runs.earlier_answers import AnswerCache

_RECORDED = ("msgspec", "pyarrow", "pillow", "torch", "transformers", "tokenizers")


class RunOutcome(Struct, frozen=True):
    """What this session of a run did."""

    folder: Path
    answered: dict[str, int]
    """Different requests by role; that of the evaluated model is ''."""
    failed: dict[str, int]
    """Those that failed."""
    findings: tuple[str, ...] = ()
    """What the models found when they checked their own answers."""
    reasons: dict[str, int] = {}
    """Why requests failed, and how many for each reason."""
    spent: str = ""
    """Which budget ended this session before everything was asked; empty where none did."""
    paid: float = 0.0
    """What the answers cost, where a price is known."""
    sent: int = 0
    """Requests as often as they were asked, answered or failed."""


def run_plan(
    model: Model | AsyncModel,
    plan: RunPlan,
    progress: ProgressCallback = lambda update: None,
    roles: Roles = NO_ROLES,
) -> RunOutcome:
    """Ask everything that is not answered yet. The same call resumes an earlier run.

    Raises StoreError for a folder that belongs to another run or is in use, ModelError for an unusable model, DataError
    for samples that would share a reply although their answers differ, or a role that nobody plays.
    """
    check_model_kinds(model, plan, roles)
    notes = (*check_same_requests(model, plan), *shown_pictures(plan))
    manifest = replace(manifest_of(model, plan, roles), notes=notes)
    # Of several workers the process that started them holds the folder.
    with locked_run(plan.folder) if plan.execution.workers == 1 else nullcontext():
        return _carry_out(model, plan, manifest, progress, roles)


def _carry_out(
    model: Model | AsyncModel,
    plan: RunPlan,
    manifest: RunManifest,
    progress: ProgressCallback,
    roles: Roles,
) -> RunOutcome:
    folder, everybody = plan.folder, {EVALUATED: model, **roles}
    # Before the first question, so that a refusal leaves no reply of another model in the run.
    manifest = with_servers(manifest, ask_servers(everybody))
    whole = _join(folder, manifest, first=plan.worker == 0, moved=plan.execution.moved)
    authors = whole.authors
    if plan.worker == 0:
        for use in plan.benchmarks:
            keep_questions(
                use.benchmark, use.selection, questions_folder(folder, use.benchmark.name)
            )
    for member in everybody.values():
        if isinstance(member, NeedsBenchmarks):
            member.prepare([selected.benchmark.folder for selected in plan.benchmarks])
    runs = [run for run in plan.others if _answers_alike(run, manifest)]
    budget, cache = RunBudget(plan.execution, plan.worker, plan.taken), _cache_of(plan, manifest)
    with RunStore(
        folder,
        plan.worker,
        by_sample=manifest.by_sample,
        authors=authors,
        earlier_runs=runs,
        cache=cache,
    ) as store:
        try:
            drive_model(
                model,
                unfinished_items(work_items(plan), store, progress),
                store,
                roles=roles,
                window=plan.execution.window,
                budget=budget,
                progress=progress,
            )
        finally:
            if any(is_of_content(use.fingerprint) for use in _models_of(manifest).values()):
                _keep_left_as(folder, everybody)
        # A model with several roles finds the same in each.
        model_findings = (
            member.findings() for member in everybody.values() if isinstance(member, HasFindings)
        )
        findings = dict.fromkeys(itertools.chain.from_iterable(model_findings))
        counts = dict(store.answered), dict(store.failed)
        if store.sent:
            findings |= dict.fromkeys(_servers_at_end(plan, manifest, whole, everybody))
        outcome = RunOutcome(
            folder,
            *counts,
            tuple(findings),
            dict(store.reasons),
            budget.spent,
            budget.paid,
            store.sent,
        )
    if plan.execution.workers == 1:
        note_findings(outcome)
    return outcome


def with_servers(manifest: RunManifest, servers: dict[str, ServerFacts]) -> RunManifest:
    """Return the manifest with what servers stated in its last stretch."""
    *before, last = manifest.stretches
    return replace(manifest, stretches=(*before, replace(last, servers=servers)))


def _servers_at_end(
    plan: RunPlan, manifest: RunManifest, whole: RunManifest, everybody: Roles
) -> list[str]:
    """Ask the servers again after the last reply, and return a sentence for each that now states something else.

    Servers that could not be asked at the beginning, as one that was still loading, are noted in the manifest now.
    `manifest` is of this session, and `whole` of all sessions. Of several workers the first one alone reads and writes
    the manifest's file, which may not be there yet when another has finished.
    """
    at_end = ask_servers(everybody)
    sentences = []
    for role, facts in at_end.items():
        if changed := changed_server_fact(_known_facts(whole, role), facts):
            sentences.append(
                f"the server of {everybody[role].name} may have changed its model while it was asked: {changed}; "
                "replies of this session may be of either"
            )
    at_beginning = manifest.stretches[-1].servers
    new_facts = {role: facts for role, facts in at_end.items() if role not in at_beginning}
    if new_facts and plan.worker == 0 and not sentences:
        written = read_manifest(plan.folder)
        servers = {**written.stretches[-1].servers, **new_facts}
        write_manifest(plan.folder, with_servers(written, servers))
    return sentences


def note_findings(outcome: RunOutcome) -> None:
    """Add what a session found to the notes of the run; earlier sessions' notes stay."""
    if outcome.findings:
        manifest = read_manifest(outcome.folder)
        write_manifest(
            outcome.folder, replace(manifest, notes=(*manifest.notes, *outcome.findings))
        )


def check_model_kinds(model: Model | AsyncModel, plan: RunPlan, roles: Roles = NO_ROLES) -> None:
    """Raise ModelError for a protocol that needs a kind of request the model does not support, or for a model with a
    role that cannot reply, and DataError for a role that nobody plays."""
    check_roles(plan, roles)
    for role, played in roles.items():
        if "generate" not in played.kinds:
            raise ModelError(
                f"{played.name} only scores options, but a {role} has to reply; name another model"
            )
    for protocol in {
        p for selected in plan.benchmarks for p in protocols_of(selected.benchmark.spec, plan)
    }:
        kind = needed_kind(protocol)
        if kind not in model.kinds and kind == "generate":
            raise ModelError(
                f"{model.name} only scores options, but {protocol.label} needs replies; use likelihood"
            )
        if kind not in model.kinds:
            raise ModelError(
                f"{model.name} cannot give log-likelihoods, which {protocol.label} needs; "
                "leave that protocol out, or evaluate the model through hf:"
            )


def _limit_that_leaves_out(use: SelectedBenchmark) -> int | None:
    """The limit of a benchmark's samples; None where there are no more of them, and all are asked."""
    limit, manifest = use.selection.limit, use.benchmark.manifest
    if limit is None or 0 < manifest.made.limit <= manifest.counts.samples:
        return limit  # none is named, or the build may have left out the others
    return (
        limit
        if limit < use.benchmark.count(replace(use.selection, limit=None, part=None))
        else None
    )


def manifest_of(model: Model | AsyncModel, plan: RunPlan, roles: Roles = NO_ROLES) -> RunManifest:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    labels = [
        tuple(p.label for p in protocols_of(use.benchmark.spec, plan)) for use in plan.benchmarks
    ]
    return RunManifest(
        format=RUN_FORMAT,
        model=model.name,
        fingerprint=identity_of(model).fingerprint,
        benchmarks=tuple(
            BenchmarkUse(
                use.benchmark.name,
                use.benchmark.manifest.version,
                str(use.benchmark.folder.resolve()),
                use.selection.where,
                _limit_that_leaves_out(use),
                asked_by,
                use.benchmark.manifest.questions,
                use.selection.part,
                *_shown_before(use.benchmark, plan),
                origin=use.benchmark.manifest.made.origin,
            )
            for use, asked_by in zip(plan.benchmarks, labels, strict=True)
        ),
        protocols=tuple(dict.fromkeys(label for asked_by in labels for label in asked_by)),
        templates=plan.templates.id,
        asked=(plan.question,),
        executed=(plan.execution,),
        software={
            "snellen": __version__,
            "python": platform.python_version(),
            **installed_versions(_RECORDED),
        },
        hardware={
            "machine": platform.machine(),
            "system": platform.system(),
            "cores": str(os.cpu_count()),
        },
        started=started,
        stretches=(
            Stretch(
                started,
                {
                    EVALUATED: model.name,
                    **{role: role_model.name for role, role_model in roles.items()},
                },
            ),
        ),
        answers_by_sample=answers_by_sample(model),
        roles={
            role: RoleModel(
                role_model.name,
                identity_of(role_model).fingerprint,
                answers_by_sample=answers_by_sample(role_model),
            )
            for role, role_model in roles.items()
        },
        words={
            protocol.label: words(plan.templates)
            for use in plan.benchmarks
            for protocol in protocols_of(use.benchmark.spec, plan)
            if (words := declaration_of(protocol).words)
        },
    )


def _shown_before(benchmark: Benchmark, plan: RunPlan) -> tuple[str, str]:
    """The folder of the examples shown before a benchmark's questions, and their digest; empty where none are."""
    if not plan.question.few_shot:
        return "", ""
    source = example_source(benchmark, plan)
    return str(source.folder.resolve()), source.manifest.files.get(EXAMPLES, "")


def _keep_left_as(folder: Path, everybody: Roles) -> None:
    """Note what objects became in answering, so that the same objects may go on."""
    manifest = read_manifest(folder)
    updated = manifest
    for role, use in _models_of(manifest).items():
        if role in everybody and is_of_content(use.fingerprint):
            now = identity_of(everybody[role]).fingerprint
            if now not in (use.fingerprint, use.left_as):
                updated = _with_model(updated, role, replace(use, left_as=now))
    if updated != manifest:
        write_manifest(folder, updated)


def _models_of(manifest: RunManifest) -> dict[str, RoleModel]:
    """All models of a run by role, the evaluated one first."""
    evaluated = RoleModel(
        manifest.model, manifest.fingerprint, manifest.left_as, manifest.answers_by_sample
    )
    return {EVALUATED: evaluated, **manifest.roles}


def _with_model(manifest: RunManifest, role: str, use: RoleModel) -> RunManifest:
    if role == EVALUATED:
        return replace(manifest, left_as=use.left_as)
    return replace(manifest, roles={**manifest.roles, role: use})


def _cache_of(plan: RunPlan, manifest: RunManifest) -> AnswerCache | None:
    """The cache that a run was given, for those of its models of which it is known who they are."""
    if not plan.execution.cache:
        return None
    identities = {
        role: digest(use.identity, msgspec.json.encode(use.fingerprint, order="sorted").decode())
        for role, use in _models_of(manifest).items()
        if not why_not_fingerprinted(use.fingerprint) and not use.answers_by_sample
    }
    from snellen.runs.earlier_answers import AnswerCache

    facts_by_author = {
        identities[role]: facts
        for role, facts in manifest.stretches[-1].servers.items()
        if role in identities
    }
    return AnswerCache(
        Path(plan.execution.cache).expanduser(),
        identities,
        facts_by_author,
        moved=plan.execution.moved,
    )


def _answers_alike(folder: Path, manifest: RunManifest) -> bool:
    """Whether the answers in another run's folder are those of this run's models, for all their fingerprints say."""
    models = _models_of(manifest)
    if not holds_answers(folder) or any(
        why_not_fingerprinted(use.fingerprint) for use in models.values()
    ):
        return False
    other = read_manifest(folder)
    other_models = _models_of(other)
    if other_models.keys() != models.keys():
        return False
    for role, use in models.items():
        address = use.fingerprint.get(ADDRESS, "")
        only_replies = _only_replies(role, other, manifest)
        changed = _difference(other_models[role], use, only_replies=only_replies)
        if changed or _addresses(other, role) - {address}:
            return False
        if other_models[role].answers_by_sample != use.answers_by_sample:
            return False
        if changed_server_fact(_known_facts(other, role), _facts_now(manifest, role)):
            return False
    return True


def _asking(earlier: RunManifest, manifest: RunManifest) -> Iterator[tuple[str, Any, Any]]:
    """What must be the same in all of a run, by the name of its flag: the value that it had, and the present one."""
    if earlier.templates != manifest.templates:
        before_name, now_name = (
            (each.asked[0].templates if each.asked else "") for each in (earlier, manifest)
        )
        is_named = before_name != now_name
        yield (
            "templates",
            (before_name or "as usual") if is_named else earlier.templates[:12],
            (now_name or "as usual") if is_named else manifest.templates[:12],
        )
    yield "prefix", earlier.prefix, manifest.prefix
    before, now = (
        asdict(each.decoding)
        | {"max_new_tokens": each.decoding.max_new_tokens or "the benchmark's"}
        for each in (earlier, manifest)
    )
    yield from ((name.replace("_", "-"), before[name], now[name]) for name in now)


def _join(folder: Path, manifest: RunManifest, *, first: bool, moved: bool) -> RunManifest:
    """Begin a run in `folder`, or go on with the one that is there when it is the same model on the same data.

    Returns the manifest of the whole run. Where it is lost, the journals say who answered.
    """
    if _has_lost_manifest(folder) or not holds_answers(folder):
        for role_model in _models_of(manifest).values():
            check_identity(folder, role_model.model, role_model.fingerprint)
        for path in journals(folder):
            for _ in read_journal(path, manifest.authors):
                pass
        if first:
            write_manifest(folder, manifest)
        return manifest
    earlier = read_manifest(folder)
    played = _models_of(earlier)
    for role, now in _models_of(manifest).items():
        addresses = frozenset[str]() if moved else _addresses(earlier, role)
        _check_same_model(
            folder,
            role,
            played.get(role, now),
            now,
            addresses=addresses,
            only_replies=_only_replies(role, earlier, manifest),
        )
        facts_now = _facts_now(manifest, role)
        changed = changed_server_fact(_known_facts(earlier, role), facts_now)
        if changed and not moved:
            raise StoreError(
                f"{folder} holds answers of {now.identity} from when its server stated something else ({changed}); if "
                "it is the same model, go on with --moved (moved=True), else choose another --name"
            )
    if differences := [
        f"{name} {before}, now {now}"
        for name, before, now in _asking(earlier, manifest)
        if before != now
    ]:
        raise StoreError(
            f"{folder} holds a run with {'; '.join(differences)}; choose another --name"
        )
    if earlier.few_shot != manifest.few_shot:
        raise StoreError(
            f"{folder} holds a run with other examples before its questions; choose another --name"
        )
    for label, words in manifest.words.items():
        if (before := earlier.words.get(label, words)) != words:
            raise StoreError(
                f"{folder}: {label} was asked in the words {before}, now {words}; choose another --name"
            )
    earlier_uses = {use.name: use for use in manifest.benchmarks}
    for use in earlier.benchmarks:
        if use.name in earlier_uses and not use.fits(
            earlier_uses[use.name].version, earlier_uses[use.name].questions
        ):
            raise StoreError(
                f"{folder} was run on version {use.version} of {use.name}, which is now "
                f"{earlier_uses[use.name].version}; choose another --name, which asks all again but what a --cache of "
                "both runs holds, or build that version again from its source as it was"
            )
        if use.name in earlier_uses and use.examples != earlier_uses[use.name].examples:
            raise StoreError(
                f"{folder}: {use.name} was shown other examples; choose another --name"
            )
    asked_by = {use.name: use.protocols or earlier.protocols for use in earlier.benchmarks}
    joined = (
        replace(use, protocols=tuple(dict.fromkeys((*asked_by.get(use.name, ()), *use.protocols))))
        for use in manifest.benchmarks
    )
    grown = replace(
        earlier,
        benchmarks=(*(use for use in earlier.benchmarks if use.name not in earlier_uses), *joined),
        protocols=tuple(dict.fromkeys((*earlier.protocols, *manifest.protocols))),
        asked=tuple(dict.fromkeys((*earlier.asked, *manifest.asked))),
        executed=tuple(dict.fromkeys((*earlier.executed, *manifest.executed))),
        notes=tuple(dict.fromkeys((*earlier.notes, *manifest.notes))),
        answers_by_sample=earlier.answers_by_sample or manifest.answers_by_sample,
        roles={**manifest.roles, **earlier.roles},
        stretches=_continued(earlier.stretches, manifest.stretches),
        words={**manifest.words, **earlier.words},
    )
    if first and grown != earlier:
        write_manifest(folder, grown)
    return grown


def _has_lost_manifest(folder: Path) -> bool:
    """Whether a folder has no manifest, or one that was made from its journals and does not say how it was asked."""
    return not (folder / RUN_MANIFEST).exists() or bool(read_manifest(folder).authors_by_journal)


def _continued(earlier: tuple[Stretch, ...], now: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    """The stretches of a run that goes on: a new one where its models are reached in another way, or a server states
    something new."""
    if not earlier or earlier[-1].models != now[-1].models:
        return (*earlier, *now)
    servers = {**earlier[-1].servers, **now[-1].servers}
    return earlier if servers == earlier[-1].servers else (*earlier, *now)


def _check_same_model(
    folder: Path,
    role: str,
    earlier: RoleModel,
    now: RoleModel,
    *,
    addresses: Collection[str],
    only_replies: bool,
) -> None:
    """Raise StoreError where another model answered in this role, or one of which nobody knows whether it is.

    Args:
        folder: The run's folder.
        role: The role; empty for the evaluated model.
        earlier: The model that answered.
        now: The model at hand.
        addresses: Where the run may be asked; empty for anywhere.
        only_replies: Whether the model replied and replies now, and scores no options.
    """
    check_identity(folder, now.model, now.fingerprint)
    owner = f"with another {role}" if role else "of another model"
    if changed := _difference(earlier, now, only_replies=only_replies):
        raise StoreError(f"{folder} holds a run {owner} ({changed}); {way_out(now.fingerprint)}")
    address = now.fingerprint.get(ADDRESS, "")
    if addresses and address and address not in addresses:
        raise StoreError(
            f"{folder} holds answers of {now.identity} at {' and '.join(sorted(addresses))}, and {address} may have "
            "another model of that name; if it is the same model that has moved, go on with --moved (moved=True), "
            "else choose another --name"
        )


def _difference(earlier: RoleModel, now: RoleModel, *, only_replies: bool) -> str:
    """Return the first difference between two models in words, without their addresses; empty where there is none.

    For `only_replies`, versions of an adapter from which replies are the same do not differ.
    """
    facts_now = _without_address(now.fingerprint)
    known = [_without_address(facts) for facts in (earlier.fingerprint, earlier.left_as)]
    if only_replies:
        facts_now = as_latest_adapter(facts_now)
        known = [as_latest_adapter(facts) for facts in known]
    if facts_now not in known:
        return changed_fact(known[0], facts_now)
    if earlier.identity != now.identity:
        return f"the model was {earlier.identity}, is {now.identity}"
    return ""


def _only_replies(role: str, *manifests: RunManifest) -> bool:
    """Return whether a role's model only replies under the protocols of some runs, and scores no options."""
    if role != EVALUATED:
        return True
    labels = {label for manifest in manifests for label in manifest.protocols}
    try:
        return all(needed_kind(parse_protocol(label)) == "generate" for label in labels)
    except SnellenError:  # a protocol of a package that is not installed now
        return False


def _without_address(fingerprint: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in fingerprint.items() if name != ADDRESS}


def _addresses(manifest: RunManifest, role: str) -> frozenset[str]:
    """Return where a role's model was asked. Runs of earlier versions have it in their model strings alone."""
    models = [stretch.models[role] for stretch in manifest.stretches if role in stretch.models]
    use = _models_of(manifest).get(role)
    addresses = {address_of(model) for model in models}
    if use is not None:
        addresses.add(use.fingerprint.get(ADDRESS, ""))
    return frozenset(addresses - {""})


def _facts_now(manifest: RunManifest, role: str) -> ServerFacts:
    return manifest.stretches[-1].servers.get(role, {})


def _known_facts(manifest: RunManifest, role: str) -> dict[str, set[str]]:
    """Return what the servers of a role's model stated in any session: by fact, all values."""
    known: dict[str, set[str]] = defaultdict(set)
    for stretch in manifest.stretches:
        for name, text in stretch.servers.get(role, {}).items():
            known[name].add(text)
    return known


# --- the automatic folder of a run ------------------------------------------------------------------------------------


def choose_folder(
    plan: RunPlan, model: Model | AsyncModel, roles: Roles, announce: Announce
) -> RunPlan:
    """Return the plan with a folder that holds no other model's answers, where the folder was named automatically.

    The name of a run says what is asked of which model string. A checkpoint that was trained on and a class that was
    edited have the same string, so all but the first get a digest of their fingerprint behind that name, and a line
    says which is which.
    """
    folder = plan.folder
    if not plan.has_automatic_name or _has_lost_manifest(folder) or not holds_answers(folder):
        return plan
    earlier = read_manifest(folder)
    current = manifest_of(model, plan, roles)
    models = _models_of(current)
    if any(why_not_fingerprinted(now.fingerprint) for now in models.values()):
        return plan
    changed = ""
    played = _models_of(earlier)
    for role, now in models.items():
        only_replies = _only_replies(role, earlier, current)
        difference = _difference(played.get(role, now), now, only_replies=only_replies)
        changed = changed or difference
    if not changed:
        return plan
    own_plan = with_name_by_fingerprint(plan, model, roles)
    announce(
        f"{folder} holds answers of {earlier.model} from before it changed ({changed}); those of now are in "
        f"{own_plan.folder}"
    )
    return own_plan


def with_name_by_fingerprint(
    plan: RunPlan, model: Model | AsyncModel, roles: Roles = NO_ROLES
) -> RunPlan:
    """Return the plan with a digest of its models' fingerprints behind the name of its run."""
    facts = {EVALUATED: identity_of(model).fingerprint}
    facts |= {role: identity_of(played).fingerprint for role, played in roles.items()}
    own = digest(msgspec.json.encode(facts, order="sorted").decode())
    return replace(plan, spec=plan.spec.with_execution(name=f"{plan.execution.name}-{own}"))


# --- samples that are finished: passed over when a run goes on -----------------------------------------------------


ONE_IN = 200
"""One in so many of the samples that seem finished is checked all the same."""


def unfinished_items(
    items: Iterator[SampleItem], store: RunStore, progress: ProgressCallback
) -> Iterator[SampleItem]:
    """The items for which something may be left to ask; `progress` is told of the others.

    An item is finished when its protocol promises how many presentations it asks, whatever is replied, and as many are
    answered. The first such item of a benchmark and protocol, and one in `ONE_IN` of the others, are asked for their
    requests all the same: if one is not in the store, as after a change of the words, none of that benchmark and
    protocol is passed over any more.
    """
    counts: dict[tuple[str, str], int] = {}
    changed: set[tuple[str, str]] = set()
    for item in items:
        kind = item.sample.benchmark, item.label
        if kind in changed or not _seems_finished(item, store):
            yield item
            continue
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] % ONE_IN == 1 and not all(
            store.knows(item.label, request) for request in next(item.start(), ())
        ):
            changed.add(kind)
            yield item
            continue
        progress(ProgressUpdate(questions=questions_of(item)))


def _seems_finished(item: SampleItem, store: RunStore) -> bool:
    declared = declaration_of(item.protocol)
    if (
        declared.presentations is None
        or declared.stops_early
        or declared.baselines
        or declared.conclude
    ):
        return False
    promised = declared.n_presentations(item.sample) * len(item.sample.rounds)
    return store.presentations_of(item.label, item.sample) >= promised


# --- samples that make the same request although their answers differ -------------------------------------------------
# The build has said which questions nothing tells apart (`Benchmark.indistinguishable`), without their answers; here
# the requests of those samples are made, and compared by what the model would see.


SHOWN = 3
"""Samples that are named as examples."""
Asking = dict[tuple[str, int, str], dict[str, int]]
"""(protocol, group, key of a request) -> the samples that make it, each with the kind of its answer in the group."""


def check_same_requests(model: Model | AsyncModel, plan: RunPlan) -> tuple[str, ...]:
    """What a reader of the run's numbers has to know about requests that samples with different answers share.

    Raises DataError where there are any, unless the plan allows them, the benchmark's entry declares them, or the model
    answers by sample.
    """
    if answers_by_sample(model):
        return ()
    sharing = {
        use.benchmark.name: samples for use in plan.benchmarks if (samples := _sharing(use, plan))
    }
    refused = {
        use.benchmark.name: sharing[use.benchmark.name]
        for use in plan.benchmarks
        if use.benchmark.name in sharing
        and not (plan.execution.allow_same_requests or use.benchmark.spec.same_requests)
    }
    if refused:
        examples = "; ".join(
            f"{name}: {len(samples):,} samples, e.g. {', '.join(samples[:SHOWN])}"
            for name, samples in refused.items()
        )
        first = as_word(next(iter(refused)))
        raise DataError(
            f"samples with different answers make the same request, so one reply would serve all ({examples}); build "
            f"from files that tell them apart (`snellen lint {first}`), or ask with --allow-same-requests "
            "(allow_same_requests=True)"
        )
    return tuple(
        f"{name}: {len(samples):,} samples share replies with others that have another answer"
        for name, samples in sharing.items()
    )


def _sharing(selected: SelectedBenchmark, plan: RunPlan) -> list[str]:
    """The samples of a benchmark that make a request which one with another answer makes too, under any protocol."""
    if not selected.benchmark.manifest.indistinguishable:
        return []
    questions: dict[str, list[IndistinguishableQuestion]] = defaultdict(list)
    for question in selected.benchmark.indistinguishable():
        questions[question.sample_id].append(question)
    asking: Asking = defaultdict(dict)
    # All workers' samples, and all rounds': those without a picture may be asked by different ones.
    everything = SelectedBenchmark(selected.benchmark, replace(selected.selection, part=None))
    everybody = replace(plan, benchmarks=(everything,), spec=plan.spec.with_execution(workers=1))
    for item in work_items(everybody):
        if alike := questions.get(item.sample.id):
            for key in {request.key for request in next(item.start())}:
                for question in alike:
                    asking[item.label, question.group, key][item.sample.id] = question.kind
    shared = (samples for samples in asking.values() if len(set(samples.values())) > 1)
    return list(dict.fromkeys(chain.from_iterable(shared)))


# --- rounds -----------------------------------------------------------------------------------------------------------


FIRST_PICTURES = 16
"""How many pictures of each benchmark are asked in the first round."""
GROWTH = 1.25
"""By how much each round grows: few requests too many are asked, and scoring stays cheap."""
GROWTH_OF_WORKERS = 2.0
"""The same where each round starts processes that load the model."""


def no_parts(plan: RunPlan, rules: Mapping[str, str]) -> dict[str, RandomPart]:
    """For each benchmark of a plan the part without any picture; `rules` say by name what will stop it."""
    return {
        use.benchmark.name: use.benchmark.random_part(
            use.selection, plan.question.seed, rules[use.benchmark.name]
        )
        for use in plan.benchmarks
    }


def grown_part(part: RandomPart, *, reloads: bool) -> RandomPart:
    """The part of the next round; `reloads` says whether that loads the model again."""
    growth = GROWTH_OF_WORKERS if reloads else GROWTH
    return replace(
        part,
        pictures=min(
            part.of, max(part.pictures + FIRST_PICTURES, math.ceil(part.pictures * growth))
        ),
    )


def next_parts(
    parts: Mapping[str, RandomPart], open_benchmarks: Sequence[str], *, reloads: bool
) -> dict[str, RandomPart]:
    """The parts of the next round: more of the benchmarks of which not enough is known."""
    return {
        name: grown_part(part, reloads=reloads) if name in open_benchmarks else part
        for name, part in parts.items()
    }


def summed_outcome(rounds: Sequence[RunOutcome]) -> RunOutcome:
    """What the rounds or the workers of one session did together."""
    answered, failed, reasons = Counter[str](), Counter[str](), Counter[str]()
    for outcome in rounds:
        answered.update(outcome.answered)
        failed.update(outcome.failed)
        reasons.update(outcome.reasons)
    findings = tuple(dict.fromkeys(finding for outcome in rounds for finding in outcome.findings))
    return replace(
        rounds[-1],
        answered=dict(answered),
        failed=dict(failed),
        findings=findings,
        reasons=dict(reasons),
        spent=next((outcome.spent for outcome in rounds if outcome.spent), ""),
        paid=sum(outcome.paid for outcome in rounds),
        sent=sum(outcome.sent for outcome in rounds),
    )
