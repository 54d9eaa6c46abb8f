"""Identify the model that gave a reply: by its name, and by the facts that its replies depend on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from snellen import registry
from snellen.models.base import AsyncModel, Model
from snellen.models.model_strings import parse_spec

ADDRESS = "address"
"""Fact of a fingerprint: the hosts of a model's servers.

Two servers may call different models by the same name, so a run resumes at another address only if the user says that
the model has moved there.
"""
ADAPTER_FACT = "adapter"
"""Fact of a fingerprint: the version of the code that sends the requests."""
ADAPTERS_OF_SAME_REPLIES: tuple[tuple[str, ...], ...] = (("openai-2", "openai-1"),)
"""Versions of an adapter that send the same requests for replies, the latest first; they differ in scoring options."""

SCORING_FACT = "scoring"
"""Fact of a fingerprint of `hf:` models: how options are scored and replies written."""
EARLIER_DETAILS = (", one forward", ", features kept", ", trunks kept", ", one group at a time")
"""Parts of the names that ways of scoring had until December 2026.

Scores by the ways that took their place differ by rounding alone, since all are held to the same reference.
"""


class ModelIdentity(Struct, frozen=True):
    """The model that gave a reply."""

    name: str
    """The model string without address, timeouts and retries (`identifying_string`)."""
    fingerprint: dict[str, str]
    """Everything that replies depend on."""


def identity_of(model: Model | AsyncModel) -> ModelIdentity:
    """Return the name of a model and its fingerprint, the facts that its replies depend on (such as a revision).

    Examples:
        >>> identity_of(sn.load_model("snellen:oracle")).name
        'snellen:oracle'
    """
    fingerprint: dict[str, str] = {}
    for fact, value in model.fingerprint().items():
        # A version may be an instance of a subclass of str, as torch's is; joining makes it a plain str.
        fingerprint[fact] = "".join(value)
    return ModelIdentity(identifying_string(model.name), fingerprint)


def identifying_string(name: str) -> str:
    """Return a model string without the parts that replies do not depend on, such as address and retries.

    Two model strings with the same result name the same model. Which parts are left out is declared
    for each scheme (registry group `model_identities`). The strings of other schemes are returned
    unchanged.
    """
    scheme, colon, _ = name.partition(":")
    if not colon or scheme not in registry.targets("model_identities"):
        return name
    identity: str = registry.find_registered("model_identities", scheme)(parse_spec(name))
    return identity


def address_of(name: str) -> str:
    """Return the hosts in a model string, sorted and joined: `HOST:PORT,HOST:PORT`. Empty if it has none."""
    body, _, _ = name.partition("?")
    _, _, target = body.partition(":")
    _, _, urls = target.partition("@")
    if not urls.startswith(("http://", "https://")):
        return ""
    return hosts_of(re.split(r",(?=https?://)", urls))


def hosts_of(urls: Iterable[str]) -> str:
    """Return the distinct hosts of URLs, sorted and joined by commas."""
    hosts = {urlsplit(url).netloc.lower() for url in urls}
    return ",".join(sorted(hosts))


def as_latest_adapter(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return a fingerprint with the latest version of its adapter, if that version gives the same replies.

    An adapter is Snellen's code for a kind of model. Its version is unchanged here if newer ones
    give other replies.
    """
    facts = dict(fingerprint)
    for versions in ADAPTERS_OF_SAME_REPLIES:
        if facts.get(ADAPTER_FACT) in versions:
            facts[ADAPTER_FACT] = versions[0]
    return facts


def as_current_scoring(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return a fingerprint with the present name of its way of scoring.

    Earlier versions of Snellen had another name for a way that gives the same scores.

    Examples:
        >>> as_current_scoring({"scoring": "tree, picture shared, features kept, one forward, trunks kept"})
        {'scoring': 'tree, image shared'}
    """
    facts = dict(fingerprint)
    if SCORING_FACT in facts:
        name = facts[SCORING_FACT]
        for detail in EARLIER_DETAILS:
            name = name.replace(detail, "")
        facts[SCORING_FACT] = name.replace("picture shared", "image shared")
    return facts


def earlier_fingerprints(fingerprint: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the fingerprints that the same model had under earlier versions of its adapter with the same replies.

    [] if there are no such versions.
    """
    for versions in ADAPTERS_OF_SAME_REPLIES:
        latest, *earlier = versions
        if fingerprint.get(ADAPTER_FACT) == latest:
            return [{**fingerprint, ADAPTER_FACT: version} for version in earlier]
    return []
