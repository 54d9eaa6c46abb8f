"""The interface of a protocol, its declaration, and the labels that name protocols.

Scoring and reports use the declaration alone, so that they need to know no protocol by its name.
"""

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
from snellen.protocols.prompts.templates import PromptTemplates
from snellen.records import Exchange, Method, Request, RequestKind, Response, Sample, Variant


class Conclusion(Struct, frozen=True):
    """The answer that the steps of a protocol led to, in the form of one request and its response.

    Examples:
        >>> Conclusion(Request("animals", "q1", Variant(), ()), Response(text="(B)")).response.text
        '(B)'
    """

    request: Request
    """Identifies the sample and, in its variant, how the options were shown."""
    response: Response
    """The answer without its reasoning, or the failure of a step."""
    undecided: bool = False
    """Whether the protocol ended without an answer; the response is then its last reply."""


Conclude = Callable[[Sample, Sequence[Exchange]], Conclusion | None]
"""Function from a sample and the exchanges of all its steps, in order, to the conclusion; None before it is reached."""


class Declaration(Struct, frozen=True):
    """Facts about a protocol that scoring and reports need. The defaults fit a protocol that declares nothing.

    A presentation is a request that is not a baseline, identified by its whole `Variant`. A baseline is identified by
    the variant of its presentation with `baseline` filled in.

    Examples:
        >>> Declaration(presentations=4, circular=True).presentations
        4
    """

    presentations: int | Callable[[Sample], int] | None = None
    """Number of presentations of each question, or a function of the sample; None if the number is not fixed."""
    stops_early: bool = False
    """Whether replies may make it stop early. Later presentations then cover a biased selection of questions."""
    unbiased: tuple[int, ...] | None = None
    """Indices (`Variant.test`) of the presentations whose mean is a vanilla accuracy; None for all."""
    baselines: bool = False
    """Whether it sends baselines: requests whose scores are only subtracted from the scores of their presentations."""
    circular: bool = False
    """Whether a question is correct only if all its presentations are correct (MMBench 4.1)."""
    instability: bool = False
    """Whether the entropy of the chosen options over all presentations is meaningful (ReForm-Eval 3.3.2)."""
    repeated_for: int = 0
    """The k of pass@k, if its presentations repeat the same request; 0 otherwise."""
    needs_temperature: bool = False
    """Whether a run rejects it at temperature 0, where all replies would be equal."""
    sees_images: bool = True
    """Whether the model is shown the images."""
    varies_templates: bool = False
    """Whether the presentations of a question differ in their prompt template, so that it needs several."""
    control_of: str = ""
    """Label of the protocol that it is a control of: the same questions with other visual input."""
    control_input: str = ""
    """Text that says what a control shows in place of the images."""
    dose: tuple[str, float] | None = None
    """The degradation that a control adds to the images, and its strength; None if it adds none, or several."""
    other_images: bool = False
    """Whether it shows each sample with the images of another sample, which the run plan assigns."""
    roles: tuple[str, ...] = ()
    """Roles of the other models that it sends requests to. Its accuracy represents the model only if no other accuracy
    does.
    """
    words: Callable[[PromptTemplates], str] | None = None
    """Returns the version of its wording besides instructions, so that a run does not mix two versions; None if it has no
    such wording.
    """
    conclude: Conclude | None = None
    """Derives the answer from the steps; None if each request asks for the answer directly."""

    @property
    def stands_for_model(self) -> bool:
        """Whether its accuracy can represent the model: the model sees the images, and they are unchanged."""
        return self.sees_images and not self.control_of

    def n_presentations(self, sample: Sample) -> int:
        """Return the declared number of presentations of each question of a sample; 1 if none is declared."""
        declared = self.presentations
        if declared is None:
            return 1
        return declared(sample) if callable(declared) else declared

    def is_unbiased(self, variant: Variant) -> bool:
        """Return whether a presentation counts toward the vanilla accuracy."""
        return self.unbiased is None or variant.test in self.unbiased

    @property
    def n_unbiased(self) -> int:
        """Declared number of presentations in a vanilla accuracy, if it is the same for all samples; 0 otherwise."""
        if self.unbiased is not None:
            return len(self.unbiased)
        if isinstance(self.presentations, int):
            return self.presentations
        return 0


UNDECLARED = Declaration()


def declaration_of(protocol: object) -> Declaration:
    """Return the protocol's `declaration`, or the defaults for a class without one."""
    declared: Declaration = getattr(protocol, "declaration", UNDECLARED)
    return declared


RequestGenerator = Generator[list[Request], list[Response], Any]
"""Yields requests that can be sent together, and receives their responses in the same order."""


