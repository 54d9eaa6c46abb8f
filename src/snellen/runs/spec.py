"""What a user asks for, in plain words: one record behind `evaluate()`, `snellen run`, exam.toml, workers and manifest.

    RunSpec                   what is asked of which models, and how the work is done
      .scoring  ScoringSpec   how replies are read and scored: [scoring] in exam.toml
      .judge    JudgeSpec     which models read and mark replies: [judge] in exam.toml, flags --judge...

`snellen.runs.plan` looks the names up that stand here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, fields, replace

from snellen.errors import DataError, UnknownNameError
from snellen.formats.decoding import parse_toml
from snellen.models.base import as_model_string
from snellen.paths import check_folder_name
from snellen.protocols.control import Picture
from snellen.protocols.prediction import RuleChoice
from snellen.records import METHODS, Decoding, Method
from snellen.registry import unknown

MethodChoice = Literal["generation", "likelihood", "both"]
Unparsed = Literal["not-right", "legacy-random"]
MAX_WORKERS = 64

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
RoleModels = tuple[tuple[str, str], ...]
"""Pairs of a role and the model string of who plays it; a table in exam.toml, a dict in Python."""
TokenPrice = tuple[float, float]
"""Of a million tokens read, and of a million tokens written, in any currency."""


class ScoringSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How replies are read and scored. Scoring again by another one asks the model nothing."""

    extractor: str = "standard"
    """Rules that read replies: standard, strict, legacy:..."""
    likelihood_rule: RuleChoice = "own"
    """How log-likelihoods are reduced: sum, mean, byte, softmax, pmi, conditional; own: as each benchmark says."""
    metrics: tuple[str, ...] = ()
    """Metrics besides those of each benchmark."""
    semantic: bool = False
    """Read what the extractor leaves open by sentence embeddings, offline."""
    unparsed: Unparsed = "not-right"
    """What becomes of replies that nothing could read: not-right, or legacy-random (a random guess)."""
    guess_seed: int = 0
    """Seed of that guess."""
    as_published: bool = False
    """Give the numbers by the extractor, metrics and scale of the tables of each suite's paper."""


class JudgeSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which models read the replies that rules cannot, and mark open answers; how they are asked."""

    models: tuple[Any, ...] = ()
    """Model strings, from Python also model objects; of several the majority counts."""
    prompt: str = "delimited"
    """How a judge is asked to match: delimited, paper. As published, a suite that says how is asked its way."""
    likely: bool = False
    """Also ask about replies whose reading is likely and not certain."""
    max_tokens: Count = 16
    """Longest verdict; judges that reason need more."""
    structured: bool = False
    """Hold a judge behind a server to valid verdicts."""
    price: TokenPrice | None = None
    """Lets the line before a judge is asked say what it may cost."""
    failures: Share = 0.05
    """Share of replies without a verdict above which nothing is scored; 1: any."""
    calibrate: bool = False
    """Say how far each judge agrees with people on labelled hard replies."""


class RunSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is asked to do: which models answer what, asked in which way, and how the work is done."""

    models: tuple[str, ...] = ()
    """Model strings; each model has a run of its own."""
    benchmarks: tuple[str, ...] = ()
    """Names, globs, suites or folders."""
    protocols: tuple[str, ...] = ()
    """None: each benchmark as its suite is asked by `method`."""
    roles: RoleModels = ()
    """The other models that a protocol asks, by role: questioner, reasoner."""
    method: MethodChoice = "generation"
    """Without protocols: generation, likelihood or both."""
    controls: tuple[Picture, ...] = ()
    """Also ask everything with something else to see: blank (a grey picture), shuffled (another question's), text."""
    where: str = ""
    """A condition on facts and tags, for fewer samples."""
    held_out_for: tuple[str, ...] = ()
    """Leave out benchmarks whose data one of these models was trained on, by model cards."""
    cards: str = ""
    """A TOML file with model cards of your own."""
    limit: Count | None = None
    """At most so many samples per benchmark; a larger limit keeps those of a smaller one."""
    until: str = ""
    """Ask pictures in a random order until a mean is known so well: `accuracy ±2`. The same without goes on."""
    name: str = ""
    """Folder of the run within `runs`; made from what is asked unless given."""
    runs: str = "runs"
    templates: str = ""
    """A TOML file with your own wording; `data` for that of the benchmarks' own data; the name of a suite's set; or
    `as-published` for each suite's as its paper asked, the default where runs are scored as published."""
    prompt: str = ""
    """Asked in place of every instruction and question; `{question}` in it stands for the question."""
    prefix: bool = True
    """Open the reply to a question with options by the template's words, `The answer is`."""
    few_shot: Annotated[int, Meta(ge=0)] = 0
    """Examples that are shown, with their answers, before each question."""
    few_shot_from: str = ""
    """The benchmark, by name or folder, whose examples are shown; empty: each benchmark's own."""
    few_shot_same: bool = False
    """Show the same examples before all questions; else they are drawn for each."""
    few_shot_seed: int = 0
    """Seed of drawing them."""
    temperature: Annotated[float, Meta(ge=0)] = 0.0
    """0: greedy."""
    top_p: Share = 1.0
    seed: int = 0
    """Seed of sampled replies."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply."""
    max_new_tokens: Count | None = None
    """Longest reply, instead of each benchmark's own."""
    workers: Annotated[int, Meta(ge=1, le=MAX_WORKERS)] = 1
    """Processes that share the work, each with the model."""
    ray: str = ""
    """Ask on a Ray cluster that this machine belongs to: `auto` (one that runs here, else one of this machine alone),
    `local` (the latter), or HOST:PORT of its head."""
    ray_workers: Count | None = None
    """Most workers on the cluster, each with the model; None: as many as it has GPUs for, or one for each machine."""
    gpus_per_worker: Annotated[float, Meta(ge=0)] | None = None
    """GPUs of each worker on the cluster; None: one where it has any. A part of one lets several workers share it."""
    window: Annotated[int, Meta(ge=0)] = 0
    """Requests that a local model gets at once; 0: the model's own batch size."""
    error_budget: Share = 0.0
    """Share of failed requests above which the run counts as failed."""
    price: TokenPrice | None = None
    """Of the evaluated model's tokens: what a run cost, and may cost, is then said in money."""
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """Ask no more once the answers of this call have cost so much, at `price`."""
    max_requests: Count | None = None
    """Ask no more than so many requests in this call."""
    max_time: Annotated[float, Meta(gt=0)] | None = None
    """Ask no more after so many seconds."""
    cache: str = ""
    """A folder in which answers are kept across runs; whatever the same model was asked there is not asked again."""
    allow_same_requests: bool = False
    """Let one reply serve samples that ask the very same although their answers differ, instead of refusing to."""
    report: bool = True
    """Write report.html into the run's folder."""
    scoring: ScoringSpec = ScoringSpec()
    judge: JudgeSpec = JudgeSpec()

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods that `method` stands for."""
        return METHODS if self.method == "both" else (self.method,)

    @property
    def is_asked_elsewhere(self) -> bool:
        """Whether other processes than this one load the models."""
        return self.workers > 1 or bool(self.ray)

    @property
    def decoding(self) -> Decoding:
        """How replies are sampled; the longest has length 0 where each benchmark has its own limit."""
        return Decoding(self.max_new_tokens or 0, self.temperature, self.top_p, self.seed, self.stop)

    @property
    def few_shot_drawing(self) -> tuple[int, ...]:
        """How many examples are shown, whether the same ones, and their seed; empty where none are."""
        return (self.few_shot, int(self.few_shot_same), self.few_shot_seed) if self.few_shot else ()

    def for_model(self, number: int, name: str) -> RunSpec:
        """What is asked of one of several models: a name of the run gets the model's number."""
        own = f"{self.name}-{number}" if self.name and len(self.models) > 1 else self.name
        return replace(self, models=(name,), name=own)

    def of_model(self) -> RunSpec:
        """What the model is asked, without what becomes of its replies later."""
        return replace(self, scoring=ScoringSpec(), judge=JudgeSpec())


