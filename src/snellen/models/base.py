"""The model interface; model strings, with the keys and places they name; what answers of a model object depend on."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_origin, runtime_checkable
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import msgspec.inspect as msgspec_inspect
from msgspec import Struct

from snellen import registry
from snellen.common.foreign import Secret
from snellen.common.images import Images
from snellen.errors import HookError, ModelError, SnellenError, UnknownNameError
from snellen.formats.shown_text import object_line
from snellen.models.key_references import refuse_written_keys
from snellen.records import ErrorKind, Failure, ImageRef, Kind, Request, Response

NO_CONTINUATIONS = "the request has no continuations; there is nothing to score"
ALL_KINDS: frozenset[Kind] = frozenset({"generate", "loglikelihood"})
"""The `kinds` of a model that can do both; one that only replies has `frozenset({"generate"})`."""


class ShownByName:
    """A model that Python shows as its class and name: `<HFModel: hf:org/name>`."""

    name: str

    def __repr__(self) -> str:
        return object_line(self, self.name)


@runtime_checkable
class Model(Protocol):
    """A model that answers batches. Responses come in the order of the requests.

    A request that fails on its own gets a Response with `error`; an exception means that the model is unusable.
    """

    name: str
    """As the user wrote it; the name in every table."""
    kinds: frozenset[Kind]
    batch_size: int
    """Preferred number of requests per call; the model may split them further."""

    def fingerprint(self) -> dict[str, str]:
        """Everything that its answers depend on: weights revision, dtype, processor, adapter version."""
        ...

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]: ...

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]: ...


@runtime_checkable
class AsyncModel(Protocol):
    """A model behind a network: one request at a time, many at once."""

    name: str
    kinds: frozenset[Kind]
    concurrency: int
    """How many requests it handles at once. More may wait in `ask`, so the model enforces the limit itself."""

    def fingerprint(self) -> dict[str, str]: ...

    async def ask(self, request: Request, images: Images) -> Response:
        """The response, with a typed `error` when the request failed. Does not raise for a single request."""
        ...

    async def close(self) -> None: ...


ReplyListener = Callable[[str], None]
"""Called repeatedly with the answer as far as it is written. An answer that is begun again after a fault gets
shorter."""


@runtime_checkable
class StreamingModel(Protocol):
    """A model that can report a reply while it writes it."""

    def generate_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """The same response as that of `generate`; `listener` is called in the thread that asks."""
        ...


@runtime_checkable
class AsyncStreamingModel(Protocol):
    """A model behind a network that can report a reply while it arrives."""

    async def ask_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """The same response as that of `ask`, for a reply; if the server does not stream, `listener` is not called."""
        ...


@runtime_checkable
class NeedsBenchmarks(Protocol):
    """A model that must know the benchmark folders of a run beforehand (the oracle)."""

    def prepare(self, benchmarks: Sequence[Path]) -> None: ...


def failed(kind: ErrorKind, detail: str, attempts: int = 1) -> Response:
    """A response that is a failure."""
    return Response(error=Failure(kind, detail, attempts))


class ModelIdentity(Struct, frozen=True):
    """Who answered."""

    name: str
    """The model's name without how it is reached (`answers_as`)."""
    fingerprint: dict[str, str]


def identity_of(model: Model | AsyncModel) -> ModelIdentity:
    """A model's name, with all that its answers depend on."""
    # A version may be a text of a kind of its own, as torch's is.
    return ModelIdentity(
        answers_as(model.name), {fact: "".join(text) for fact, text in model.fingerprint().items()}
    )


def answers_as(name: str) -> str:
    """A model string without how the model is reached (address, concurrency, time limits, retries), if its scheme says
    which parts these are (the group `model_identities`); else the same string. Equal strings are one model."""
    scheme = name.partition(":")[0]
    if ":" not in name or scheme not in registry.targets("model_identities"):
        return name
    identity: str = registry.find("model_identities", scheme)(parse_spec(name))
    return identity


