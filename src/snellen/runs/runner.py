"""Run a model on benchmarks under protocols, and store its replies in the folder of a run.

Correct answers are not read here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.paths import expanded
from snellen.errors import ModelError
from snellen.models.base import AsyncModel, HasFindings, Model, NeedsBenchmarks
from snellen.models.identity import identity_of
from snellen.models.object_digest import is_of_content, why_not_fingerprinted
from snellen.protocols.base import needed_kind
from snellen.records import EVALUATED
from snellen.runs.batch_checks import check_batches
from snellen.runs.drivers import ProgressCallback, ProgressUpdate, RunBudget
from snellen.runs.driving import NO_ROLES, Roles, drive_model
from snellen.runs.failed_starts import removed_if_unanswered
from snellen.runs.locks import locked_run
from snellen.runs.making_manifest import manifest_of, with_servers
from snellen.runs.own_questions import questions_folder, save_questions
from snellen.runs.plan import RunPlan, check_roles, image_limits
from snellen.runs.resuming import begin_or_resume
from snellen.runs.run_folder import RunManifest, read_manifest, write_manifest
from snellen.runs.run_models import has_same_models, known_server_facts, models_of, with_model
from snellen.runs.run_name import digest
from snellen.runs.run_store import RunStore
from snellen.runs.same_requests import check_same_requests
from snellen.runs.server_checks import changed_server_fact, query_servers
from snellen.runs.unfinished import unfinished_items
from snellen.runs.withdrawn import resume_withdrawn, withdraw, withdrawn_path
from snellen.runs.work_items import work_items

if TYPE_CHECKING:
    from snellen.runs.earlier_answers import AnswerCache


logger = logging.getLogger("snellen")


class RunOutcome(Struct, frozen=True):
    """What one session of a run did.

    Examples:
        >>> outcome = RunOutcome(Path("runs/a"), answered={"": 40}, failed={"": 2})
        >>> outcome.answered[""]
        40
    """

    folder: Path
    answered: dict[str, int]
    """Different requests with a reply, by role; the role of the evaluated model is ''."""
    failed: dict[str, int]
    """Different requests without a reply, by role."""
    findings: tuple[str, ...] = ()
    """What the models found when they checked their own replies."""
    reasons: dict[str, int] = {}
    """Failed requests by reason."""
    exhausted_budget: str = ""
    """The budget that ended this session early; empty if none did."""
    paid: float = 0.0
    """Cost of the replies with a known price."""
    sent: int = 0
    """Requests sent, each as often as it was sent."""
    stored: dict[str, int] = {}
    """Different requests with a reply from earlier sessions of the run, by role."""


def run_plan(
    model: Model | AsyncModel,
    plan: RunPlan,
    progress: ProgressCallback = lambda update: None,
    roles: Roles = NO_ROLES,
) -> RunOutcome:
    """Run a plan: send all requests that have no reply yet, and store the replies. The same call resumes an earlier run.

    Args:
        model: The evaluated model.
        plan: The benchmarks and protocols to run, and the folder for the replies.
        progress: Receives an update for each finished question.
        roles: The other models that the protocols need, by role.

    Raises:
        StoreError: The folder belongs to another run, or is in use.
        ModelError: A model cannot do what a protocol needs.
        DataError: Samples with different answers would share a reply, or a role has no model.
    """
    check_model_kinds(model, plan, roles)
    batch_notes = check_batches({EVALUATED: model, **roles}, plan)
    notes = (*check_same_requests(model, plan), *image_limits(plan), *batch_notes)
    current = replace(manifest_of(model, plan, roles), notes=notes)
    if plan.execution.workers > 1:
        # The process that started the workers holds the folder, and notes what all of them found.
        return _run_session(model, plan, current, progress, roles)
    with locked_run(plan.folder), removed_if_unanswered(plan.folder):
        outcome = _run_session(model, plan, current, progress, roles)
        note_findings(outcome)
        return outcome


def check_model_kinds(model: Model | AsyncModel, plan: RunPlan, roles: Roles = NO_ROLES) -> None:
    """Check that the models support the kinds of requests that a plan sends.

    Raises:
        ModelError: A protocol needs a kind that the evaluated model does not support, or a model with a role cannot
            reply.
        DataError: A role has no model.
    """
    check_roles(plan, roles)
    for role, role_model in roles.items():
        if "generate" not in role_model.kinds:
            raise ModelError(
                f"{role_model.name} only scores options, but the role {role} needs replies; use another model"
            )
    protocols = set()
    for selected in plan.benchmarks:
        protocols.update(plan.protocols_of(selected.benchmark.spec))
    for protocol in protocols:
        kind = needed_kind(protocol)
        if kind in model.kinds:
            continue
        if kind == "generate":
            raise ModelError(
                f"{model.name} only scores options, but {protocol.label} needs replies; use likelihood"
            )
        raise ModelError(
            f"{model.name} does not provide log-likelihoods, which {protocol.label} needs; remove that protocol, "
            "or load the model with hf:"
        )


def _run_session(
    model: Model | AsyncModel,
    plan: RunPlan,
    current: RunManifest,
    progress: ProgressCallback,
    roles: Roles,
) -> RunOutcome:
    """Send all requests of a plan that have no reply yet, and store the replies in the run's folder.

    A model may withdraw some of its replies, because it found that they may be wrong. Then these requests are sent again.

    Args:
        model: The evaluated model.
        plan: The benchmarks and protocols to run, and the budget.
        current: The manifest of this session. It is compared with that of the run if the run is resumed.
        progress: Called after each reply.
        roles: Models in other roles, such as judges.

    Returns:
        How many requests were answered and how many failed, what they cost, and what the models found when they
        checked their own replies.
    """
    folder = plan.folder
    models: Roles = {EVALUATED: model, **roles}
    # Before the first request, so that the run has no reply of another model if it cannot be resumed.
    current = with_servers(current, query_servers(models))
    for each in models.values():
        if isinstance(each, NeedsBenchmarks):
            each.prepare([use.benchmark.folder for use in plan.benchmarks])
    is_first_worker = plan.worker == 0
    merged = begin_or_resume(folder, current, writes=is_first_worker, moved=plan.execution.moved)
    if is_first_worker:
        for use in plan.benchmarks:
            own_folder = questions_folder(folder, use.benchmark.name)
            save_questions(use.benchmark, use.selection, own_folder)

    budget = RunBudget(plan.execution, plan.worker, plan.budget_used)
    requests = _MissingRequests(model, roles, plan, current, merged, budget)
    withdrawn_earlier = resume_withdrawn(folder, plan.worker, models)
    try:
        outcome = requests.send(progress, withdrawn_earlier)
    finally:  # also if it is interrupted, so that a resumed run repeats these requests
        withdrawn_keys = withdraw(folder, plan.worker, models)
    if withdrawn_keys and not budget.exhausted_by:
        logger.warning(
            "spot checks found that some answers may be wrong; %s are asked again one row at a time",
            f"{len(withdrawn_keys):,}",
        )
        repeated = requests.send(_without_questions(progress), withdrawn_keys)
        outcome = _with_repeated(outcome, repeated)
    if not budget.exhausted_by:
        withdrawn_path(folder, plan.worker).unlink(missing_ok=True)

    # A model with several roles reports the same findings in each.
    findings: dict[str, None] = {}
    for each in models.values():
        if isinstance(each, HasFindings):
            findings.update(dict.fromkeys(each.findings()))
    if outcome.sent:
        changes = _server_changes(plan, current, merged, models)
        findings.update(dict.fromkeys(changes))
    return replace(outcome, findings=tuple(findings))


class _MissingRequests(NamedTuple):
    """The requests of a plan that have no reply yet."""

    model: Model | AsyncModel
    roles: Roles
    plan: RunPlan
    current: RunManifest
    """The manifest of this session."""
    merged: RunManifest
    """The manifest of the run, with its earlier sessions."""
    budget: RunBudget

    def send(self, progress: ProgressCallback, repeated_keys: frozenset[str]) -> RunOutcome:
        """Send the requests, and store the replies in the run's folder.

        Args:
            progress: Called after each reply.
            repeated_keys: Keys of requests that are also sent although they have a reply.
        """
        plan = self.plan
        earlier_runs = [run for run in plan.reusable_runs if has_same_models(run, self.current)]
        with RunStore(
            plan.folder,
            plan.worker,
            by_sample=self.current.by_sample,
            authors=self.merged.authors,
            earlier_runs=earlier_runs,
            cache=_answer_cache(plan, self.current),
            asked_again=repeated_keys,
        ) as store:
            try:
                drive_model(
                    self.model,
                    unfinished_items(work_items(plan), store, progress),
                    store,
                    roles=self.roles,
                    window=plan.execution.window,
                    budget=self.budget,
                    progress=progress,
                    waits=plan.execution.wait,
                )
            finally:
                fingerprints = [each.fingerprint for each in models_of(self.current).values()]
                if any(is_of_content(fingerprint) for fingerprint in fingerprints):
                    models = {EVALUATED: self.model, **self.roles}
                    _record_changed_objects(plan.folder, models)
            return RunOutcome(
                plan.folder,
                dict(store.answered),
                dict(store.failed),
                reasons=dict(store.reasons),
                exhausted_budget=self.budget.exhausted_by,
                paid=self.budget.paid,
                sent=store.sent,
                stored=dict(store.stored),
            )


def _with_repeated(first: RunOutcome, repeated: RunOutcome) -> RunOutcome:
    """Return the outcome of a session that sent some of its requests twice.

    The repeated requests were answered before, so they count as answered once. Failures and requests sent add up. The
    budget covers both, so `repeated` has the total that was paid.
    """
    failed = Counter(first.failed) + Counter(repeated.failed)
    reasons = Counter(first.reasons) + Counter(repeated.reasons)
    return replace(
        repeated,
        answered=first.answered,
        failed=dict(failed),
        reasons=dict(reasons),
        sent=first.sent + repeated.sent,
        stored=first.stored,
    )


def _without_questions(progress: ProgressCallback) -> ProgressCallback:
    """Return a callback that reports requests, but no finished questions, because they were reported before."""

    def report(update: ProgressUpdate) -> None:
        progress(replace(update, questions=0))

    return report


def _record_changed_objects(folder: Path, models: Roles) -> None:
    """Store the fingerprints that models have after a session in the manifest of the run.

    Only models that are Python objects are considered. Replying may change their attributes, for example a counter.
    Without this record, a later session with the same object would be rejected as one with another model.

    Args:
        folder: The folder of the run.
        models: The models by role.
    """
    manifest = read_manifest(folder)
    updated = manifest
    for role, model in models_of(manifest).items():
        if role not in models or not is_of_content(model.fingerprint):
            continue
        fingerprint = identity_of(models[role]).fingerprint
        if fingerprint not in (model.fingerprint, model.fingerprint_after_session):
            updated = with_model(
                updated, role, replace(model, fingerprint_after_session=fingerprint)
            )
    if updated != manifest:
        write_manifest(folder, updated)


def _server_changes(
    plan: RunPlan, current: RunManifest, merged: RunManifest, models: Roles
) -> list[str]:
    """Query the servers again after the last reply, and return a sentence for each that now states something else.

    Facts of servers that did not answer at the beginning, for example because they were still loading, are added to
    the stored manifest. Only the first of several workers writes it, because it may not exist yet when another one
    finishes.

    Args:
        plan: The plan of the run.
        current: The manifest of this session, with the facts that servers stated at its beginning.
        merged: The manifest of all sessions, with the facts of earlier ones.
        models: The models by role.
    """
    facts_at_end = query_servers(models)
    sentences = []
    for role, facts in facts_at_end.items():
        change = changed_server_fact(known_server_facts(merged, role), facts)
        if change:
            sentences.append(
                f"the server of {models[role].name} may have changed its model during the run: {change}; replies "
                "of this session may come from either model"
            )
    facts_at_beginning = current.sessions[-1].servers
    new_facts = {}
    for role, facts in facts_at_end.items():
        if role not in facts_at_beginning:
            new_facts[role] = facts
    if new_facts and plan.worker == 0 and not sentences:
        stored = read_manifest(plan.folder)
        servers = {**stored.sessions[-1].servers, **new_facts}
        write_manifest(plan.folder, with_servers(stored, servers))
    return sentences


def _answer_cache(plan: RunPlan, manifest: RunManifest) -> AnswerCache | None:
    """Open the cache that a run shares with other runs, or return None if the user named none.

    Replies of models without a fingerprint are not cached, because such a model may change without notice. Neither are
    those of models that look up the sample.

    Args:
        plan: The plan of the run.
        manifest: The manifest of the present session.
    """
    if not plan.execution.cache:
        return None
    from snellen.runs.earlier_answers import AnswerCache

    servers = manifest.sessions[-1].servers
    authors: dict[str, str] = {}
    facts_by_author = {}
    for role, model in models_of(manifest).items():
        if why_not_fingerprinted(model.fingerprint) or model.answers_by_sample:
            continue
        fingerprint = msgspec.json.encode(model.fingerprint, order="sorted").decode()
        author = digest(model.identity, fingerprint)
        authors[role] = author
        if role in servers:
            facts_by_author[author] = servers[role]
    return AnswerCache(
        expanded(plan.execution.cache),
        authors,
        facts_by_author,
        moved=plan.execution.moved,
    )


def note_findings(outcome: RunOutcome) -> None:
    """Add the findings of a session to the notes of its run; the notes of earlier sessions stay."""
    if not outcome.findings:
        return
    manifest = read_manifest(outcome.folder)
    notes = (*manifest.notes, *outcome.findings)
    write_manifest(outcome.folder, replace(manifest, notes=notes))


def summed_outcome(outcomes: Sequence[RunOutcome]) -> RunOutcome:
    """Return the outcome of one session from those of its rounds, or of its workers."""
    answered = Counter[str]()
    failed = Counter[str]()
    reasons = Counter[str]()
    findings: dict[str, None] = {}
    spent = ""
    for outcome in outcomes:
        answered.update(outcome.answered)
        failed.update(outcome.failed)
        reasons.update(outcome.reasons)
        findings.update(dict.fromkeys(outcome.findings))
        spent = spent or outcome.exhausted_budget
    return replace(
        outcomes[-1],
        answered=dict(answered),
        failed=dict(failed),
        findings=tuple(findings),
        reasons=dict(reasons),
        exhausted_budget=spent,
        paid=sum(outcome.paid for outcome in outcomes),
        sent=sum(outcome.sent for outcome in outcomes),
        stored=outcomes[0].stored,
    )
