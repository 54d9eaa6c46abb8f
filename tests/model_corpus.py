"""Facts about vision-language models in wide use (model_corpus.toml), and chat templates that are written from them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CORPUS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


def quoted(text: str) -> str:
    """A text as a literal of Jinja."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return "{{ '" + escaped + "' }}"


def template_of(facts: Mapping[str, Any]) -> str:
    """A chat template that writes what the facts say."""
    user_opening, user_closing = map(quoted, facts["user"])
    reply_opening, reply_closing = map(quoted, facts["assistant"])
    images = (
        "{% for part in message['content'] if part['type'] == 'image' %}"
        + quoted(facts["image"])
        + "{% endfor %}"
    )
    texts = (
        "{% for part in message['content'] if part['type'] == 'text' %}"
        "{{ part['text'] }}{% endfor %}"
    )
    system = "{{ raise_exception('no system turn') }}"
    if isinstance(facts.get("system"), list):
        system_opening, system_closing = map(quoted, facts["system"])
        system = system_opening + texts + system_closing
    user = user_opening + images + texts + user_closing
    if facts.get("image_before_turn"):
        user = images + user_opening + texts + user_closing
    default_system = quoted(facts.get("default_system", ""))
    return (
        quoted(facts.get("begins", ""))
        + "{% if messages[0]['role'] != 'system' %}"
        + default_system
        + "{% endif %}"
        + "{% for message in messages %}"
        + "{% if message['role'] == 'system' %}"
        + system
        + "{% elif message['role'] == 'user' %}"
        + user
        + "{% else %}"
        + reply_opening
        + texts
        + reply_closing
        + "{% endif %}{% endfor %}{% if add_generation_prompt %}"
        + quoted(facts["generation"])
        + "{% endif %}"
    )
