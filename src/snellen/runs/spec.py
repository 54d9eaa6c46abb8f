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
from snellen.models.model_strings import as_model_string
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
            "Model strings; in Python also objects. Each model gets its own run. The first "
            "argument of `evaluate` and of `snellen run`.",
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
            "Model for a role that a protocol needs, such as questioner=openai:NAME@URL. A table "
            "in a file, a dict in Python.",
            metavar="ROLE=MODEL",
            page="reasoning.md",
        ),
    ] = ()
    method: Annotated[MethodChoice, Option("Evaluation method if no protocol is given.")] = (
        "generation"
    )
    controls: Annotated[
        tuple[Picture, ...],
        Option(
            "Also run everything with a grey image (blank), the image of another question "
            "(shuffled), or no image (text).",
            page="controls.md",
        ),
    ] = ()
    where: Annotated[
        str,
        Option(
            "Use only samples that meet this condition, such as \"dimension == 'CG' and level == "
            "'easy'\"."
        ),
    ] = ""
    held_out_for: Annotated[
        tuple[str, ...],
        Option(
            "Exclude benchmarks whose data one of these models was trained on, according to their "
            "model cards.",
            metavar="CARD,...",
        ),
    ] = ()
    cards: Annotated[str, Option("TOML file with your own model cards.")] = ""
    limit: Annotated[
        Count | None,
        Option(
            "Maximum samples per benchmark. A larger limit includes the samples of a smaller one.",
            unless="all",
        ),
    ] = None
    templates: Annotated[
        str,
        Option(
            "Prompt templates: a TOML file, or the name of a set: `snellen`, `data` (instructions "
            "that come with the benchmark), a set that an entry or suite declares (official, "
            "lmms-eval, vlmevalkit), or `as-published` (the wording of each suite's paper; the "
            "default for runs scored as published).",
            page="prompt-sets.md",
        ),
    ] = ""
    prompt: Annotated[
        str,
        Option(
            "Prompt that replaces the instruction and the question; `{question}` inserts the "
            "question. Options follow as usual."
        ),
    ] = ""
    prefix: Annotated[
        bool, Option("Start the reply to a multiple-choice question with `The answer is`.")
    ] = True
    few_shot: Annotated[
        AnyCount,
        Option(
            "Number of examples with answers before each question.",
            metavar="N",
            page="few-shot.md",
        ),
    ] = 0
    few_shot_from: Annotated[
        str,
        Option(
            "Benchmark (name or folder) to take the examples from.",
            unless="each one's own",
            metavar="BENCHMARK",
        ),
    ] = ""
    few_shot_same: Annotated[
        bool,
        Option(
            "Use the same examples for all questions instead of drawing them for each question."
        ),
    ] = False
    few_shot_seed: Annotated[int, Option("Random seed for drawing the examples.")] = 0
    temperature: Annotated[
        Temperature | None,
        Option("Sampling temperature; 0 is greedy.", unless="the prompt set's, else 0"),
    ] = None
    top_p: Annotated[
        Share | None, Option("Nucleus sampling probability.", unless="the prompt set's, else 1")
    ] = None
    seed: Annotated[
        int, Option("Random seed for sampled replies and for the question order of `until`.")
    ] = 0
    stop: Annotated[tuple[str, ...], Option("Stop sequence.")] = ()
    max_new_tokens: Annotated[
        Count | None,
        Option(
            "Maximum tokens of a reply. Raise it for reasoning models.", unless="the benchmark's"
        ),
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
            "Run in random order and stop when the interval of a mean is narrow enough: 'accuracy "
            "±2' (percentage points). The same command without it continues.",
            metavar="RULE",
            page="adaptive.md",
        ),
    ] = ""
    name: Annotated[
        str,
        Option(
            "Name of the run's folder in `runs`. Several models get `name-0`, `name-1`, ...",
            unless="from what is asked",
        ),
    ] = ""
    label: Annotated[
        str,
        Option(
            "Name of the model in tables, reports and exports. Several models get -0, -1, ... "
            "appended.",
            unless="its name, without its address",
        ),
    ] = ""
    runs: Annotated[str, Option("Folder that contains the runs.")] = "runs"
    workers: Annotated[
        int,
        Meta(ge=1, le=MAX_WORKERS),
        Option("Worker processes. Each loads the model, on its own GPU if there are several."),
    ] = 1
    ray: Annotated[
        str,
        Option(
            "Run on a Ray cluster: auto (a running cluster, or else this machine alone), local "
            "(this machine alone), or HOST:PORT of the head node. --ray as the last flag without "
            "a value means auto.",
            metavar="[ADDRESS]",
            alone="auto",
            page="cluster.md",
        ),
    ] = ""
    ray_workers: Annotated[
        Count | None,
        Option(
            "Maximum workers on the cluster. Each loads the model.",
            unless="as many as the GPUs allow; without GPUs one per machine",
        ),
    ] = None
    gpus_per_worker: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Option(
            "GPUs per worker on the cluster; with 0.5, two workers share a GPU.",
            unless="1, where there are any",
        ),
    ] = None
    window: Annotated[
        AnyCount,
        Option("Number of requests passed to a local model at once.", unless="0, the model's own"),
    ] = 0
    error_budget: Annotated[
        Share,
        Option(
            "Maximum share of failed requests; above it the exit code is 3 (`ErrorBudgetError`)."
        ),
    ] = 0.0
    price: Annotated[
        TokenPrice | None,
        Option(
            "Price per million input tokens and per million output tokens (0.15,0.6). Shows what "
            "the run costs.",
            metavar="IN,OUT",
        ),
    ] = None
    max_cost: Annotated[
        Positive | None,
        Option("Stop sending requests when this session has cost this much. Requires `price`."),
    ] = None
    max_requests: Annotated[Count | None, Option("Maximum requests sent in this session.")] = None
    max_time: Annotated[
        Positive | None,
        Option(
            "Stop sending requests after this many seconds. On the command line also 30m, 2h.",
            metavar="TIME",
        ),
    ] = None
    cache: Annotated[
        str,
        Option(
            "Folder for replies shared by several runs. Requests whose reply it contains are not "
            "sent again.",
            metavar="DIR",
        ),
    ] = ""
    strict: Annotated[
        bool,
        Option(
            "Stop before sending any request if a benchmark cannot be fetched.",
            unless="no: continue without it, and exit with 3 (`AbsentBenchmarkError`)",
        ),
    ] = False
    moved: Annotated[
        bool,
        Option(
            "Resume although the model has a new address, or its server reports another model. "
            "Use it if the model is the same.",
            unless="no: stop with an error",
            page="models-openai.md",
        ),
    ] = False
    allow_same_requests: Annotated[
        bool,
        Option(
            "Allow samples that send the same request to share a reply although their answers "
            "differ.",
            unless="no: stop with an error",
        ),
    ] = False
    report: Annotated[
        bool, Option("Write report.html to the run's folder.", unless="yes; in `evaluate` no")
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
            "How choices are extracted from replies: standard (standard?error=0.01 for fewer "
            "errors), strict, legacy:...",
            page="extraction.md",
        ),
    ] = "standard"
    likelihood_rule: Annotated[
        RuleChoice,
        Option(
            "How token log-likelihoods are combined; own: as the benchmark declares, usually sum."
        ),
    ] = "own"
    metrics: Annotated[
        tuple[str, ...],
        Option(
            "Additional metric (see `snellen list metrics`).",
            unless="the benchmark's",
            page="metrics.md",
        ),
    ] = ()
    unparsed: Annotated[
        Unparsed,
        Option("Score of unparsed replies: not-right, or legacy-random (a random guess)."),
    ] = "not-right"
    guess_seed: Annotated[int, Option("Random seed of the guess.")] = 0
    as_published: Annotated[
        bool,
        Option(
            "Use the extraction rules, metrics and scale of each suite's paper. results.json "
            "contains both.",
            page="numbers.md",
        ),
    ] = False


class JudgeSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which models read the replies that rules cannot, and mark open answers; how they are asked."""

    models: Annotated[
        tuple[Any, ...],
        Option(
            "Judge model for unparsed and uncertain replies, and for judged metrics. Repeat for a "
            "majority vote.",
            flag="--judge",
            metavar="MODEL",
            page="judging.md",
        ),
    ] = ()
    prompt: Annotated[
        str,
        Option("Prompt of the judge: delimited, paper, or with --as-published the suite's own."),
    ] = "delimited"
    max_tokens: Annotated[
        Count, Option("Maximum tokens of a verdict. Raise it for reasoning models.")
    ] = 16
    structured: Annotated[
        bool, Option("Constrain the judge to valid verdicts (structured output of its server).")
    ] = False
    price: Annotated[
        TokenPrice | None,
        Option(
            "Price per million input and output tokens of the judge. Shows the maximum cost "
            "before it is called.",
            metavar="IN,OUT",
        ),
    ] = None
    failures: Annotated[
        Share,
        Option(
            "Maximum share of replies without a verdict; above it nothing is scored. 1 allows any "
            "share."
        ),
    ] = 0.05
    moved: Annotated[
        bool,
        Option(
            "Keep earlier verdicts although the judge's server reports another model. Use it if "
            "the judge is the same.",
            unless="no: stop with an error",
        ),
    ] = False
    calibrate: Annotated[
        bool,
        Option(
            "Also measure the agreement of each judge with people on labelled difficult replies."
        ),
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
        fields["roles"] = parse_role_models(fields["roles"], where)
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


def parse_role_models(roles: Any, where: str = "") -> RoleModels:
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
