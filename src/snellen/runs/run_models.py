"""The models of a run by role, and whether its stored replies are those of the models that are loaded now.

A model is recognised by its fingerprint, its address and what its server states, never by its name alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec.structs import replace

from snellen.callers import for_caller, setting
from snellen.errors import SnellenError, StoreError
from snellen.models.identity import ADDRESS, address_of, as_current_scoring, as_latest_adapter
from snellen.models.object_digest import why_not_fingerprinted
from snellen.protocols.base import needed_kind, parse_protocol
from snellen.records import EVALUATED
from snellen.runs.run_folder import RoleModel, RunManifest, holds_answers, read_manifest
from snellen.runs.server_checks import ServerFacts, changed_server_fact
from snellen.runs.unchanged_models import changed_fact, check_identity, suggest_fix


def models_of(manifest: RunManifest) -> dict[str, RoleModel]:
    """Return all models of a run by role, the evaluated one first."""
    evaluated = RoleModel(
        manifest.model,
        manifest.fingerprint,
        manifest.fingerprint_after_session,
        manifest.answers_by_sample,
    )
    return {EVALUATED: evaluated, **manifest.roles}


def with_model(manifest: RunManifest, role: str, model: RoleModel) -> RunManifest:
    """Return the manifest of a run with the fingerprint that the model of a role has after the present session.

    Args:
        manifest: The manifest.
        role: The role of the model.
        model: The model with this fingerprint.
    """
    if role == EVALUATED:
        return replace(manifest, fingerprint_after_session=model.fingerprint_after_session)
    return replace(manifest, roles={**manifest.roles, role: model})


def model_difference(earlier: RoleModel, now: RoleModel, *, only_replies: bool) -> str:
    """Describe the first difference between the model of an earlier session and the present one, apart from the address.

    Args:
        earlier: The earlier model.
        now: The present model.
        only_replies: Whether the model only generates replies, and scores no options. Versions of an adapter that give
            the same replies are then equal.

    Returns:
        The description, such as `dtype was float32, is bfloat16`; empty if they are the same model.
    """
    present = _compared(now.fingerprint)
    before_replies = _compared(earlier.fingerprint)
    after_replies = _compared(earlier.fingerprint_after_session)
    if only_replies:
        present = as_latest_adapter(present)
        before_replies = as_latest_adapter(before_replies)
        after_replies = as_latest_adapter(after_replies)
    if present not in (before_replies, after_replies):
        return changed_fact(before_replies, present)
    if earlier.identity != now.identity:
        return f"the model was {earlier.identity}, is {now.identity}"
    return ""


def _compared(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that must be equal if two sessions used the same model: all except its address."""
    facts = as_current_scoring(fingerprint)
    facts.pop(ADDRESS, None)
    return facts


def only_replies(role: str, *manifests: RunManifest) -> bool:
    """Return whether the model of a role only generated replies in these runs, and scored no options."""
    if role != EVALUATED:
        return True
    try:
        for manifest in manifests:
            for label in manifest.protocols:
                if needed_kind(parse_protocol(label)) != "generate":
                    return False
        return True
    except SnellenError:  # a protocol of a package that is not installed now
        return False


def addresses_of(manifest: RunManifest, role: str) -> frozenset[str]:
    """Return the addresses at which the model of a role was reached in any session of a run."""
    addresses = set()
    for session in manifest.sessions:
        if role in session.models:
            addresses.add(address_of(session.models[role]))
    model = models_of(manifest).get(role)
    if model is not None:
        addresses.add(model.fingerprint.get(ADDRESS, ""))
    return frozenset(addresses - {""})


def server_facts_now(manifest: RunManifest, role: str) -> ServerFacts:
    """Return the facts that the servers of a role's model stated about it in the last session."""
    return manifest.sessions[-1].servers.get(role, {})


