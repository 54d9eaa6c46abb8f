"""Facts about a model in memory that its weights do not show: settings, prompts, image processing and active adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from snellen.models.hf.adapters import adapter_facts
from snellen.models.object_digest import content_facts

_WITHOUT_EFFECT = frozenset({"_name_or_path", "name_or_path", "transformers_version", "use_cache"})
"""Settings that change no reply, such as `use_cache`, which a Trainer switches off."""


def settings_facts(model: Any, processor: Any) -> dict[str, str]:
    """Return digests of the settings that replies depend on, apart from the weights, for a model in memory.

    A folder's digest covers its configuration files. Of objects in memory, users change these between evaluations: the
    chat template, the size of images, the active adapter or its scale.

    Args:
        model: A transformers model, with or without adapters in its layers.
        processor: Its processor, with a `tokenizer`.
    """
    tokenizer = processor.tokenizer
    settings = {
        "model": _plain(model.config.to_dict()),
        "ends": getattr(getattr(model, "generation_config", None), "eos_token_id", None),
        "processor": _plain(processor.to_dict()) if hasattr(processor, "to_dict") else None,
        "chat templates": [getattr(part, "chat_template", None) for part in (processor, tokenizer)],
        "tokenizer": _tokenizer_settings(tokenizer),
    }
    text = json.dumps(settings, sort_keys=True, default=str)
    return content_facts("settings", text) | adapter_facts(model)


def _plain(settings: Any) -> Any:
    """Return settings without those that change no reply, with text for keys."""
    if isinstance(settings, Mapping):
        plain = {}
        for name, value in settings.items():
            if name not in _WITHOUT_EFFECT:
                plain[str(name)] = _plain(value)
        return plain
    if isinstance(settings, (list, tuple)):
        return [_plain(value) for value in settings]
    return settings


def _tokenizer_settings(tokenizer: Any) -> Any:
    """Return the state of a fast tokenizer, the vocabulary of another one, or None if it has none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return sorted(tokenizer.get_vocab().items()) if hasattr(tokenizer, "get_vocab") else None
    state = json.loads(backend.to_str())
    # Each call sets these two anew.
    state.pop("padding", None)
    state.pop("truncation", None)
    return state