SpecT = TypeVar("SpecT", RunSpec, ScoringSpec, JudgeSpec)
_PLAIN_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_TABLES: dict[str, Any] = {"scoring": ScoringSpec, "judge": JudgeSpec}
_ROLE = re.compile(r"[a-z][a-z0-9_-]*")
_RAY_ADDRESS = re.compile(r"auto|local|(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


def run_spec(content: Mapping[str, Any], where: str = "") -> RunSpec:
    """The record of fields that were given, `scoring` and `judge` as records or tables, `roles` as a table.

    A fault begins with `where`. Raises DataError for an unknown field, or a value of another type or out of range,
    and UnknownNameError for a name that is none of a field's choices.
    """
    _check_names(content, RunSpec, where)
    tables = {
        name: _converted(content[name], form, where, f"{name}.")
        for name, form in _TABLES.items()
        if isinstance(content.get(name), (Mapping, form))
    }
    if isinstance(content.get("models"), (list, tuple)):
        content = {**content, "models": [as_model_string(model) for model in content["models"]]}
    roles = {"roles": role_models(content["roles"], where)} if "roles" in content else {}
    spec = _converted({**content, **tables, **roles}, RunSpec, where)
    if spec.max_cost is not None and spec.price is None:
        raise DataError(f"{where}max_cost: nobody knows what a token costs; give its price (--price IN,OUT)")
    if spec.name:
        check_folder_name(spec.name, f"{where}name: ")
    return spec


def check_sharing(spec: RunSpec) -> None:
    """Raise DataError for ways to share the work that cannot be had together, or for no address of a cluster."""
    if spec.ray and not _RAY_ADDRESS.fullmatch(spec.ray):
        raise DataError(
            f"ray: {spec.ray!r} is no address of a cluster; write HOST:PORT, auto or local "
            "(on the command line --ray=ADDRESS, or --ray at the end)"
        )
    if spec.ray and spec.workers > 1:
        raise DataError("workers: these are processes of this machine; with ray say ray_workers")
    if not spec.ray and (spec.ray_workers is not None or spec.gpus_per_worker is not None):
        raise DataError("ray_workers and gpus_per_worker are of a cluster; name it, ray = 'auto' (--ray)")


def share_of_run(text: str) -> tuple[int, int]:
    """`3/8` as (3, 8): which share, from 1, of how many. Raises DataError."""
    number, slash, shares = text.partition("/")
    if slash and number.isdecimal() and shares.isdecimal() and 1 <= int(number) <= int(shares) <= MAX_WORKERS:
        return int(number), int(shares)
    raise DataError(f"share: {text!r} is not K/N with K from 1 to N and N at most {MAX_WORKERS}, such as 3/8")


def role_models(roles: Any, where: str = "") -> RoleModels:
    """The pairs of a table, in order of the roles. Raises DataError for what is no table, role or model string."""
    if not isinstance(roles, Mapping):
        raise DataError(f"{where}roles: expected a table, got {roles!r}")
    for role, model in roles.items():
        if not _ROLE.fullmatch(role):
            raise DataError(f"{where}{role!r} is no role; write small letters, as in questioner")
        if not isinstance(model, str):
            raise DataError(f"{where}roles.{role}: expected a text, got {model!r}")
    return tuple(sorted(roles.items()))


def scoring_spec(content: Mapping[str, Any] | ScoringSpec) -> ScoringSpec:
    """The same for how replies are scored."""
    return _converted(content, ScoringSpec)


def judge_spec(content: Mapping[str, Any] | JudgeSpec) -> JudgeSpec:
    """The same for judges."""
    return _converted(content, JudgeSpec)


def read_run_spec(path: Path) -> dict[str, Any]:
    """What a TOML file says of a run, to be laid below flags. Raises DataError or UnknownNameError naming the file."""
    try:
        content = parse_toml(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None
    spec = run_spec(content, f"{path}: ")
    if wrong := [model for model in spec.judge.models if not isinstance(model, str)]:
        raise DataError(f"{path}: judge.models: expected a text, got {wrong[0]!r}")
    return content


def overlaid(content: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says with what was given beside it, which wins; tables field by field."""
    tables = {name: {**content.get(name, {}), **given.get(name, {})} for name in (*_TABLES, "roles")}
    return {**content, **given, **tables}


def as_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def _converted(content: Mapping[str, Any] | SpecT, form: type[SpecT], where: str = "", table: str = "") -> SpecT:
    given = dict(content) if isinstance(content, Mapping) else asdict(content)
    _check_names(given, form, where, table)
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(" - at `$.")
        fault = re.sub("`([^`]+)`", lambda match: _plain_type(match[1]), fault)
        raise DataError(f"{where}{table}{place.rstrip('`')}: {fault[:1].lower()}{fault[1:]}") from None


def _plain_type(name: str) -> str:
    """`int | null` as a whole number: what a TOML file may have there."""
    return " or ".join(_PLAIN_TYPES.get(part, part) for part in name.split(" | ") if part != "null")


def _check_names(content: Mapping[str, Any], form: type[Struct], where: str, table: str = "") -> None:
    types = {field.name: field.type for field in fields(form)}
    for name, value in content.items():
        if name not in types:
            what = f"field of [{table.rstrip('.')}]" if table else "field"
            raise DataError(f"{where}{unknown(what, name, types)}")
        choices = get_args(types[name]) if get_origin(types[name]) is Literal else ()
        if choices and isinstance(value, str) and value not in choices:
            raise UnknownNameError(f"{where}{unknown(f'value of {table}{name}', value, choices)}")