def known_server_facts(manifest: RunManifest, role: str) -> dict[str, set[str]]:
    """Return the facts that the servers of a model stated about it, such as a version, in all sessions of a run.

    Args:
        manifest: The manifest of the run.
        role: The role of the model.

    Returns:
        By the name of a fact, all values that were stated.
    """
    values: dict[str, set[str]] = defaultdict(set)
    for session in manifest.sessions:
        for name, text in session.servers.get(role, {}).items():
            values[name].add(text)
    return values


def check_same_models(
    folder: Path, earlier: RunManifest, current: RunManifest, *, moved: bool
) -> None:
    """Check that the models that are loaded now are those of a stored run.

    Args:
        folder: The folder of the run.
        earlier: The stored manifest.
        current: The manifest of the present session.
        moved: Whether the user says that the models are the same at another address or server.

    Raises:
        StoreError: A model differs, or may differ.
    """
    earlier_models = models_of(earlier)
    accept_changes = for_caller("--moved (moved=True)", "moved=True")
    for role, model in models_of(current).items():
        accepted_addresses = frozenset() if moved else addresses_of(earlier, role)
        _check_same_model(
            folder,
            role,
            earlier_models.get(role, model),
            model,
            addresses=accepted_addresses,
            only_replies=only_replies(role, earlier, current),
        )
        if moved:
            continue
        earlier_facts = known_server_facts(earlier, role)
        change = changed_server_fact(earlier_facts, server_facts_now(current, role))
        if change:
            raise StoreError(
                f"{folder} contains replies of {model.identity} from before its server changed what it reports "
                f"({change}); if it is the same model, add {accept_changes}, otherwise choose another "
                f"{setting('name')}"
            )


def _check_same_model(
    folder: Path,
    role: str,
    earlier: RoleModel,
    now: RoleModel,
    *,
    addresses: Collection[str],
    only_replies: bool,
) -> None:
    """Check that the model of a role is the same as in the earlier sessions of a run.

    Args:
        folder: The folder of the run.
        role: The role of the model; empty for the evaluated model.
        earlier: The model of the earlier sessions.
        now: The present model.
        addresses: The addresses at which it was reached before; empty if any address is accepted.
        only_replies: Whether to compare only what changes the replies of a model.

    Raises:
        StoreError: It is another model, or may be another one because it has a new address.
    """
    check_identity(folder, now.model, now.fingerprint)
    difference = model_difference(earlier, now, only_replies=only_replies)
    if difference:
        owner = f"with another {role}" if role else "of another model"
        raise StoreError(
            f"{folder} contains a run {owner} ({difference}); {suggest_fix(now.fingerprint)}"
        )
    address = now.fingerprint.get(ADDRESS, "")
    if addresses and address and address not in addresses:
        raise StoreError(
            f"{folder} contains replies of {now.identity} at {' and '.join(sorted(addresses))}, and {address} may "
            "serve another model with that name; if it is the same model at a new address, add "
            f"{for_caller('--moved (moved=True)', 'moved=True')}, otherwise choose another {setting('name')}"
        )


def has_same_models(folder: Path, manifest: RunManifest) -> bool:
    """Return whether the replies of another run are certainly from the models of this run, so that it can use them.

    Args:
        folder: The folder of the other run.
        manifest: The manifest of this run.
    """
    models = models_of(manifest)
    if not holds_answers(folder):
        return False
    for model in models.values():
        if why_not_fingerprinted(model.fingerprint):
            return False
    other_manifest = read_manifest(folder)
    other_models = models_of(other_manifest)
    if other_models.keys() != models.keys():
        return False
    for role, model in models.items():
        other_model = other_models[role]
        gives_only_replies = only_replies(role, other_manifest, manifest)
        if model_difference(other_model, model, only_replies=gives_only_replies):
            return False
        if other_model.answers_by_sample != model.answers_by_sample:
            return False
        address = model.fingerprint.get(ADDRESS, "")
        other_addresses = addresses_of(other_manifest, role) - {address}
        if other_addresses:
            return False
        other_facts = known_server_facts(other_manifest, role)
        if changed_server_fact(other_facts, server_facts_now(manifest, role)):
            return False
    return True
