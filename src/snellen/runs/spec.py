"""The record of a run's settings, behind `evaluate()`, `snellen run`, exam.toml, workers and the manifest.

    RunSpec
      .question   QuestionSpec    what identifies an answer: which models answer what, asked in which way
      .execution  ExecutionSpec   how the work is done, how far it goes, and where things are kept
      .scoring    ScoringSpec     how replies are read and scored: [scoring] in exam.toml
      .judge      JudgeSpec       which models read and mark replies: [judge] in exam.toml, flags --judge...

Each field is declared once. Flags, keywords of Python functions, files and the tables of docs/reference/run-fields.md
are made of its type, default and `Option`; `make fields` writes those that are files. Users see the fields of question
and execution side by side. `snellen.runs.plan` looks up the names in a spec.
"""

# Without postponed annotations: flags are made of these types, and to read them from text takes 10 ms.

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from snellen.callers import for_caller
from snellen.common.field_values import check_known, convert_fields, fields_of
from snellen.common.foreign import read_text
from snellen.common.paths import check_folder_name
from snellen.common.record_fields import Option
from snellen.errors import DataError, UnknownNameError
from snellen.formats.json_files import parse_toml
from snellen.models.model_strings import as_model_string
from snellen.protocols.prediction import RuleChoice
from snellen.protocols.wrapping import Picture
from snellen.records import METHODS, Decoding, Method

MethodChoice = Literal["generation", "likelihood", "both"]
Unparsed = Literal["not-right", "legacy-random"]
MAX_WORKERS = 64

Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
Temperature = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
AnyCount = Annotated[int, Meta(ge=0)]
RoleModels = tuple[tuple[str, str], ...]
"""Pairs of a role and its model string; a table in exam.toml, a dict in Python."""
TokenPrice = Annotated[tuple[float, ...], Meta(min_length=2, max_length=4)]
"""Prices of a million tokens, in any currency: read, written, and perhaps read from the server's cache and stored in it.

Without the last two, cached tokens count as all that are read.
"""


class QuestionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings that determine the replies: which models answer which benchmarks, and how they are prompted.

    Two runs with equal settings are the same run.

    Examples:
        >>> QuestionSpec(models=("mine",), benchmarks=("animals",), limit=20).limit
        20
    """

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
            "Leave out benchmarks whose data one of these models was trained on, according to their "
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
            "default for runs scored as published). Without it, the default of each suite: `snellen`, "
            "a set that it declares, or the prompts of published numbers.",
            page="prompt-sets.md",
        ),
    ] = ""
    prompt: Annotated[
        str,
        Option(
            "Prompt that replaces the instruction and the question; `{question}` and `{options}` "
            "insert them. Without `{options}`, the options follow the prompt."
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
        if self.method == "both":
            return METHODS
        return (self.method,)

    @property
    def decoding(self) -> Decoding:
        """Sampling of replies; the maximum length is 0 if each benchmark has its own."""
        return Decoding(
            max_new_tokens=self.max_new_tokens or 0,
            temperature=self.temperature or 0.0,
            top_p=1.0 if self.top_p is None else self.top_p,
            seed=self.seed,
            stop=self.stop,
        )

    @property
    def few_shot_drawing(self) -> tuple[int, ...]:
        """Number of few-shot examples, whether all questions share them, and their seed; empty without examples."""
        if not self.few_shot:
            return ()
        return (self.few_shot, int(self.few_shot_same), self.few_shot_seed)


class ExecutionSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings that do not influence replies: processes, budgets, and the folders where results are stored.

    Examples:
        >>> ExecutionSpec(runs="runs", workers=2).workers
        2
    """

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
            "Maximum share of the run's requests that may fail; above it the exit code is 3 "
            "(`ErrorBudgetError`)."
        ),
    ] = 0.0
    price: Annotated[
        TokenPrice | None,
        Option(
            "Price per million input tokens and per million output tokens (0.15,0.6). Shows what "
            "the run costs. A third price is that of cached input, a fourth that of storing input in the cache.",
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
    wait: Annotated[
        bool,
        Option(
            "Wait for requests in batches (`batch=true` in the model string). Without it, what is "
            "not in a batch is submitted, what is there is fetched, and the exit code is 5 "
            "(`PendingBatchesError`) until all replies are there.",
            page="batches.md",
        ),
    ] = True
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
        """Whether other processes load the models."""
        return self.workers > 1 or bool(self.ray)


class ScoringSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How replies are read and scored. Scoring again with other settings sends no requests to the model.

    Examples:
        >>> scoring = sn.ScoringSpec(extractor="strict")
        >>> sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, scoring=scoring).value()
        1.0
    """

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
    errata: Annotated[
        bool,
        Option(
            "Correct ground truths that are known to be wrong before scoring. `snellen score` then "
            "shows the numbers without and with the corrections.",
            page="errata.md",
        ),
    ] = False
    errata_files: Annotated[
        tuple[str, ...],
        Option(
            "Correct ground truths by a list of your own, a TOML file. With --errata it is used "
            "besides Snellen's lists.",
            flag="--errata-file",
            metavar="FILE",
            page="errata.md",
        ),
    ] = ()

    @property
    def has_errata(self) -> bool:
        """Whether ground truths are corrected before scoring."""
        return self.errata or bool(self.errata_files)


class JudgeSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Models that read the replies that rules cannot and mark open questions, and how they are prompted.

    Examples:
        >>> judge = sn.JudgeSpec(models=("snellen:uniform",), failures=1.0)
        >>> sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, judge=judge).value()
        1.0
    """

    models: Annotated[
        tuple[Any, ...],
        Option(
            "Judge model for unparsed and uncertain replies, and for judged metrics. The majority "
            "of several judges counts.",
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
    """All settings of a run.

    Examples:
        >>> spec = RunSpec().with_question(models=("snellen:oracle",), benchmarks=("eyechart/colour",))
        >>> spec.question.models
        ('snellen:oracle',)
    """

    question: QuestionSpec = QuestionSpec()
    execution: ExecutionSpec = ExecutionSpec()
    scoring: Annotated[ScoringSpec, Option("How replies are read and scored.")] = ScoringSpec()
    judge: Annotated[JudgeSpec, Option("Which models read and mark replies.")] = JudgeSpec()

    def with_question(self, **fields: Any) -> "RunSpec":
        """Return the spec with other fields of the question."""
        return replace(self, question=replace(self.question, **fields))

    def with_execution(self, **fields: Any) -> "RunSpec":
        """Return the spec with other fields of the execution."""
        return replace(self, execution=replace(self.execution, **fields))

    def for_model(self, number: int, name: str) -> "RunSpec":
        """Return the settings of the run of one model.

        Args:
            number: The index of the model. If there are several models, it is appended to the name and label of the
                run.
            name: The model string.
        """
        run_name = self.execution.name
        label = self.execution.label
        has_several_models = len(self.question.models) > 1
        if has_several_models and run_name:
            run_name = f"{run_name}-{number}"
        if has_several_models and label:
            label = f"{label}-{number}"
        return self.with_question(models=(name,)).with_execution(name=run_name, label=label)

    def of_model(self) -> "RunSpec":
        """Return the settings without those of scoring and judges, which are used after the model has replied."""
        return RunSpec(question=self.question, execution=self.execution)


TABLES: Mapping[str, type[Struct]] = {"scoring": ScoringSpec, "judge": JudgeSpec}
RUN_FIELDS = (*QuestionSpec.__struct_fields__, *ExecutionSpec.__struct_fields__, *TABLES)
"""Fields that `run_spec` takes: those of question and execution, and two tables."""
_ROLE = re.compile(r"[a-z][a-z0-9_-]*")
_RAY_ADDRESS = re.compile(r"auto|local|(?:[\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


def run_spec(content: Mapping[str, Any], where: str = "") -> RunSpec:
    """Make the settings of a run from values by name, and check them.

    Args:
        content: Values by the name of the setting. `scoring` and `judge` are records or tables, `roles` is a table. A
            single string may replace a list of strings, and a path a string.
        where: Prefix of error messages.

    Raises:
        DataError: A setting does not exist, or a value has the wrong type or is out of bounds.
        UnknownNameError: A value is not one of the allowed names.

    Examples:
        >>> spec = run_spec({"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 12})
        >>> spec.question.limit
        12
    """
    _check_tables(content, where)
    check_known(content, RUN_FIELDS, "field", where)
    fields = dict(content)
    if "roles" in fields:
        fields["roles"] = parse_role_models(fields["roles"], where)
    if isinstance(fields.get("models"), (list, tuple)):
        fields["models"] = [as_model_string(model) for model in fields["models"]]
    question = convert_fields(fields_of(QuestionSpec, fields), QuestionSpec, where)
    execution = convert_fields(fields_of(ExecutionSpec, fields), ExecutionSpec, where)
    for price in execution.price or ():
        if not math.isfinite(price) or price < 0:
            raise DataError(f"{where}price is {price:g}; a price is a number from 0, such as 0.15")
    if execution.max_cost is not None and execution.price is None:
        raise DataError(
            f"{where}max_cost needs the price of tokens; set "
            f"{for_caller('price (--price IN,OUT)', 'price=(IN, OUT)')}"
        )
    if execution.name:
        check_folder_name(execution.name, f"{where}name: ")
    scoring = scoring_spec(fields.get("scoring", {}), where)
    judge = judge_spec(fields.get("judge", {}), where)
    return RunSpec(question=question, execution=execution, scoring=scoring, judge=judge)


def _check_tables(content: Mapping[str, Any], where: str) -> None:
    """Check that the settings of a table are given in it, such as `metrics` in the table `scoring`.

    Args:
        content: Values by the name of the setting or table.
        where: Prefix of error messages.

    Raises:
        UnknownNameError: A setting of a table is given outside of it.
    """
    for name in content:
        if name in RUN_FIELDS:
            continue
        for table, record in TABLES.items():
            if name in record.__struct_fields__:
                advice = for_caller(f"write it under [{table}]", f"write {table}={{{name!r}: ...}}")
                raise UnknownNameError(f"{where}{name} is a field of the table {table}; {advice}")


def scoring_spec(scoring: Mapping[str, Any] | ScoringSpec, where: str = "") -> ScoringSpec:
    """Return the spec of scoring from a record or a table. Raises as `run_spec`."""
    return convert_fields(scoring, ScoringSpec, where, "scoring.")


def judge_spec(judge: Any, where: str = "") -> JudgeSpec:
    """Return the spec of judges from a record, a table, or one or several models. Raises as `run_spec`.

    Examples:
        >>> judge_spec("snellen:oracle").models
        ('snellen:oracle',)
    """
    return convert_fields(_as_table(judge), JudgeSpec, where, "judge.")


def parse_role_models(roles: Any, where: str = "") -> RoleModels:
    """Check a table that names the model of each role, and return it as pairs in the order of the roles.

    Args:
        roles: The table, such as `{"questioner": "openai:gpt"}`.
        where: Prefix of error messages.

    Raises:
        DataError: `roles` is not a table, or has something else than roles and model strings.
    """
    if not isinstance(roles, Mapping):
        raise DataError(f"{where}roles: expected a table, got {roles!r}")
    for role, model in roles.items():
        if not _ROLE.fullmatch(role):
            raise DataError(
                f"{where}{role!r} is not a role; use lowercase letters, such as questioner"
            )
        if not isinstance(model, str):
            raise DataError(f"{where}roles.{role}: expected a text, got {model!r}")
    return tuple(sorted(roles.items()))


def check_sharing(execution: ExecutionSpec) -> None:
    """Raise DataError for settings of workers that exclude each other, or an invalid address of a cluster."""
    if execution.ray and not _RAY_ADDRESS.fullmatch(execution.ray):
        how_to = for_caller(" (on the command line --ray=ADDRESS, or --ray at the end)", "")
        raise DataError(
            f"ray: {execution.ray!r} is not an address of a cluster; write HOST:PORT, auto or local{how_to}"
        )
    if execution.ray and execution.workers > 1:
        raise DataError("workers are processes on this machine; with ray, use ray_workers")
    has_cluster_settings = (
        execution.ray_workers is not None or execution.gpus_per_worker is not None
    )
    if has_cluster_settings and not execution.ray:
        auto_setting = for_caller("ray = 'auto' (--ray)", "ray='auto'")
        raise DataError(f"ray_workers and gpus_per_worker need a cluster; set {auto_setting}")


def share_of_run(text: str) -> tuple[int, int]:
    """Parse which share of a run a process evaluates: `3/8` is the third of eight shares.

    Returns:
        The number of the share, from 1, and the number of shares.

    Raises:
        DataError: The text has another form.
    """
    number_text, slash, shares_text = text.partition("/")
    if slash and number_text.isdecimal() and shares_text.isdecimal():
        number = int(number_text)
        n_shares = int(shares_text)
        if 1 <= number <= n_shares <= MAX_WORKERS:
            return number, n_shares
    raise DataError(
        f"share: {text!r} is not K/N with K from 1 to N and N at most {MAX_WORKERS}, such as 3/8"
    )


def read_run_spec(path: Path) -> dict[str, Any]:
    """Read the settings of a run from a TOML file. Flags of the command take precedence over them (`overlaid`).

    Raises:
        DataError, UnknownNameError: As `run_spec`, naming the file.
    """
    try:
        content = parse_toml(read_text(path), str(path))
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; check the path") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {error}") from None
    spec = run_spec(content, f"{path}: ")
    for model in spec.judge.models:
        if not isinstance(model, str):
            raise DataError(f"{path}: judge.models: expected a text, got {model!r}")
    return content


def overlaid(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run with changes, which take precedence. Its tables are merged field by field.

    These are `scoring`, `judge` and `roles`. A judge that is not a table, but a model, becomes the table `{"models":
    (MODEL,)}`.

    Examples:
        >>> fields = overlaid({"limit": 5, "roles": {"user": "a"}}, {"roles": {"guesser": "b"}})
        >>> fields["limit"], fields["roles"]
        (5, {'user': 'a', 'guesser': 'b'})
    """
    merged = {**content, **changes}
    for name in (*TABLES, "roles"):
        merged[name] = {
            **_as_table(content.get(name, {})),
            **_as_table(changes.get(name, {})),
        }
    return merged


def _as_table(value: Any) -> Mapping[str, Any]:
    """Return a value as a table: a record becomes one, and the models of a judge become a table with the key `models`."""
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, Mapping):
        return value
    models = value if isinstance(value, (list, tuple)) else (value,)
    return {"models": models}
