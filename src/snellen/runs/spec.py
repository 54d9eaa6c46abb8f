"""What a user asks for, in plain words: one record behind `evaluate()`, `snellen run`, exam.toml, workers and manifest.

    RunSpec
      .question   QuestionSpec    what identifies an answer: which models answer what, asked in which way
      .execution  ExecutionSpec   how the work is done, how far it goes, and where things are kept
      .scoring    ScoringSpec     how replies are read and scored: [scoring] in exam.toml
      .judge      JudgeSpec       which models read and mark replies: [judge] in exam.toml, flags --judge...

A field stands here and nowhere else: flags, keywords of Python, files and the tables of docs/reference/run-fields.md
are made of its type, default and `Option`; `make fields` writes those that are files. For users the fields of question
and execution stand side by side. `snellen.runs.plan` looks the names up that stand here.
"""

# Without postponed annotations: flags are made of these types, and to read them from texts takes 10 ms.

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from snellen.common.foreign import read_text
from snellen.common.paths import check_folder_name
from snellen.errors import DataError, UnknownNameError
from snellen.formats.json_files import parse_toml
from snellen.models.base import as_model_string
from snellen.protocols.prediction import RuleChoice
from snellen.protocols.wrapping import Picture
from snellen.records import METHODS, Decoding, Method
from snellen.registry import unknown

# --- what a field of a record says of itself: flags, keywords, files and tables are made of it ------------------------


FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Option(Struct, frozen=True):
    """Stands in the type of a field: `Annotated[int, Option("What it is.")]`."""

    help: str
    unless: str = ""
    """What applies when the option is not given, where the default does not show it."""
    flag: str = ""
    """One more way to write its flag: -p."""
    metavar: str = ""
    """How its value is written on the command line: IN,OUT."""
    alone: str = ""
    """What its flag means without a value."""
    page: str = ""
    """The page of the documentation that has more."""


class RecordField(Struct, frozen=True):
    """A field of a record, with its type taken apart."""

    name: str
    type: Any
    """The type without None and without annotations."""
    default: Any
    limits: Meta
    option: Option

    @property
    def is_list(self) -> bool:
        """Whether it holds any number of things of one type."""
        return get_origin(self.type) is tuple and get_args(self.type)[1:] == (...,)

    @property
    def is_table(self) -> bool:
        """Whether each of the things is a name and a value: NAME=VALUE on the command line."""
        return self.is_list and get_origin(get_args(self.type)[0]) is tuple

    @property
    def flag(self) -> str:
        """Its flag on the command line, without the `no-` of one that says no."""
        if self.option.flag.startswith("--"):
            return self.option.flag
        flag = f"--{self.name.replace('_', '-')}"
        return flag.removesuffix("s") if self.is_list else flag

    @property
    def choices(self) -> tuple[str, ...]:
        """The names that it, or each of its items, may be; empty where it is any text."""
        item = get_args(self.type)[0] if self.is_list else self.type
        return get_args(item) if get_origin(item) is Literal else ()

    def plain(self, value: Any) -> Any:
        """A value as the record holds it: a path is its text, and one text, where there are several, a list of it."""
        if isinstance(value, Path):
            value = str(value)
        if not self.is_list or isinstance(value, Mapping) or not isinstance(value, Iterable):
            return value
        items = (value,) if isinstance(value, str) else value
        return tuple(str(item) if isinstance(item, Path) else item for item in items)


@cache
def record_fields(form: type[Struct]) -> Mapping[str, RecordField]:
    """The fields of a record that have an `Option`, by name, in order. Its annotations are types, not texts."""
    hints = form.__annotations__
    fields = {}
    for field in msgspec.structs.fields(form):
        base, notes = _taken_apart(hints[field.name])
        limits = next((note for note in notes if isinstance(note, Meta)), Meta())
        for option in (note for note in notes if isinstance(note, Option)):
            fields[field.name] = RecordField(field.name, base, field.default, limits, option)
    return fields


