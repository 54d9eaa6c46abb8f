"""The models of a run by role, and whether stored replies are those of the model at hand.

A model is recognised by its fingerprint, its address and what its server states, never by its name alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec.structs import replace

from snellen.callers import for_caller, setting
from snellen.errors import SnellenError, StoreError
from snellen.models.identity import ADDRESS, address_of, as_latest_adapter
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
    """Return the manifest with another state of the model of a role."""
    if role == EVALUATED:
        return replace(manifest, fingerprint_after_session=model.fingerprint_after_session)
    return replace(manifest, roles={**manifest.roles, role: model})


def model_difference(earlier: RoleModel, now: RoleModel, *, only_replies: bool) -> str:
    """Describe the first difference between the model of an earlier session and the present one, apart from the address.

    Args:
        earlier: The earlier model.
        now: The present model.
        only_replies: Whether to ignore versions of an adapter that give the same replies.

    Returns:
        The description; empty if they are the same model.
    """
    facts_now = _without_address(now.fingerprint)
    known_facts = [
        _without_address(facts)
        for facts in (earlier.fingerprint, earlier.fingerprint_after_session)
    ]
    if only_replies:
        facts_now = as_latest_adapter(facts_now)
        known_facts = [as_latest_adapter(facts) for facts in known_facts]
    if facts_now not in known_facts:
        return changed_fact(known_facts[0], facts_now)
    if earlier.identity != now.identity:
        return f"the model was {earlier.identity}, is {now.identity}"
    return ""


def _without_address(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return a fingerprint without the address at which the model is reached."""
    facts = dict(fingerprint)
    facts.pop(ADDRESS, None)
    return facts


def only_replies(role: str, *manifests: RunManifest) -> bool:
    """Return whether the model of a role only replies in these runs, and scores no options."""
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
    """Return what the servers of a role's model stated in the last session."""
    return manifest.sessions[-1].servers.get(role, {})


def known_server_facts(manifest: RunManifest, role: str) -> dict[str, set[str]]:
    """Return what the servers of a model said about themselves, such as a version, in all sessions of a run.

    Args:
        manifest: The manifest of the run.
        role: The role of the model.

    Returns:
        By the name of a fact, all values that were seen.
    """
    values: dict[str, set[str]] = defaultdict(set)
    for session in manifest.sessions:
        for name, text in session.servers.get(role, {}).items():
            values[name].add(text)
    return values


def check_same_models(
    folder: Path, earlier: RunManifest, current: RunManifest, *, moved: bool
) -> None:
    """Check that the models at hand are those of a stored run.

    Args:
        folder: The folder of the run.
        earlier: The stored manifest.
        current: The manifest of the present session.
        moved: Whether the user says that the models are the same at another address or server.

    Raises:
        StoreError: A model differs, or may differ.
    """
    earlier_models = models_of(earlier)
    for role, model in models_of(current).items():
        _check_same_model(
            folder,
            role,
            earlier_models.get(role, model),
            model,
            addresses=frozenset() if moved else addresses_of(earlier, role),
            only_replies=only_replies(role, earlier, current),
        )
        changed = changed_server_fact(
            known_server_facts(earlier, role), server_facts_now(current, role)
        )
        if changed and not moved:
            raise StoreError(
                f"{folder} contains replies of {model.identity} from before its server changed what it reports "
                f"({changed}); if it is the same model, add "
                f"{for_caller('--moved (moved=True)', 'moved=True')}, otherwise choose another {setting('name')}"
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
    """Return whether the replies in another run's folder are certainly those of the models of this run."""
    models = models_of(manifest)
    if not holds_answers(folder):
        return False
    if any(why_not_fingerprinted(model.fingerprint) for model in models.values()):
        return False
    other = read_manifest(folder)
    other_models = models_of(other)
    if other_models.keys() != models.keys():
        return False
    for role, model in models.items():
        other_model = other_models[role]
        if model_difference(other_model, model, only_replies=only_replies(role, other, manifest)):
            return False
        if other_model.answers_by_sample != model.answers_by_sample:
            return False
        address = model.fingerprint.get(ADDRESS, "")
        if addresses_of(other, role) - {address}:
            return False
        known_facts = known_server_facts(other, role)
        if changed_server_fact(known_facts, server_facts_now(manifest, role)):
            return False
    return True