ADDRESS = "address"
"""The fact of a fingerprint that says on which hosts a model's servers are. Two servers may call different models by
one name, so a run goes on at another address only where its user says that the model has moved there."""


ADAPTER_FACT = "adapter"
"""The fact of a fingerprint that says which version of Snellen's code sends the requests."""
ADAPTERS_OF_SAME_REPLIES: tuple[tuple[str, ...], ...] = (("openai-2", "openai-1"),)
"""Versions of an adapter that send the same requests for replies, the latest first: only options are scored otherwise.
"""


def as_latest_adapter(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return a fingerprint with the latest version of the adapter from which replies are the same."""
    facts = dict(fingerprint)
    for versions in ADAPTERS_OF_SAME_REPLIES:
        if facts.get(ADAPTER_FACT) in versions:
            facts[ADAPTER_FACT] = versions[0]
    return facts


def earlier_fingerprints(fingerprint: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the fingerprints of the same model under earlier adapters from which replies are the same."""
    for versions in ADAPTERS_OF_SAME_REPLIES:
        if fingerprint.get(ADAPTER_FACT) == versions[0]:
            return [{**fingerprint, ADAPTER_FACT: version} for version in versions[1:]]
    return []


def address_of(name: str) -> str:
    """Return the hosts in a model string, `HOST:PORT[,HOST:PORT...]` in order of their names; empty for none."""
    _, _, target = name.partition("?")[0].partition(":")
    _, _, urls = target.partition("@")
    addresses = re.split(r",(?=https?://)", urls)
    return hosts_of(addresses) if urls.startswith(("http://", "https://")) else ""


def hosts_of(urls: Iterable[str]) -> str:
    """Return the distinct hosts of some addresses, in order of their names."""
    return ",".join(sorted({urlsplit(url).netloc.lower() for url in urls}))


def answers_by_sample(model: object) -> bool:
    """Whether a model says, by an attribute `answers_by_sample`, that it looks up which sample asks.

    Then samples with equal requests are asked one by one; other models are asked only once.
    """
    return bool(getattr(model, "answers_by_sample", False))


@runtime_checkable
class HasFindings(Protocol):
    """A model that checks its own answers during a run."""

    def findings(self) -> tuple[str, ...]:
        """Sentences on what it found so far, for the notes of the run's manifest."""
        ...


@runtime_checkable
class ExpectsPictures(Protocol):
    """A model that makes pictures ready before they are asked about."""

    def expect(self, pictures: Sequence[ImageRef], images: Images) -> None:
        """`pictures` will be asked about soon. Returns at once, and raises nothing for a broken picture."""
        ...


@runtime_checkable
class WaitsToAskAgain(Protocol):
    """A model behind a network that says how many requests wait to be sent again, so that others can take their
    slots."""

    @property
    def waiting(self) -> int: ...


@runtime_checkable
class StopsSending(Protocol):
    """A model behind a network that can stop sending without losing what is on its way."""

    def stop_sending(self) -> None:
        """Cancel the requests that are not on their way, until `close`; those that are get their response."""
        ...


@runtime_checkable
class DescribesServer(Protocol):
    """A model behind a network whose servers may state which model they serve.

    The address of a server stays the same when it is started again with another checkpoint under the same name.
    """

    async def server_facts(self) -> dict[str, str]:
        """Return what the servers state, without what changes while they serve the same model.

        Empty where they state nothing. The names of facts contain the host. Raises nothing that a server causes.
        """
        ...

    async def close(self) -> None: ...


class ModelSpec(Struct, frozen=True):
    """The parts of a model string `scheme:target?option=value&...`."""

    text: str
    scheme: str
    target: str
    options: dict[str, str]


OptionsT = TypeVar("OptionsT", bound=Struct)


_STRINGS = "hf:org/name, hf:./folder, openai:name@http://host:port/v1 or snellen:tiny"
_MAKERS = {"gpt-": "openai", "chatgpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic",
           "gemini": "gemini"}  # fmt: skip
"""The scheme of models that are known by the beginning of their name."""


def _likely_string(text: str) -> str:
    """The model string that a name without a scheme most likely means; empty when it may be anything.

    Other harnesses write `gpt-4o`, `openai/gpt-4o`, `hf/org/name`, `org/name`; an embedded one is called by its name.
    """
    first, slash, target = text.partition("/")
    if slash and first in registry.names("models"):
        return f"{first}:{target}"
    if Path(text).is_dir():
        return f"hf:{text if text.startswith(('.', '/')) else f'./{text}'}"
    if slash:
        return f"hf:{text}"
    with suppress(UnknownNameError):
        registry.find("model_checks", "snellen")(ModelSpec(text, "snellen", text, {}))
        return f"snellen:{text}"
    return next(
        (f"{scheme}:{text}" for beginning, scheme in _MAKERS.items() if text.startswith(beginning)),
        "",
    )


def parse_spec(text: str) -> ModelSpec:
    """Parse a model string. Raises ModelError for one without a scheme."""
    body, _, query = text.partition("?")
    scheme, colon, target = body.partition(":")
    if not colon or not target:
        meant = _likely_string(text)
        hint = f"did you mean {meant}?" if meant else f"write for example {_STRINGS}"
        raise ModelError(f"model {text!r} has no scheme; {hint}")
    return ModelSpec(text, scheme, target, dict(parse_qsl(query, keep_blank_values=True)))


def model_string(model: str, **options: Any) -> str:
    """The model string of `model` with options behind it, tables and lists of them as JSON; None leaves one out."""
    set_options = {name: value for name, value in options.items() if value is not None}
    spelt = {
        name: value
        if isinstance(value, str)
        else msgspec.json.encode(value, order="deterministic").decode()
        for name, value in sorted(set_options.items())
    }
    return f"{model}{'&' if '?' in model else '?'}{urlencode(spelt)}" if spelt else model


def as_model_string(model: Any) -> Any:
    """The model string of a table `{"model": ..., OPTION: VALUE}`; anything else stays as it is.

    Raises ModelError for a table without a model.
    """
    if not isinstance(model, Mapping):
        return model
    if not isinstance(model.get("model"), str):
        raise ModelError(
            f'a model as a table needs its string: model = "openai:...", not {dict(model)}'
        )
    return model_string(**model)


def read_options(spec: ModelSpec, form: type[OptionsT]) -> OptionsT:
    """The options of a spec as a typed record. Raises ModelError for an unknown or invalid option."""
    types = {field.name: field.type for field in msgspec.structs.fields(form)}
    for name in spec.options:
        if name not in types:
            raise ModelError(f"{spec.text}: {registry.unknown('option', name, types)}")
    values = {name: _option(spec, name, types[name]) for name in spec.options}
    try:
        return msgspec.convert(values, form)
    except msgspec.ValidationError as error:
        raise ModelError(f"{spec.text}: {error}") from None


def _option(spec: ModelSpec, name: str, kind: Any) -> Any:
    try:
        return option_value(spec.options[name], kind)
    except msgspec.MsgspecError:
        raise ModelError(f"{spec.text}: {option_fault(name, spec.options[name], kind)}") from None


def load_model(model: str | Any) -> Model | AsyncModel:
    """Load the model that a string names, or adapt an object that has a model's methods.

    Raises UnknownNameError for an unknown scheme, HookError for code of others that cannot be imported or fails, and
    ModelError for a model that cannot be loaded.
    """
    if not isinstance(model, str):
        return _adapted(model)
    spec = parse_spec(model)
    return _adapted(_opened(find_opener(spec), spec), spec.text)


def check_opener(spec: ModelSpec) -> None:
    """Raise UnknownNameError for a string whose model nothing opens. Runs no code of others, unlike `find_opener`."""
    if spec.scheme in registry.targets("models") or _place_of_code(spec.scheme):
        return
    error = registry.unknown("model", spec.scheme, registry.names("models"))
    if spec.scheme.endswith(".py") or spec.target.isidentifier():
        hint = "; a class of your own is my_model.py:MyModel, or my_package.my_module:MyModel"
        raise UnknownNameError(f"{error}{hint}")
    raise error


def find_opener(spec: ModelSpec) -> Any:
    """What opens the model of a string: that of its scheme, or the class, function or object that `my_model.py:NAME` or
    `my_package.my_module:NAME` names, imported now. Raises UnknownNameError, HookError."""
    check_opener(spec)
    place = _place_of_code(spec.scheme)
    if not place:
        return registry.find("models", spec.scheme)
    if place.endswith(".py") and (folder := str(Path(place).parent)) not in sys.path:
        sys.path.append(folder)  # where the modules lie that it imports
    return registry.load_hook(f"the model {spec.text}", f"{place}:{spec.target}")


def names_model(text: str) -> bool:
    """Whether a text is a model string, by what stands before its colon."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and (scheme in registry.names("models") or bool(_place_of_code(scheme)))


def _place_of_code(scheme: str) -> str:
    """The file or module in which a model of the user's is written; empty where it is neither."""
    names = scheme.split(".")
    if scheme in registry.targets("models"):
        return ""
    for file in (Path(scheme), Path(*names).with_suffix(".py")):
        if file.suffix == ".py" and file.is_file():
            return str(file.resolve())
    is_dotted = len(names) > 1 and all(map(str.isidentifier, names))
    return scheme if is_dotted and _has_module(names) else ""


def _has_module(names: Sequence[str]) -> bool:
    """Whether a module can be imported. `importlib.util.find_spec` alone would run the packages around it."""
    if ".".join(names) in sys.modules:
        return True
    try:
        found = importlib.util.find_spec(names[0])
    except ValueError:  # of a program: `__main__` has no spec
        return False
    for end in range(2, len(names) + 1):
        if found is None or found.submodule_search_locations is None:
            return False
        found = PathFinder.find_spec(".".join(names[:end]), found.submodule_search_locations)
    return found is not None


def _opened(opener: Any, spec: ModelSpec) -> Any:
    """What a function makes of a spec, or an object of a class, which need not take a spec. An object is the model."""
    if callable(getattr(opener, "generate", None)) and not isinstance(opener, type):
        return opener
    own = spec.scheme not in registry.own_targets("models")
    takes_nothing = _binds(opener)
    takes_spec = _binds(opener, spec)
    if own and callable(opener) and not takes_nothing and not takes_spec:
        raise ModelError(
            f"{spec.text} takes {inspect.signature(opener)}, but is called with nothing or with the model string; "
            "name a class with generate(requests, images), or a function that returns an object of one"
        )
    alone = takes_nothing if isinstance(opener, type) else not takes_spec
    try:
        return opener() if own and alone else opener(spec)
    except SnellenError:
        raise
    except Exception as error:
        if not own:
            raise
        raise HookError(f"the model {spec.text} cannot be opened", error) from error


def _binds(opener: Any, *arguments: Any) -> bool:
    """Whether something can be called with these arguments."""
    try:
        inspect.signature(opener).bind(*arguments)
    except TypeError:
        return False
    return True


def _adapted(model: Any, name: str = "") -> Model | AsyncModel:
    if isinstance(model, type):
        raise ModelError(f"{model.__name__} is a class; give an object of it: {model.__name__}()")
    return model if isinstance(model, (Model, AsyncModel)) else ModelAdapter(model, name)


class ModelAdapter(ShownByName):
    """A user's object with `generate(requests, images)` and optionally `loglikelihood`.

    `generate` may return texts and `loglikelihood` lists of numbers instead of Response records. Its `name`,
    `batch_size`, `fingerprint` and `answers_by_sample` are taken over where it has them.
    """

    def __init__(self, model: Any, name: str = "") -> None:
        """`name` is the model string that it was opened by, if it was."""
        if not callable(getattr(model, "generate", None)):
            rule = (
                "; for a function of one request that returns a text there is sn.Scripted(function)"
            )
            raise ModelError(
                f"{type(model).__name__} is not a model: it needs generate(requests, images) returning one text "
                "per request, and may have loglikelihood(requests, images) returning one number per continuation"
                + rule
                * callable(model)
            )
        self._model = model
        self.name = name or str(getattr(model, "name", type(model).__name__))
        self.batch_size = int(getattr(model, "batch_size", 16))
        self.answers_by_sample = answers_by_sample(model)
        scores = callable(getattr(model, "loglikelihood", None))
        self.kinds: frozenset[Kind] = ALL_KINDS if scores else frozenset({"generate"})

    def fingerprint(self) -> dict[str, str]:
        from snellen.models.object_digest import object_fingerprint

        return object_fingerprint(self._model)

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        replies = self._model.generate(requests, images)
        if isinstance(replies, str) or not isinstance(replies, Iterable):
            raise ModelError(
                f"{self.name}: generate returned {replies!r}, not a list with a text for each request"
            )
        return [Response(text=reply) if isinstance(reply, str) else reply for reply in replies]

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        from snellen.records import ContinuationScore

        replies = self._model.loglikelihood(requests, images)
        try:
            return [
                reply
                if isinstance(reply, Response)
                else Response(
                    scores=tuple(
                        ContinuationScore(float(value), 0, len(text.encode()))
                        for value, text in zip(reply, request.continuations, strict=True)
                    )
                )
                for reply, request in zip(replies, requests, strict=True)
            ]
        except (TypeError, ValueError) as error:
            fault = "not a list with a number for each continuation of each request"
            raise ModelError(
                f"{self.name}: loglikelihood returned {replies!r:.100}, {fault}"
            ) from error


# --- The values of a model string's options: from text to what the option's type wants, and what is ---


_EXAMPLES = ('["one", "two"]', '{"name": "value"}', "true", "0.5", "1")
"""From the most specific type to the least: what can be a table or a flag is not taken for a number."""
_NOUNS: dict[type[msgspec_inspect.Type], str] = {
    msgspec_inspect.BoolType: "true or false",
    msgspec_inspect.IntType: "a whole number",
    msgspec_inspect.FloatType: "a number",
    msgspec_inspect.DictType: "a table in JSON",
    msgspec_inspect.VarTupleType: "a text, or a list of texts in JSON",
}
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def option_value(text: str, kind: Any) -> Any:
    """The value that a text stands for: tables as JSON, lists as JSON or as one text. Raises msgspec's errors."""
    if get_origin(kind) is dict:
        value = msgspec.json.decode(text)
    elif get_origin(kind) is tuple:
        value = msgspec.json.decode(text) if text.startswith("[") else [text]
    else:
        value = text
    return msgspec.convert(value, kind, strict=False)


def option_fault(name: str, text: str, kind: Any) -> str:
    """What is wrong with an option whose text has no value, and what to write instead."""
    alternatives = [
        alternative
        for alternative in _alternatives(kind)
        if not isinstance(alternative, msgspec_inspect.NoneType)
    ]
    choices = [
        str(value)
        for alternative in alternatives
        if isinstance(alternative, msgspec_inspect.LiteralType)
        for value in alternative.values
        if value
    ]
    if choices:
        return str(registry.unknown(f"value of {name}", text, choices))
    nouns = " or ".join(
        _NOUNS[type(alternative)] + _limits(alternative)
        for alternative in alternatives
        if type(alternative) in _NOUNS
    )
    fault = (
        f"{name}={text!r} is not {nouns}"
        if nouns
        else f"{name}={text!r} is not a value of this option"
    )
    example = _example(text, kind)
    return f"{fault}; write {name}={example}" if example else fault


def _alternatives(kind: Any) -> tuple[msgspec_inspect.Type, ...]:
    described = msgspec_inspect.type_info(kind)
    return described.types if isinstance(described, msgspec_inspect.UnionType) else (described,)


def _limits(number: msgspec_inspect.Type) -> str:
    """` that is at least 0 and at most 1`."""
    limits = {words: getattr(number, limit, None) for limit, words in _LIMITS.items()}
    stated = " and ".join(
        f"{words} {value:g}" for words, value in limits.items() if value is not None
    )
    return f" that is {stated}" if stated else ""


def _example(text: str, kind: Any) -> str:
    """A correction: the text with a decimal point, where a comma was all that was wrong."""
    with suppress(msgspec.MsgspecError):
        if isinstance(option_value(text.replace(",", "."), kind), float):
            return text.replace(",", ".")
    for example in _EXAMPLES:
        with suppress(msgspec.MsgspecError):
            option_value(example, kind)
            return f"{example}, for example"
    return ""


# --- where the checkpoint of a model string lies, told without loading anything ---------------------------------------


def locate_checkpoint(spec: ModelSpec) -> tuple[str, str]:
    """The folder or repository, and the revision. Raises ModelError for a folder without a model, and for what is no
    repository's name."""
    target = spec.target
    if target.startswith((".", "/", "~")) or Path(target).is_dir():
        folder = Path(target).expanduser()
        if not folder.is_dir():
            raise ModelError(f"{spec.text}: there is no folder {folder}; check the path")
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{spec.text}: {folder} has no config.json; point at the folder save_pretrained wrote"
            )
        return str(folder), ""
    name, _, revision = target.partition("@")
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        raise ModelError(
            f"{spec.text}: {name!r} is not a repository name; write hf:org/name[@revision] or hf:./folder"
        )
    return name, revision


