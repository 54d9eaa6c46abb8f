"""What a protocol is, what it declares, so that scoring and reports know none by name, and how a string names one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import Any
from typing import Protocol as Form
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import DataError, UnknownNameError
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import Templates
from snellen.records import Exchange, Kind, Method, Request, Response, Sample, Variant


class Conclusion(Struct, frozen=True):
    """The answer to which the steps of a protocol led, as if one request had asked for it."""

    request: Request
    """Says who was asked and, in its variant, how the options were shown."""
    response: Response
    """The answer alone, or the failure of a step."""
    undecided: bool = False
    """Whether the protocol came to its end without an answer; the response is then what it ended with."""


Conclude = Callable[[Sample, Sequence[Exchange]], Conclusion | None]
"""(sample, exchanges of all of its steps, in order) -> the conclusion, or None while it is not reached."""


class Declaration(Struct, frozen=True):
    """What scoring and reports have to know about how a protocol asks. The defaults fit a protocol that declares
    nothing.

    A presentation is a request that is not a baseline, identified by its whole `Variant`. A baseline is identified by
    the variant of its presentation with `baseline` filled in.
    """

    presentations: int | Callable[[Sample], int] | None = None
    """How many presentations of each question it promises; None when it promises none."""
    stops_early: bool = False
    """Whether replies may make it stop early. Later presentations then cover a biased selection of questions."""
    unbiased: tuple[int, ...] | None = None
    """Numbers (`Variant.test`) of the presentations whose mean is a vanilla accuracy; None when all are."""
    baselines: bool = False
    """Whether it asks for baselines: requests whose scores are only subtracted from those of their presentations."""
    circular: bool = False
    """Whether a question is right only when all its presentations are (MMBench 4.1)."""
    instability: bool = False
    """Whether the entropy of the options chosen over all presentations is meaningful (ReForm-Eval 3.3.2)."""
    repeated_for: int = 0
    """The k of pass@k, where its presentations are the same request again and again; 0 where they are not."""
    needs_temperature: bool = False
    """Whether it is pointless at temperature 0; a run then refuses it."""
    sees_images: bool = True
    """Whether the model is shown the pictures."""
    control_of: str = ""
    """The label of the protocol for whose number it is a control: the same questions with something else to see."""
    shown: str = ""
    """What a control shows in place of the pictures, in words."""
    dose: tuple[str, float] | None = None
    """How much of one degradation a control adds to the pictures; None where it adds none, or several."""
    other_pictures: bool = False
    """Whether it asks about each sample with the pictures of another one, which the plan puts in their place."""
    roles: tuple[str, ...] = ()
    """The other models that it asks, by role. Its accuracy stands for the model only where nothing else does."""
    words: Callable[[Templates], str] | None = None
    """The version of its words besides instructions, so that no run mixes two; None where it has none."""
    conclude: Conclude | None = None
    """How the answer follows from the steps; None where each request asks for the answer itself."""

    @property
    def stands_for_model(self) -> bool:
        """Whether its accuracy may stand for the model: it is shown the pictures, and as they are."""
        return self.sees_images and not self.control_of

    def n_presentations(self, sample: Sample) -> int:
        """How many presentations of each question of `sample` are promised; 1 when none are."""
        promised = self.presentations
        return promised(sample) if callable(promised) else promised or 1

    def is_unbiased(self, variant: Variant) -> bool:
        """Whether a presentation counts in a vanilla accuracy."""
        return self.unbiased is None or variant.test in self.unbiased

    @property
    def n_unbiased(self) -> int:
        """How many presentations a vanilla accuracy is promised to rest on, whatever the sample; 0 when none are."""
        if self.unbiased is not None:
            return len(self.unbiased)
        return self.presentations if isinstance(self.presentations, int) else 0


UNDECLARED = Declaration()


def declaration_of(protocol: object) -> Declaration:
    """The protocol's `declaration`, or the defaults for a class without one."""
    declared: Declaration = getattr(protocol, "declaration", UNDECLARED)
    return declared


RequestGenerator = Generator[list[Request], list[Response], Any]
"""Yields the requests that can be asked at once, receives their responses in order."""


class Protocol(Form):
    """A frozen record of settings whose `ask` is the protocol.

    An optional `declaration` says how its presentations may be scored (`snellen.protocols.base`); without one a
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

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
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
    """Return the kind of request that a protocol sends, which a model must support."""
    return "loglikelihood" if protocol.method == "likelihood" else "generate"


def parse_protocol(text: str) -> Protocol:
    """Return the protocol of a text `name?option=value&...`. `all_passes` alone means `all_passes=true`.

    Raises:
        UnknownNameError: The name, an option or a value does not exist.

    Examples:
        >>> sn.parse_protocol("circular?all_passes").label
        'circular?all_passes=true'
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
    return (
        {field.name for field in dataclasses.fields(form)}
        if dataclasses.is_dataclass(form)
        else set()
    )


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
    """Settings of a protocol, which is registered under its class's name in lower case. Its fields are the options.

    It asks for replies, or as its option `by` says, about every sample that can be asked so.
    """

    @property
    def method(self) -> Method:
        method: Method = getattr(self, "by", "generation")
        return method

    def applies(self, sample: Sample) -> bool:
        return self.method == "generation" or sample.formulation != "text"

    @property
    def gold_history(self) -> bool:
        return False

    @property
    def declaration(self) -> Declaration:
        return UNDECLARED

    @cached_property
    def label(self) -> str:
        return protocol_label(type(self).__name__.lower(), self)
