"""What a protocol is, and how a string names one."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from functools import cached_property
from typing import Any
from typing import Protocol as Form
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import DataError, UnknownNameError
from snellen.protocols.declaration import UNDECLARED, Declaration, declaration_of
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import Kind, Method, Request, Response, Sample, Variant

RequestGenerator = Generator[list[Request], list[Response], Any]
"""Yields the requests that can be asked at once, receives their responses in order."""


class Protocol(Form):
    """A frozen record of settings whose `ask` is the protocol.

    An optional `declaration` says how its presentations may be scored (`snellen.protocols.declaration`); without one a
    question scores the mean over all its presentations.
    """

    @property
    def label(self) -> str:
        """Name and all settings that differ from the defaults: `instability?m=3`."""
        ...

    @property
    def method(self) -> Method: ...

    @property
    def gold_history(self) -> bool:
        """Whether it needs the published replies of dialogues."""
        ...

    def applies(self, sample: Sample) -> bool:
        """Whether the protocol can ask this sample."""
        ...

    def ask(self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()) -> RequestGenerator:
        """The requests of one sample. No two of them may have the same `Variant`."""
        ...


def distinct_presentations(protocol: str, requests: RequestGenerator) -> RequestGenerator:
    """The same requests, refused as soon as two are the same presentation of a sample: one would hide the other.

    Raises DataError.
    """
    presented: set[Variant] = set()
    responses: list[Response] | None = None
    while True:
        try:
            wave = next(requests) if responses is None else requests.send(responses)
        except StopIteration:
            return
        for request in wave:
            if request.variant in presented:
                raise duplicate_presentation(protocol, request)
            presented.add(request.variant)
        responses = yield wave


def duplicate_presentation(protocol: str, request: Request) -> DataError:
    """The error for two requests that are the same presentation of a sample."""
    return DataError(
        f"{protocol}: two presentations of {request.benchmark} {request.sample_id} have the same variant "
        f"({_spell_variant(request.variant)}); give each its own number (Variant.test)"
    )


def _spell_variant(variant: Variant) -> str:
    changed = msgspec.json.encode(variant).decode()
    return f"test {variant.test}" if changed == "{}" else changed


def check_presentation_count(name: str, m: int) -> None:
    """Raise UnknownNameError for a number of presentations below 1."""
    if m < 1:
        raise UnknownNameError(f"{name} needs m >= 1, not {m}")


def needed_kind(protocol: Protocol) -> Kind:
    return "loglikelihood" if protocol.method == "likelihood" else "generate"


def parse_protocol(text: str) -> Protocol:
    """The protocol behind `name?option=value&...`; `all_passes` alone means `all_passes=true`.

    Raises UnknownNameError for an unknown name, option or value.
    """
    name, _, query = text.partition("?")
    form = registry.find("protocols", name)
    options = {key: value or "true" for key, value in parse_qsl(query, keep_blank_values=True)}
    fields = _settings(form)
    for option in options:
        if option not in fields:
            raise registry.unknown(f"option of {name}", option, fields)
    try:
        protocol: Protocol = msgspec.convert(options, form, strict=False) if fields else form()
    except msgspec.ValidationError as error:
        raise UnknownNameError(f"protocol {text!r}: {error}") from None
    return protocol


def labelled_declaration(label: str) -> Declaration:
    """What the protocol with this label declares; the defaults if its package is not installed."""
    try:
        return declaration_of(parse_protocol(label))
    except UnknownNameError:
        return UNDECLARED


def _settings(form: Any) -> set[str]:
    """Names of the settings of a protocol's class; a plain class has none."""
    if isinstance(form, type) and issubclass(form, Struct):
        return set(form.__struct_fields__)
    return {field.name for field in dataclasses.fields(form)} if dataclasses.is_dataclass(form) else set()


def protocol_label(name: str, settings: Any) -> str:
    """`name?option=value&...` with the options that differ from their defaults."""
    changed = [
        f"{field.name}={_spell(value)}"
        for field in msgspec.structs.fields(settings)
        if (value := getattr(settings, field.name)) != field.default
    ]
    return f"{name}?{'&'.join(changed)}" if changed else name


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ProtocolSettings(Struct, frozen=True, dict=True):
    """Settings of a protocol, which is registered under its class's name in lower case. Its fields are the options."""

    @property
    def gold_history(self) -> bool:
        return False

    @property
    def declaration(self) -> Declaration:
        return UNDECLARED

    @cached_property
    def label(self) -> str:
        return protocol_label(type(self).__name__.lower(), self)


class OfAnother(ProtocolSettings, frozen=True, kw_only=True):
    """Settings of a protocol that changes what another one asks, or how often."""

    of: str = "vanilla"
    """The label of the other protocol."""

    @cached_property
    def inner(self) -> Protocol:
        """The other protocol. Raises UnknownNameError for a label that names none."""
        return parse_protocol(self.of)

    @property
    def quoted(self) -> str:
        """The option that names the other protocol, quoted: an `&` among its settings would begin a setting of this
        protocol."""
        return f"of={quote(self.of, safe='?=,:')}"

    @property
    def method(self) -> Method:
        return self.inner.method

    @property
    def gold_history(self) -> bool:
        return self.inner.gold_history

    def applies(self, sample: Sample) -> bool:
        return self.inner.applies(sample)