def shows_fields(*forms: type[Struct], **defaults: Any) -> Callable[[FunctionT], FunctionT]:
    """Give a function that takes fields of records as keywords a signature that lists them, some with other defaults.

    `help()` shows it, and notebooks complete by it.
    """

    def with_signature(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        parameters = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        fields = {name: field for form in forms for name, field in record_fields(form).items()}
        keywords = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, field.default)
            )
            for name, field in fields.items()
            if not {name, name.removesuffix("s")} & signature.parameters.keys()
        ]
        function.__dict__["__signature__"] = signature.replace(parameters=[*parameters, *keywords])
        return function

    return with_signature


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without None and annotations, and these annotations."""
    if get_origin(hint) is Annotated:
        base, notes = _taken_apart(hint.__origin__)
        return base, (*notes, *hint.__metadata__)
    if get_origin(hint) in (Union, UnionType):
        return _taken_apart(next(part for part in get_args(hint) if part is not NoneType))
    return hint, ()


# --- the records ------------------------------------------------------------------------------------------------------


# Without postponed annotations: flags are made of these types, and to read them from texts takes 10 ms.


MethodChoice = Literal["generation", "likelihood", "both"]
Unparsed = Literal["not-right", "legacy-random"]
MAX_WORKERS = 64

Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
Temperature = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
AnyCount = Annotated[int, Meta(ge=0)]
RoleModels = tuple[tuple[str, str], ...]
"""Pairs of a role and the model string of who plays it; a table in exam.toml, a dict in Python."""
TokenPrice = tuple[float, float]
"""The price of a million tokens read and of a million tokens written, in any currency."""


class QuestionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked, of which models, and how. Runs that ask the same are one run."""

    models: Annotated[
        tuple[str, ...],
        Option(
            "Model strings, from Python also objects; each model has a run of its own. The first argument of `evaluate` "
            "and of `snellen run`.",
            page="models.md",
        ),
    ] = ()
    benchmarks: Annotated[tuple[str, ...], Option("Names, globs, suites or folders.")] = ()
    protocols: Annotated[
        tuple[str, ...],
        Option(
            "Protocol, such as circular or 'instability?m=5'.",
            unless="the suite's own, else vanilla",
            flag="-p",
            page="protocols.md",
        ),
    ] = ()
    roles: Annotated[
        RoleModels,
        Option(
            "Another model that a protocol asks, by its role, such as questioner=openai:NAME@URL; a table in a file, a "
            "dict in Python.",
            metavar="ROLE=MODEL",
            page="reasoning.md",
        ),
    ] = ()
    method: Annotated[
        MethodChoice, Option("Without protocols: by generation, by likelihood, or by both.")
    ] = "generation"
    controls: Annotated[
        tuple[Picture, ...],
        Option(
            "Also ask everything with a grey picture (blank), another question's (shuffled), or none (text).",
            page="controls.md",
        ),
    ] = ()
    where: Annotated[
        str,
        Option(
            "Only samples for which this holds, such as \"dimension == 'CG' and level == 'easy'\"."
        ),
    ] = ""
    held_out_for: Annotated[
        tuple[str, ...],
        Option(
            "Leave out benchmarks whose data one of these models was trained on, by model cards.",
            metavar="CARD,...",
        ),
    ] = ()
    cards: Annotated[str, Option("A TOML file with model cards of your own.")] = ""
    limit: Annotated[
        Count | None,
        Option(
            "Most samples per benchmark; a larger limit keeps those of a smaller one.", unless="all"
        ),
    ] = None
    templates: Annotated[
        str,
        Option(
            "A TOML file with your own wording, or the name of a set: `snellen`, `data` (the benchmarks' own data), one "
            "that entries or a suite declare (official, lmms-eval, vlmevalkit), or `as-published`. That is each suite's "
            "wording as its paper asked, and the default where runs are scored as published.",
            page="prompt-sets.md",
        ),
    ] = ""
    prompt: Annotated[
        str,
        Option(
            "Text to ask in place of every instruction and question; `{question}` in it stands for the question. Options "
            "follow as usual."
        ),
    ] = ""
    prefix: Annotated[
        bool, Option("Open the reply to a question with options by `The answer is`.")
    ] = True
    few_shot: Annotated[
        AnyCount,
        Option(
            "Examples shown, with their answers, before each question.",
            metavar="N",
            page="few-shot.md",
        ),
    ] = 0
    few_shot_from: Annotated[
        str,
        Option(
            "The benchmark, by name or folder, whose examples are shown.",
            unless="each one's own",
            metavar="BENCHMARK",
        ),
    ] = ""
    few_shot_same: Annotated[
        bool, Option("Show the same examples before all questions; else they are drawn for each.")
    ] = False
    few_shot_seed: Annotated[int, Option("Seed of drawing them.")] = 0
    temperature: Annotated[
        Temperature | None,
        Option("Sampling temperature; 0 is greedy.", unless="the prompt set's, else 0"),
    ] = None
    top_p: Annotated[
        Share | None, Option("Nucleus sampling.", unless="the prompt set's, else 1")
    ] = None
    seed: Annotated[int, Option("Seed of sampled replies, and of the order of `until`.")] = 0
    stop: Annotated[tuple[str, ...], Option("Text that ends a reply.")] = ()
    max_new_tokens: Annotated[
        Count | None,
        Option("Longest reply; raise it for models that reason.", unless="the benchmark's"),
    ] = None

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods that `method` stands for."""
        return METHODS if self.method == "both" else (self.method,)

    @property
    def decoding(self) -> Decoding:
        """How replies are sampled; the longest has length 0 where each benchmark has its own limit."""
        top_p = 1.0 if self.top_p is None else self.top_p
        return Decoding(
            self.max_new_tokens or 0, self.temperature or 0.0, top_p, self.seed, self.stop
        )

    @property
    def few_shot_drawing(self) -> tuple[int, ...]:
        """How many examples are shown, whether the same ones, and their seed; empty where none are."""
        return (self.few_shot, int(self.few_shot_same), self.few_shot_seed) if self.few_shot else ()


class ExecutionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the work is done, how far it goes and where things are kept. No answer depends on it."""

    until: Annotated[
        str,
        Option(
            "Ask in a random order and stop when a mean is known so well: 'accuracy ±2' (percentage points). The same "
            "without goes on.",
            metavar="RULE",
            page="adaptive.md",
        ),
    ] = ""
    name: Annotated[
        str,
        Option(
            "The run's folder within `runs`, one plain name; with several models `name-0`, `name-1`, ...",
            unless="from what is asked",
        ),
    ] = ""
    label: Annotated[
        str,
        Option(
            "What the model is called in tables, reports and exports; with several models it is followed by -0, -1, ...",
            unless="its name, without its address",
        ),
    ] = ""
    runs: Annotated[str, Option("Folder of runs.")] = "runs"
    workers: Annotated[
        int,
        Meta(ge=1, le=MAX_WORKERS),
        Option(
            "Processes that share the work, each with the model, one GPU each where there are several."
        ),
    ] = 1
    ray: Annotated[
        str,
        Option(
            "Ask on a Ray cluster that this machine belongs to: auto (one that runs here, else one of this machine "
            "alone), local (the latter), or HOST:PORT of its head. Alone, as the last flag, --ray is auto.",
            metavar="[ADDRESS]",
            alone="auto",
            page="cluster.md",
        ),
    ] = ""
    ray_workers: Annotated[
        Count | None,
        Option(
            "Most workers on the cluster, each with the model.",
            unless="as many as it has GPUs for, without GPUs one for each machine",
        ),
    ] = None
    gpus_per_worker: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Option(
            "GPUs of each worker on the cluster; 0.5 lets two share one.",
            unless="1, where there are any",
        ),
    ] = None
    window: Annotated[
        AnyCount, Option("Requests that a local model gets at once.", unless="0, the model's own")
    ] = 0
    error_budget: Annotated[
        Share,
        Option("Share of failed requests above which the exit code is 3 (`ErrorBudgetError`)."),
    ] = 0.0
    price: Annotated[
        TokenPrice | None,
        Option(
            "Prices of a million tokens read and of a million written (0.15,0.6): shows what the run cost, or may cost, in "
            "money.",
            metavar="IN,OUT",
        ),
    ] = None
    max_cost: Annotated[
        Positive | None, Option("Ask no more once this call has cost so much, at `price`.")
    ] = None
    max_requests: Annotated[
        Count | None, Option("Ask no more than so many requests in this call.")
    ] = None
    max_time: Annotated[
        Positive | None,
        Option(
            "Ask no more after so many seconds; on the command line also 30m, 2h.", metavar="TIME"
        ),
    ] = None
    cache: Annotated[
        str,
        Option(
            "Keep answers in this folder across runs, and ask nothing that it already holds.",
            metavar="DIR",
        ),
    ] = ""
    strict: Annotated[
        bool,
        Option(
            "Stop before anything is asked if a benchmark cannot be fetched.",
            unless="no, go on without it, and end with exit code 3 (`AbsentBenchmarkError`)",
        ),
    ] = False
    moved: Annotated[
        bool,
        Option(
            "Go on although the model is now at another address, or its server states another: it is the same model.",
            unless="no, refused",
            page="models-openai.md",
        ),
    ] = False
    allow_same_requests: Annotated[
        bool,
        Option(
            "Let one reply serve samples that ask the very same although their answers differ.",
            unless="no, refused",
        ),
    ] = False
    report: Annotated[
        bool, Option("Write report.html into the run's folder.", unless="yes; in `evaluate` no")
    ] = True

    @property
    def is_asked_elsewhere(self) -> bool:
        """Whether other processes than this one load the models."""
        return self.workers > 1 or bool(self.ray)


class ScoringSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How replies are read and scored. Scoring again with other settings asks the model nothing."""

    extractor: Annotated[
        str,
        Option(
            "Rules that read replies: standard (standard?error=0.01: surer), strict, legacy:...",
            page="extraction.md",
        ),
    ] = "standard"
    likelihood_rule: Annotated[
        RuleChoice,
        Option("How log-likelihoods are reduced; own: as each benchmark's entry says, mostly sum."),
    ] = "own"
    metrics: Annotated[
        tuple[str, ...],
        Option(
            "One more metric (`snellen list metrics`).", unless="the benchmark's", page="metrics.md"
        ),
    ] = ()
    unparsed: Annotated[
        Unparsed,
        Option(
            "Score of replies that nothing could read: not-right, or legacy-random (a random guess)."
        ),
    ] = "not-right"
    guess_seed: Annotated[int, Option("Seed of that guess.")] = 0
    as_published: Annotated[
        bool,
        Option(
            "Use the extractor, metrics and scale of the tables of each suite's paper; results.json has both.",
            page="numbers.md",
        ),
    ] = False


class JudgeSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which models read the replies that rules cannot, and mark open answers; how they are asked."""

    models: Annotated[
        tuple[Any, ...],
        Option(
            "Model that reads replies still unparsed, and computes judged metrics; of several the majority counts.",
            flag="--judge",
            metavar="MODEL",
            page="judging.md",
        ),
    ] = ()
    prompt: Annotated[
        str,
        Option("How a judge is asked to match: delimited, paper; as published, a suite's own way."),
    ] = "delimited"
    max_tokens: Annotated[Count, Option("Longest verdict; raise it for models that reason.")] = 16
    structured: Annotated[bool, Option("Constrain a judge behind a server to valid verdicts.")] = (
        False
    )
    price: Annotated[
        TokenPrice | None,
        Option(
            "Prices of a million tokens read and of a million written: shows what a judge may cost before it is asked.",
            metavar="IN,OUT",
        ),
    ] = None
    failures: Annotated[
        Share, Option("Share of replies without a verdict above which nothing is scored; 1: any.")
    ] = 0.05
    moved: Annotated[
        bool,
        Option(
            "Keep a judge's verdicts although its server now states another model: it is the same judge.",
            unless="no, refused",
        ),
    ] = False
    calibrate: Annotated[
        bool, Option("Also say how far each judge agrees with people on labelled hard replies.")
    ] = False


class RunSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is asked to do."""

    question: QuestionSpec = QuestionSpec()
    execution: ExecutionSpec = ExecutionSpec()
    scoring: Annotated[ScoringSpec, Option("How replies are read and scored.")] = ScoringSpec()
    judge: Annotated[JudgeSpec, Option("Which models read and mark replies.")] = JudgeSpec()

    def with_question(self, **fields: Any) -> "RunSpec":
        """The same with other fields of the question."""
        return replace(self, question=replace(self.question, **fields))

    def with_execution(self, **fields: Any) -> "RunSpec":
        """The same with other fields of the execution."""
        return replace(self, execution=replace(self.execution, **fields))

    def for_model(self, number: int, name: str) -> "RunSpec":
        """Return what is asked of one of several models: name and label of the run get the model's number."""
        run_name = self.execution.name
        label = self.execution.label
        if len(self.question.models) > 1:
            run_name = f"{run_name}-{number}" if run_name else ""
            label = f"{label}-{number}" if label else ""
        return self.with_question(models=(name,)).with_execution(name=run_name, label=label)

    def of_model(self) -> "RunSpec":
        """What the model is asked, without what becomes of its replies later."""
        return RunSpec(question=self.question, execution=self.execution)


SpecT = TypeVar("SpecT", bound=Struct)
_PLAIN_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
TABLES: Mapping[str, type[Struct]] = {"scoring": ScoringSpec, "judge": JudgeSpec}
RUN_FIELDS = (*QuestionSpec.__struct_fields__, *ExecutionSpec.__struct_fields__, *TABLES)
"""What `run_spec` takes: the fields of question and execution side by side, and two tables."""
_ROLE = re.compile(r"[a-z][a-z0-9_-]*")
_RAY_ADDRESS = re.compile(r"auto|local|(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


def run_spec(content: Mapping[str, Any], where: str = "") -> RunSpec:
    """The record of fields that were given, `scoring` and `judge` as records or tables, `roles` as a table.

    A text may stand in the place of a list of texts, a path in that of a text. A fault begins with `where`. Raises
    DataError for an unknown field, or a value of another type or out of range, and UnknownNameError for a name that is
    none of a field's choices.
    """
    check_known(content, RUN_FIELDS, "field", where)
    fields = dict(content)
    if "roles" in fields:
        fields["roles"] = role_models(fields["roles"], where)
    if isinstance(fields.get("models"), (list, tuple)):
        fields["models"] = [as_model_string(model) for model in fields["models"]]
    question = _converted(_part(fields, QuestionSpec), QuestionSpec, where)
    execution = _converted(_part(fields, ExecutionSpec), ExecutionSpec, where)
    if execution.max_cost is not None and execution.price is None:
        raise DataError(
            f"{where}max_cost: nobody knows what a token costs; give its price (--price IN,OUT)"
        )
    if execution.name:
        check_folder_name(execution.name, f"{where}name: ")
    scoring, judge = (
        scoring_spec(fields.get("scoring", {}), where),
        judge_spec(fields.get("judge", {}), where),
    )
    return RunSpec(question=question, execution=execution, scoring=scoring, judge=judge)


def _part(content: Mapping[str, Any], form: type[Struct]) -> dict[str, Any]:
    return {name: content[name] for name in form.__struct_fields__ if name in content}


def check_sharing(execution: ExecutionSpec) -> None:
    """Raise DataError for ways of sharing the work that exclude each other, or for what is not the address of a
    cluster."""
    if execution.ray and not _RAY_ADDRESS.fullmatch(execution.ray):
        raise DataError(
            f"ray: {execution.ray!r} is not an address of a cluster; write HOST:PORT, auto or local "
            "(on the command line --ray=ADDRESS, or --ray at the end)"
        )
    if execution.ray and execution.workers > 1:
        raise DataError("workers: these are processes of this machine; with ray say ray_workers")
    if not execution.ray and (
        execution.ray_workers is not None or execution.gpus_per_worker is not None
    ):
        raise DataError(
            "ray_workers and gpus_per_worker are of a cluster; name it, ray = 'auto' (--ray)"
        )


def share_of_run(text: str) -> tuple[int, int]:
    """`3/8` as (3, 8): which share, from 1, of how many. Raises DataError."""
    number, slash, shares = text.partition("/")
    if (
        slash
        and number.isdecimal()
        and shares.isdecimal()
        and 1 <= int(number) <= int(shares) <= MAX_WORKERS
    ):
        return int(number), int(shares)
    raise DataError(
        f"share: {text!r} is not K/N with K from 1 to N and N at most {MAX_WORKERS}, such as 3/8"
    )


def role_models(roles: Any, where: str = "") -> RoleModels:
    """The pairs of a table, in order of the roles. Raises DataError for what is not a table, role or model string."""
    if not isinstance(roles, Mapping):
        raise DataError(f"{where}roles: expected a table, got {roles!r}")
    for role, model in roles.items():
        if not _ROLE.fullmatch(role):
            raise DataError(f"{where}{role!r} is not a role; write small letters, as in questioner")
        if not isinstance(model, str):
            raise DataError(f"{where}roles.{role}: expected a text, got {model!r}")
    return tuple(sorted(roles.items()))


def scoring_spec(scoring: Mapping[str, Any] | ScoringSpec, where: str = "") -> ScoringSpec:
    """The same for how replies are scored."""
    return _converted(scoring, ScoringSpec, where, "scoring.")


def judge_spec(judge: Any, where: str = "") -> JudgeSpec:
    """The same for judges, of which a model string, an object or a list of these may stand for the table."""
    return _converted(_table(judge), JudgeSpec, where, "judge.")


def read_run_spec(path: Path) -> dict[str, Any]:
    """What a TOML file says of a run, to be laid below flags. Raises DataError or UnknownNameError naming the file."""
    try:
        content = parse_toml(read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None
    spec = run_spec(content, f"{path}: ")
    if wrong := [model for model in spec.judge.models if not isinstance(model, str)]:
        raise DataError(f"{path}: judge.models: expected a text, got {wrong[0]!r}")
    return content


def overlaid(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says with what was given beside it, which wins; tables field by field."""
    tables = {
        name: {**_table(content.get(name, {})), **_table(changes.get(name, {}))}
        for name in (*TABLES, "roles")
    }
    return {**content, **changes, **tables}


def _table(value: Any) -> Mapping[str, Any]:
    """A record or a table as a table; a judge may be named by its models alone."""
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, Mapping):
        return value
    return {"models": value if isinstance(value, (list, tuple)) else (value,)}


def as_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def _converted(
    content: Mapping[str, Any] | SpecT, form: type[SpecT], where: str = "", table: str = ""
) -> SpecT:
    if isinstance(content, (Mapping, Struct)):
        content = _checked(_table(content), form, where, table)
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(" - at `$.")
        fault = re.sub("`([^`]+)`", lambda match: _plain_type(match[1]), fault)
        name = f"{table}{place.rstrip('`')}".rstrip(".")
        raise DataError(f"{where}{name}: {fault[:1].lower()}{fault[1:]}") from None


def _plain_type(name: str) -> str:
    """`int | null` as a whole number: what a TOML file may have there."""
    return " or ".join(_PLAIN_TYPES.get(part, part) for part in name.split(" | ") if part != "null")


def _checked(
    content: Mapping[str, Any], form: type[Struct], where: str, table: str
) -> dict[str, Any]:
    """The fields, of which every one is known, and every name one of its choices; a text for a list is a list of it."""
    fields = record_fields(form)
    check_known(content, fields, f"field of [{table.rstrip('.')}]" if table else "field", where)
    values = {name: fields[name].plain(value) for name, value in content.items()}
    for name, value in values.items():
        if choices := fields[name].choices:
            items = value if isinstance(value, tuple) else (value,)
            check_known(
                (item for item in items if isinstance(item, str)),
                choices,
                f"value of {table}{name}",
                where,
            )
    return values


def check_known(names: Iterable[str], choices: Iterable[str], noun: str, where: str) -> None:
    """Raise UnknownNameError, beginning with `where`, for the first name that is not known."""
    for name in names:
        if name not in choices:
            raise UnknownNameError(f"{where}{unknown(noun, name, choices)}")