# --- API keys come from the environment: a model string is stored with the run and printed ----------------------------


def refuse_secrets(spec: ModelSpec) -> None:
    """Raise ModelError for a key in a model string. The errors do not repeat the key."""
    variable = spec.options.get("api_key_env", "")
    if "api_key" in spec.options or not re.fullmatch(r"[A-Za-z_]\w*|", variable):
        raise ModelError(
            f"{spec.scheme}: a key does not belong in the model string, which is stored with the run; "
            "put it into an environment variable and write ?api_key_env=ITS_NAME"
        )
    if re.search(r"://[^/]*@", spec.target):
        raise ModelError(
            f"{spec.scheme}: a user or password does not belong in the URL; write ?api_key_env=NAME_OF_VARIABLE"
        )
    fields = None
    with suppress(msgspec.DecodeError):
        fields = msgspec.json.decode(spec.options.get("extra_body", "null"))
    others = {name: value for name, value in spec.options.items() if name != "api_key_env"}
    refuse_written_keys(spec.scheme, spec.target, fields, others)


def api_key(spec: ModelSpec, variable: str, usual: Sequence[str], otherwise: str = "") -> str:
    """The key in the environment variable named, or in the first of the `usual` ones that is set.

    Empty where neither is given. Raises ModelError for a variable that is not set or holds no key; `otherwise` says
    what else can be done.
    """
    names = [variable] if variable else list(usual)
    if not names:
        return ""
    name = next((name for name in names if os.environ.get(name, "").strip()), "")
    if not name:
        hint = f" or {otherwise}" if otherwise and not variable else ""
        raise ModelError(
            f"{spec.text}: the environment variable {' or '.join(names)} is not set; put the API key into it{hint}"
        )
    key = os.environ[name].strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelError(
            f"{spec.text}: the environment variable {name} does not hold an API key; set it again"
        )
    return Secret(key).reveal()
