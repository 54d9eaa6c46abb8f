"""Facts that a server states about the model it serves. No I/O.

A name and an address do not show that a server was started again with another checkpoint
(`vllm serve --served-model-name default`). Many servers state which model they have:

vLLM        root (and parent, for an adapter) in its list of models
llama.cpp   number of parameters, size and shape in its list of models
SGLang      model_path at /model_info, in older versions at /get_model_info
TGI         model_sha at /info
Ollama      digest at /api/tags

Only facts that stay the same as long as the model does are read. Not among them: when the server was started, and the
longest context that it was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from snellen.formats.json_files import JSON_FAULTS
from snellen.models.connections import HttpReply

LISTED = ("root", "parent", "owned_by")
"""Fields of an entry in a list of models."""
LLAMA_CPP = ("n_params", "size", "n_vocab", "n_embd", "n_ctx_train")
"""Fields of `meta` in an entry of llama.cpp."""
LONGEST = 300
"""Characters of a fact that are kept."""
OK = 200

SGLANG_PATH = "/model_info"
OLD_SGLANG_PATH = "/get_model_info"
TGI_PATH = "/info"
OLLAMA_PATH = "/api/tags"
_SGLANG_FIELDS = ("model_path", "weight_version")
_FURTHER_FIELDS = {
    SGLANG_PATH: _SGLANG_FIELDS,
    OLD_SGLANG_PATH: _SGLANG_FIELDS,
    TGI_PATH: ("model_id", "model_sha", "model_dtype"),
}


def read_listed_facts(reply: HttpReply, model: str) -> dict[str, str]:
    """Return what a server's list of models states about a model, such as its `root`; {} if it is not listed.

    If the list has a single model, it is taken, because such a server may accept any name.
    """
    listed = _decoded(reply).get("data")
    if not isinstance(listed, list):
        return {}
    entries = [entry for entry in listed if isinstance(entry, dict)]
    matching = [entry for entry in entries if entry.get("id") == model]
    if not matching and len(entries) == 1:
        matching = entries  # a server with one model may take any name for it
    if not matching:
        return {}
    entry = matching[0]
    facts = _facts(entry, LISTED)
    if entry.get("id") != model:
        facts |= _facts(entry, ("id",))
    if isinstance(entry.get("meta"), dict):
        facts |= _facts(entry["meta"], LLAMA_CPP)
    return facts


def further_paths(listed: Mapping[str, str], model: str) -> tuple[str, ...]:
    """Return paths of a server, from its root, that may state more about the model than its list of models.

    The list shows which kind of server it is. The paths are to be tried in order, until one of them
    states something.

    Args:
        listed: What the list of models states about the model (`read_listed_facts`).
        model: Name of the model.

    Returns:
        The paths; () for a server of another kind.
    """
    owner = listed.get("owned_by", "")
    if owner == "sglang":
        return SGLANG_PATH, OLD_SGLANG_PATH
    if owner == "library":
        return (OLLAMA_PATH,)
    # TGI writes the name of the model into `owned_by`, where other servers write their own name.
    if owner and owner in (model, listed.get("id")):
        return (TGI_PATH,)
    return ()


def read_further_facts(path: str, reply: HttpReply, model: str) -> dict[str, str]:
    """Return what a reply from one of the `further_paths` states about a model; {} if it states nothing."""
    stated = _decoded(reply)
    if path != OLLAMA_PATH:
        return _facts(stated, _FURTHER_FIELDS[path])
    models = stated.get("models")
    if not isinstance(models, list):
        return {}
    for entry in models:
        if isinstance(entry, dict) and entry.get("name") in (model, f"{model}:latest"):
            return _facts(entry, ("digest",))
    return {}


def _decoded(reply: HttpReply) -> dict[str, Any]:
    """Return the JSON object in a reply; {} if the reply is an error or has none."""
    if reply.status != OK:
        return {}
    try:
        return msgspec.json.decode(reply.body, type=dict[str, Any])
    except JSON_FAULTS:
        return {}


def _facts(stated: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    facts = {}
    for name in names:
        value = stated.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
            facts[name] = str(value)[:LONGEST]
    return facts
