"""What a model string asks beside the question: system prompt, sampling, reasoning, fields of the server's own.

All of it is part of the model's fingerprint, since answers depend on it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from snellen.models.key_references import filled_fields
from snellen.records import Message, Request, TextPart

Effort = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class SamplingOptions(Struct, frozen=True):
    """What any model that writes replies can be told; docs/reference/request-options.md explains each."""

    system: str = ""
    """A system prompt before the conversation."""
    temperature: Annotated[float, Meta(ge=0)] | None = None
    """Instead of the run's; 0: greedy."""
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts that end a reply: one, or a JSON list of several."""
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Longest answer, instead of the benchmark's or the run's."""
    reasoning_tokens: Annotated[int, Meta(ge=0)] | None = None
    """Tokens that the reply may have for its reasoning besides those of its answer; None: as the model's name says."""
    chat_template_kwargs: dict[str, Any] = {}
    """Settings of the chat template, such as `{"enable_thinking": false}`."""
    date: str = ""
    """The date that a chat template writes where it asks for today's, such as 2026-01-31; empty: 2024-07-26."""

    def applied(self, request: Request) -> Request:
        """Return the request as these options change it."""
        messages = request.messages
        if self.system:
            messages = (Message("system", (TextPart(self.system),)), *messages)
        settings = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": self.stop or None,
            "max_new_tokens": self.max_tokens if request.kind == "generate" else None,
        }
        changed = {name: value for name, value in settings.items() if value is not None}
        if not changed and not self.system:
            return request
        return replace(request, messages=messages, decoding=replace(request.decoding, **changed))

    def reasoning_budget(self, model: str) -> int:
        """Tokens that a reply of `model` may have for its reasoning; 0 for one that is not known to reason."""
        return (
            declared_reasoning_tokens(model)
            if self.reasoning_tokens is None
            else self.reasoning_tokens
        )

    def facts(self, model: str) -> dict[str, str]:
        """Return the options that replies depend on, for the model's fingerprint; those without a value are left out.

        Args:
            model: Name of the model, which determines how many tokens it may spend on reasoning.
        """
        values = {name: getattr(self, name) for name in ANSWERED_BY if hasattr(self, name)}
        values["reasoning_tokens"] = self.reasoning_budget(model) or None
        facts: dict[str, str] = {}
        for name, value in values.items():
            if value not in (None, "", (), {}):
                facts[name] = _spelt(value)
        return facts


Dtype = Literal["auto", "float32", "fp32", "float", "bfloat16", "bf16", "float16", "fp16", "half"]
DTYPES = {
    "float32": "float32",
    "fp32": "float32",
    "float": "float32",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
}
"""Number formats as transformers, vLLM and users spell them."""


class ProcessorOptions(SamplingOptions, frozen=True):
    """What a model whose processor runs in this process can be told besides."""

    min_pixels: Annotated[int, Meta(ge=1)] | None = None
    max_pixels: Annotated[int, Meta(ge=1)] | None = None
    """Bounds of the area, in pixels, to which an image is resized, for processors that have them (Qwen-VL)."""
    processor_kwargs: dict[str, Any] = {}
    """Settings of the processor, such as `{"do_image_splitting": false}`."""

    def processor_settings(self) -> dict[str, Any]:
        """Return the settings with which the processor is loaded, instead of those of its checkpoint."""
        bounds = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        return {**self.processor_kwargs, **given}

    def processor_facts(self) -> dict[str, str]:
        """Return these settings as a fact of the fingerprint; nothing without any."""
        settings = self.processor_settings()
        return {"processor settings": _spelt(settings)} if settings else {}


class RequestOptions(SamplingOptions, frozen=True):
    """What models behind a network can be told besides."""

    reasoning_effort: Effort = ""
    extra_body: dict[str, Any] = {}
    """Fields of the server's own, put into the body of every request."""
    logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    """Keep the log-probabilities of the reply's tokens with so many alternatives for each; 0: do not ask."""

    def reasoning_budget(self, model: str) -> int:
        """Return the tokens for reasoning; a reasoning effort makes any model a reasoning one, whatever its name."""
        if self.reasoning_tokens is not None or not self.reasoning_effort:
            return super().reasoning_budget(model)
        return (
            0
            if self.reasoning_effort == "none"
            else declared_reasoning_tokens(model) or DEFAULT_REASONING_TOKENS
        )


ANSWERED_BY = (*(field.name for field in fields(SamplingOptions)), "reasoning_effort", "extra_body")
"""Options that answers depend on; log-probabilities are only kept."""


def _spelt(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else msgspec.json.encode(value, order="deterministic").decode()
    )


def with_extra_fields(body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """`body` with the fields of `extra`, which win; tables field by field. Keys that they name are filled in."""
    merged = dict(body)
    for name, value in filled_fields(extra).items():
        earlier = merged.get(name)
        merged[name] = (
            with_extra_fields(earlier, value)
            if isinstance(earlier, dict) and isinstance(value, dict)
            else value
        )
    return merged


# --- tokens for reasoning, declared by model name in reasoning_budgets.toml -------------------------------------------


DEFAULT_REASONING_TOKENS = 16_384
"""For a model that is asked to reason and of which nothing is declared."""


class ReasoningModels(Struct, frozen=True):
    """Models that reason alike."""

    names: tuple[str, ...]
    """Patterns of their names, in small letters."""
    tokens: int


class _Table(Struct):
    models: tuple[ReasoningModels, ...]


@cache
def reasoning_models() -> tuple[ReasoningModels, ...]:
    """Return the declared kinds, in the order in which they are looked at."""
    return msgspec.toml.decode(
        (files("snellen.models") / "reasoning_budgets.toml").read_bytes(), type=_Table
    ).models


@cache
def declared_reasoning_tokens(model: str) -> int:
    """Tokens for the reasoning of the model with this name; 0 for one that is not known to reason."""
    name = model.lower().rstrip("/").rsplit("/", 1)[-1]
    budgets = (
        kind.tokens
        for kind in reasoning_models()
        if any(fnmatchcase(name, form) for form in kind.names)
    )
    return next(budgets, 0)
