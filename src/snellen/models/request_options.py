"""Options of a model string that change the requests: system prompt, sampling, reasoning, and further fields.

Replies depend on all of them, so they are part of the model's fingerprint.
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
    """Options for any model that generates replies; docs/reference/request-options.md explains each."""

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
    """Maximum number of tokens for reasoning, in addition to those of the answer.

    If it is None, it depends on the name of the model (`declared_reasoning_tokens`).
    """
    chat_template_kwargs: dict[str, Any] = {}
    """Settings of the chat template, such as `{"enable_thinking": false}`."""
    date: str = ""
    """The date that a chat template writes where it asks for today's, such as 2026-01-31; empty: 2024-07-26."""

    def applied(self, request: Request) -> Request:
        """Return the request with the system prompt and the sampling settings of these options.

        Settings without a value here stay as they are in the request.
        """
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
        """Return the maximum number of tokens for reasoning; 0 if the model is not known to reason.

        Args:
            model: Name of the model, which decides if the user set no number.
        """
        return (
            declared_reasoning_tokens(model)
            if self.reasoning_tokens is None
            else self.reasoning_tokens
        )

    def facts(self, model: str) -> dict[str, str]:
        """Return the options that replies depend on, as texts by name, for the model's fingerprint.

        Options that are not set are left out.

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
    """Further options for a model whose image processor runs in this process, such as `max_pixels`."""

    min_pixels: Annotated[int, Meta(ge=1)] | None = None
    max_pixels: Annotated[int, Meta(ge=1)] | None = None
    """Bounds of the area, in pixels, to which an image is resized, for processors that have them (Qwen-VL)."""
    processor_kwargs: dict[str, Any] = {}
    """Settings of the processor, such as `{"do_image_splitting": false}`."""

    def processor_settings(self) -> dict[str, Any]:
        """Return the settings that replace those of the checkpoint when the image processor is loaded.

        {} if there are none.
        """
        bounds = {"min_pixels": self.min_pixels, "max_pixels": self.max_pixels}
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        return {**self.processor_kwargs, **given}

    def processor_facts(self) -> dict[str, str]:
        """Return the same settings as a fact for the model's fingerprint; {} if there are none."""
        settings = self.processor_settings()
        return {"processor settings": _spelt(settings)} if settings else {}


class RequestOptions(SamplingOptions, frozen=True):
    """Further options for a model behind a network."""

    reasoning_effort: Effort = ""
    extra_body: dict[str, Any] = {}
    """Fields of the server's own, put into the body of every request."""
    logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    """Keep the log-probabilities of the reply's tokens with so many alternatives for each; 0: do not ask."""

    def reasoning_budget(self, model: str) -> int:
        """Return the maximum number of tokens for reasoning; 0 if the model does not reason.

        If the user set a reasoning effort, the model counts as one that reasons, whatever its name
        is.

        Args:
            model: Name of the model.
        """
        if self.reasoning_tokens is not None or not self.reasoning_effort:
            return super().reasoning_budget(model)
        return (
            0
            if self.reasoning_effort == "none"
            else declared_reasoning_tokens(model) or DEFAULT_REASONING_TOKENS
        )


ANSWERED_BY = (*(field.name for field in fields(SamplingOptions)), "reasoning_effort", "extra_body")
"""Names of the options that replies depend on. `logprobs` is not among them, because it does not change a reply."""


def _spelt(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else msgspec.json.encode(value, order="deterministic").decode()
    )


def with_extra_fields(body: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a request with additional fields, which take precedence over those of the same name.

    If both are tables, they are merged in the same way. References to environment variables such as
    `${NAME}` in the additional fields are replaced by the variables' values.
    """
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
"""Maximum for a model that is asked to reason, if reasoning_budgets.toml does not list it."""


class ReasoningModels(Struct, frozen=True):
    """Models with the same maximum number of tokens for reasoning, as reasoning_budgets.toml lists them."""

    names: tuple[str, ...]
    """Patterns of their names, in small letters."""
    tokens: int


class _Table(Struct):
    models: tuple[ReasoningModels, ...]


@cache
def reasoning_models() -> tuple[ReasoningModels, ...]:
    """Return the entries of reasoning_budgets.toml. The first one that matches a name applies."""
    return msgspec.toml.decode(
        (files("snellen.models") / "reasoning_budgets.toml").read_bytes(), type=_Table
    ).models


@cache
def declared_reasoning_tokens(model: str) -> int:
    """Return the number of tokens that reasoning_budgets.toml gives for a model's name; 0 if no entry matches."""
    name = model.lower().rstrip("/").rsplit("/", 1)[-1]
    budgets = (
        kind.tokens
        for kind in reasoning_models()
        if any(fnmatchcase(name, form) for form in kind.names)
    )
    return next(budgets, 0)