class Protocol(Form):
    """A frozen record of settings whose `ask` is the protocol.

    An optional `declaration` says how its presentations may be scored (`snellen.protocols.base`); without one a
    question scores the mean over all its presentations.

    Examples:
        >>> sn.parse_protocol("circular").label
        'circular'
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
        """Return whether the protocol can be used on a sample."""
        ...

    def ask(
        self, sample: Sample, prompt: PromptRenderer, history: tuple[str, ...] = ()
    ) -> RequestGenerator:
        """Yield the requests of one sample. Their variants must all be different."""
        ...


def reject_duplicate_presentations(protocol: str, requests: RequestGenerator) -> RequestGenerator:
    """Yield the same requests, and raise DataError if two are the same presentation of a sample.

    Otherwise the reply to one of them would hide the reply to the other.
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
    """Return the error for two requests that are the same presentation of a sample."""
    return DataError(
        f"{protocol}: two presentations of {request.benchmark} {request.sample_id} have the same variant "
        f"({_spell_variant(request.variant)}); give each a different number (Variant.test)"
    )


def _spell_variant(variant: Variant) -> str:
    """Return the fields of a variant that differ from their defaults, as JSON, or `test 0` if none does."""
    changed_fields = msgspec.json.encode(variant).decode()
    return f"test {variant.test}" if changed_fields == "{}" else changed_fields


def check_presentation_count(name: str, m: int) -> None:
    """Raise UnknownNameError if the number of presentations is below 1."""
    if m < 1:
        raise UnknownNameError(f"{name} needs m >= 1, not {m}")


def needed_kind(protocol: Protocol) -> RequestKind:
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
    form = registry.find_registered("protocols", name)
    options = {key: value or "true" for key, value in parse_qsl(query, keep_blank_values=True)}
    known_options = _settings_of(form)
    for option in options:
        if option not in known_options:
            raise registry.unknown_name(f"option of {name}", option, known_options)
    try:
        if known_options:
            protocol: Protocol = msgspec.convert(options, form, strict=False)
        else:
            protocol = form()
    except msgspec.ValidationError as error:
        raise UnknownNameError(f"protocol {text!r}: {error}") from None
    return protocol


def labelled_declaration(label: str) -> Declaration:
    """Return the declaration of the protocol with a label; the default one if no installed package has the protocol.

    Examples:
        >>> labelled_declaration("blind").sees_images
        False
    """
    try:
        return declaration_of(parse_protocol(label))
    except UnknownNameError:
        return UNDECLARED


SETTINGS_OF_ALL_PASSES = ("", "all_passes=true")
"""Settings of a circular protocol with which its first pass is asked as `vanilla` asks."""


def first_pass_of(label: str) -> str:
    """Return the label of the protocol that is the same as the first pass of a circular protocol.

    The first pass of `circular` shows the options in their own order, as `vanilla` does. A protocol that is not
    circular has no such pass; its own label is returned.

    Examples:
        >>> first_pass_of("circular"), first_pass_of("blind")
        ('vanilla', 'blind')
    """
    if not labelled_declaration(label).circular:
        return label
    settings = label.partition("?")[2]
    if settings in SETTINGS_OF_ALL_PASSES:
        return "vanilla"
    return f"first pass of {label}"


def _settings_of(form: Any) -> set[str]:
    """Return the names of the settings of a protocol's class; empty for a class that is not a record."""
    if isinstance(form, type) and issubclass(form, Struct):
        return set(form.__struct_fields__)
    if dataclasses.is_dataclass(form):
        return {field.name for field in dataclasses.fields(form)}
    return set()


def protocol_label(name: str, settings: Any) -> str:
    """Return the label of a protocol with the options that differ from their defaults: `circular?all_passes=true`.

    Args:
        name: Name of the protocol.
        settings: A record whose fields are the options.
    """
    changed: list[str] = []
    for field in msgspec.structs.fields(settings):
        value = getattr(settings, field.name)
        if value != field.default:
            changed.append(f"{field.name}={_spell(value)}")
    return f"{name}?{'&'.join(changed)}" if changed else name


def _spell(value: Any) -> str:
    """Return the value of an option as a label has it: `true` for True, and 5 for 5."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class ProtocolSettings(Struct, frozen=True, dict=True):
    """Base class of a protocol's settings, registered under the class name in lower case. Its fields are the options.

    By default it applies to every sample, and its method is generation unless an option `by` says otherwise.

    Examples:
        >>> class Shouted(ProtocolSettings, frozen=True):
        ...     marks: int = 1
        >>> Shouted(marks=2).label
        'shouted?marks=2'
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
