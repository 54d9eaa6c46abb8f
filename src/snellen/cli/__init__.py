"""The command line: flat verbs, grouped by what they act on, each loaded when it is called."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from snellen import __version__
from snellen.callers import called_from_command_line
from snellen.cli.streams import OutputError, drop_output, guard_streams
from snellen.common.foreign import without_secrets
from snellen.errors import (
    DataError,
    HookError,
    Interrupted,
    SnellenError,
    SuiteWarning,
    UnknownNameError,
    interrupted_code,
    naming_missing_packages,
)
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from snellen.formats.shown_text import short_name, strip_controls
from snellen.installation import LAB, SERVER, entry_points_of, sibling_install_line

if TYPE_CHECKING:
    from snellen.cli.bars import FetchBar

_PLAIN_WARNING = warnings.formatwarning
_VERBS: dict[str, dict[str, str]] = {
    "Main commands": {
        "run": "Evaluate a model on benchmarks. The same command resumes a stopped run.",
        "report": "Write a report on one or more runs.",
        "view": "Browse runs in local web pages: search, filter, compare models, follow running "
        "evaluations.",
        "compare": "Compare runs question by question: differences, tests, ranks, flipped answers.",
        "build": "Build a benchmark from its source files, or from your own questions.",
        "list": "List benchmarks, suites, models, protocols, metrics, model cards, runs or downloaded data.",
    },
    "First steps": {
        "demo": "Evaluate the built-in models on the built-in eye chart.",
        "doctor": "Look at this environment: packages, extras, accelerator.",
    },
    "Benchmarks": {
        "fetch": "Download the source files of benchmarks, as `run` and `build` do, or remove them.",
        "import": "Build benchmarks from data published in another format.",
        "reform": "Make multiple-choice questions from annotations: classes, boxes, captions, answers, "
        "texts.",
        "verify": "Compare official files with the tables of the benchmark's paper.",
    },
    "Runs": {
        "score": "Rescore stored replies without calling the model, or score a file of predictions.",
        "reproduce": "Run what a model's card prints, by its vendor's recipe, and compare.",
        "card": "Print results as a model card does: a row per benchmark, with setting and interval.",
        "reconcile": "Explain why two results on the same questions differ, cause by cause.",
        "export": "Export scored runs as one table, or in the formats of other tools.",
        "pack": "Pack runs, or a benchmark, into one file to share.",
        "submit": "Write the submission file of an evaluation server from a run.",
        "publish": "Submit a run to the leaderboard of a Snellen server.",
        "batches": "Show how far the batches of a run are, or cancel them.",
        "mend": "Move damaged journal lines aside so that the run can resume.",
        "worker": "Serve your own model class so that it can be evaluated remotely.",
    },
}
_ELSEWHERE = {
    "run": (
        "eval",
        "evaluate",
        "test",
        "bench",
        "benchmark",
        "infer",
        "ask",
        "predict",
        "generate",
    ),
    "demo": ("init", "quickstart", "start", "tutorial"),
    "list": ("ls", "search", "suites"),
    "list benchmarks": ("tasks", "benchmarks", "datasets"),
    "list models": ("models",),
    "list metrics": ("metrics",),
    "list runs": ("runs", "history", "experiments"),
    "fetch": ("download", "prepare", "pull", "get"),
    "view": ("log", "logs", "viewer", "ui", "dashboard", "dash", "app", "gui", "open"),
    "report RUN": ("show", "results", "summarize", "summarise", "summary", "html", "inspect"),
    "report RUN RUN": ("leaderboard", "ranking", "table"),
    "report RUN --figures FOLDER": ("plot", "plots", "figures", "chart"),
    "compare CANDIDATE BASELINE --fail-if-worse 1pt": ("gate", "check", "assert", "ci"),
    "compare": ("diff", "versus", "vs"),
    "card": ("vendor", "model-card", "leaderboard-row"),
    "reconcile": ("explain", "discrepancy", "bridge"),
    "score": ("rescore", "eval-only", "metrics-only", "judge"),
    "build": ("make", "create", "convert", "add"),
    "doctor": ("env", "info", "config", "setup"),
    "--version": ("version",),
    "--help": ("help", "usage", "man"),
    "run --dry-run": ("cost", "estimate", "plan", "forecast"),
    "publish": ("push", "upload"),
}
"""What other tools, and people, call a verb."""
_REMOVING = ("delete", "rm", "remove", "del", "clean")
"""What people try to remove a run with."""
_AGAIN = ("resume", "continue", "retry", "rerun")
"""What people try to go on with a run that stopped."""
_UNPACKING = ("unpack", "unzip", "extract", "receive")
"""What people try to unpack a file with that `snellen pack` wrote."""
_ORDER = "give the model first, then the benchmarks: `snellen run MODEL BENCHMARK ...`"
_INSIDE = "model settings are part of the model string: `hf:org/name?dtype=bf16`"
_AT = "the address is part of the model string: `openai:NAME@http://HOST:PORT/v1`"
_RUNS = "use `--runs FOLDER`"
_RESUMES = "repeat the command to resume a run; `--name NEW` begins another"
_FLAGS_ELSEWHERE = {
    **dict.fromkeys(
        ("--model", "--models", "--task", "--tasks", "--data", "--dataset", "--datasets"), _ORDER
    ),
    **dict.fromkeys(("--benchmark", "--benchmarks"), _ORDER),
    **dict.fromkeys(
        ("--model_args", "--model-args", "--device", "--dtype", "--batch_size", "--batch-size"),
        _INSIDE,
    ),
    **dict.fromkeys(("--base_url", "--base-url", "--model-base-url", "--api-base"), _AT),
    **dict.fromkeys(("--num_fewshot", "--num-fewshot", "--fewshot"), "use `--few-shot N`"),
    **dict.fromkeys(
        (
            "--output_path",
            "--output-path",
            "--log-dir",
            "--work-dir",
            "--output-dir",
            "--output_dir",
        ),
        _RUNS,
    ),
    **dict.fromkeys(("--out", "--save-dir", "--results-dir"), _RUNS),
    **dict.fromkeys(
        ("--output", "-o"), f"{_RUNS}; `snellen report RUN -o FILE` writes the numbers"
    ),
    **dict.fromkeys(
        ("--samples", "--num-samples", "--max-samples", "--num_samples", "--max_samples", "-n"),
        "use `--limit N`",
    ),
    **dict.fromkeys(
        ("--max-tokens", "--max_tokens", "--max_new_tokens", "--max-output-tokens"),
        "use `--max-new-tokens N`",
    ),
    **dict.fromkeys(
        ("--gen-kwargs", "--gen_kwargs", "--generation-kwargs"),
        "use `--temperature`, `--top-p`, `--max-new-tokens` and `--stop`",
    ),
    **dict.fromkeys(
        ("--system-prompt", "--system_prompt", "--system", "--system_instruction"),
        "the system prompt is part of the model string: `hf:org/name?system=...`",
    ),
    **dict.fromkeys(
        ("--api-key", "--api_key", "--key"),
        "keys are read from environment variables: OPENAI_API_KEY for OpenAI alone; no key is sent to another "
        "address unless the model string names its variable: `openai:NAME@URL?api_key_env=OPENAI_API_KEY`",
    ),
    **dict.fromkeys(
        ("--num-workers", "--num_workers", "--gpus", "--num-gpus"), "use `--workers N`"
    ),
    **dict.fromkeys(
        ("--concurrency", "--max-connections", "--num-concurrent", "--num_concurrent"),
        "it is part of the model string: `openai:NAME?concurrency=16`",
    ),
    **dict.fromkeys(
        ("--shuffle", "--random"),
        "`--limit N` takes the same N samples each time, `--until` asks in random order",
    ),
    **dict.fromkeys(
        ("--config", "-c"), "give the file in place of the model: `snellen run exam.toml`"
    ),
    **dict.fromkeys(("--quiet", "-q", "--silent", "--no-progress"), "append `2>/dev/null`"),
    **dict.fromkeys(("--verbose", "-v"), "use `--details`"),
    **dict.fromkeys(("--format", "--output-format"), "use `--json`"),
    **dict.fromkeys(("--csv", "--html", "--markdown"), "`snellen report RUN -o FILE` writes it"),
    **dict.fromkeys(("--resume", "--continue", "--reuse"), _RESUMES),
    **dict.fromkeys(("--overwrite", "--force", "--rerun", "--fresh"), _RESUMES),
    **dict.fromkeys(("--log-samples", "--log_samples", "--save"), "every reply is stored"),
    **dict.fromkeys(
        ("--fail-under", "--min-accuracy", "--threshold", "--fail-below", "--fail-on"),
        "`snellen score RUN --fail-under 0.9` exits with 1 below a score, `snellen compare CANDIDATE BASELINE "
        "--fail-if-worse 1pt` if a model got worse",
    ),
    **dict.fromkeys(
        ("--column", "--columns"),
        "build the benchmark first: `snellen build FILE --column ROLE=NAME`",
    ),
    **dict.fromkeys(
        ("--split", "--subset"), "name the split: `snellen list WORD` shows benchmarks"
    ),
    "-V": "use `--version`",
    **dict.fromkeys(("--suite",), _ORDER),
    **dict.fromkeys(("--tag", "--tags"), "use `--label NAME`"),
    "--debug": "write it before the verb: `snellen --debug run ...`",
    "export --format": "use `--as NAME`; `snellen list exporters` shows the names",
    "export --form": "use `--as NAME`; `snellen list exporters` shows the names",
    "report --format": "the name of the file decides: `-o report.html`, .md, .tex, .csv, .json",
    "report --wrong": "`snellen view` shows wrong replies",
    "build --name": "use `--to NAME`",
}
"""Replacements for flags of other tools. A key can name a verb, to apply only there."""
_MODULES = {
    "reform": "build",
    **dict.fromkeys(("pack", "publish", "submit"), "export"),
    **dict.fromkeys(("mend", "report", "score"), "results"),
    **dict.fromkeys(("view", "worker"), "serve"),
    **dict.fromkeys(("fetch", "import", "verify"), "sources"),
}
"""Modules in `snellen.cli.verbs` of the verbs whose module has another name."""
_OWN = frozenset(verb for verbs in _VERBS.values() for verb in verbs)
_OF_SIBLINGS = {
    **dict.fromkeys(
        ("acuity", "agree", "analyse", "audit", "lint", "paper", "rate", "sample", "study"), LAB
    ),
    **dict.fromkeys(("arena", "serve", "serve-data"), SERVER),
}
"""The sibling package of a verb, for the message if it is not installed."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


class _VerbGroup(click.Group):
    def main(self, *args: Any, **settings: Any) -> Any:
        with called_from_command_line():
            return super().main(*args, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verbs in _sections().values() for verb in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb, importing its module only now; None for an unknown verb."""
        if cmd_name not in _OWN and cmd_name not in installed_verbs():
            return None
        if cmd_name in _OWN:
            module = _MODULES.get(cmd_name, cmd_name)
            command: click.Command = imported(f"snellen.cli.verbs.{module}:{cmd_name}_command")
            return command
        try:
            added: click.Command = imported(declared_verb(installed_verbs()[cmd_name]).command)
        except ImportError as error:
            raise SnellenError(
                f"cannot load `snellen {cmd_name}`: {error}; repair or uninstall its package"
            ) from error
        return added

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command for a line's first word.

        An unknown word raises UnknownNameError with what to write instead: the package to install, the verb with this
        meaning, or the line that does what another harness's command does.
        """
        if (
            args
            and not ctx.resilient_parsing
            and args[0] not in _OWN
            and args[0] not in installed_verbs()
        ):
            from snellen.registry import unknown_name

            if args[0] in _OF_SIBLINGS:
                install = sibling_install_line(_OF_SIBLINGS[args[0]])
                raise UnknownNameError(f"`snellen {args[0]}` is part of another package: {install}")
            if args[0].lower() in _REMOVING:
                raise UnknownNameError(
                    f"unknown command {args[0]!r}; a run is a folder: remove runs/NAME itself"
                )
            if args[0].lower() in _AGAIN:
                raise UnknownNameError(
                    f"unknown command {args[0]!r}; to resume a run, repeat its `snellen run` command: only "
                    "missing requests are sent"
                )
            if args[0].lower() in _UNPACKING:
                raise UnknownNameError(f"unknown command {args[0]!r}; {_how_to_unpack(args[1:])}")
            for verb, others in _ELSEWHERE.items():
                if args[0].lower() in others:
                    if verb == "run":
                        from snellen.cli.lines_of_others import line_of_others

                        translated = line_of_others(args[1:], _flags_of_run())
                        if translated.line:
                            raise UnknownNameError(f"unknown command {args[0]!r}; use {translated}")
                    raise UnknownNameError(f"unknown command {args[0]!r}; use `snellen {verb}`")
            raise unknown_name("command", args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the verbs that begin with what was typed."""
        # click would import the modules of all verbs for their help, which takes a second.
        completions = []
        for verbs in _sections().values():
            for verb, line in verbs.items():
                if verb.startswith(incomplete):
                    completions.append(CompletionItem(verb, help=line))
        return completions + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, verbs in _sections().items():
            with formatter.section(section):
                formatter.write_dl(list(verbs.items()))


def _sections() -> dict[str, dict[str, str]]:
    """Return all verbs with their help lines by section: Snellen's own, then those of other packages."""
    sections = {section: dict(verbs) for section, verbs in _VERBS.items()}
    for name, target in sorted(installed_verbs().items()):
        if name not in _OWN:
            verb = declared_verb(target)
            sections.setdefault(verb.section, {})[name] = verb.help
    return sections


_WAYS_IN = {
    "snellen demo": "two small models on the built-in eye chart: minutes, no key, no download (extra hf)",
    "snellen run MODEL BENCHMARK": "your model, for example hf:org/name eyechart",
    "snellen view": "browse runs in web pages, and start new ones",
}
"""Commands that `snellen` without arguments suggests first."""


@click.command(
    cls=_VerbGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="snellen")
@click.option("--debug", is_flag=True, help="Show the full traceback of an error.")
@click.option(
    "--suites",
    multiple=True,
    metavar="FOLDER",
    help="Folder with your own suites or benchmarks. Repeat for more.  [$SNELLEN_SUITES]",
)
@click.pass_context
def cli(ctx: click.Context, debug: bool, suites: tuple[str, ...]) -> None:
    """Snellen, an eye chart for vision-language models: how well they see, and how stable their answers are.

    Start with `snellen demo`. A model is a string: hf:org/name, hf:./folder, openai:name@http://host:port/v1,
    replay:runs/x, snellen:tiny. A benchmark is a name, a glob, a suite or a folder.
    """
    if suites:
        from snellen.catalogue import add_suites

        for folder in suites:
            add_suites(folder)
    if ctx.invoked_subcommand is None:
        click.echo(_first_page(ctx))


def _how_to_unpack(words: Sequence[str]) -> str:
    """Return what to type for a file that `snellen pack` wrote."""
    from snellen.formats.packed_files import RECEIVED, how_to_unpack

    for word in words:
        how = how_to_unpack(Path(word))
        if how:
            return f"{word} is a zip file: {how}"
    file = words[0] if words and Path(words[0]).is_file() else "FILE.zip"
    unpack = shlex.join(("python", "-m", "zipfile", "-e", file, RECEIVED))
    return f"a packed file is a zip file: unpack it with `{unpack}`"


def _first_page(ctx: click.Context) -> str:
    """As much of the help as a small terminal shows at once."""
    formatter = ctx.make_formatter()
    formatter.write_text("Snellen, an eye chart for vision-language models.")
    with formatter.section("Begin with"):
        formatter.write_dl(list(_WAYS_IN.items()))
    section, verbs = next(iter(_VERBS.items()))
    with formatter.section(section):
        formatter.write_dl(list(verbs.items()))
    formatter.write_paragraph()
    formatter.write_text(
        "`snellen --help` shows all commands, `snellen COMMAND --help` the options of one."
    )
    return formatter.getvalue().rstrip("\n")


def _line_of_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Return a warning as printed: those about suites in one line without a source location."""
    if issubclass(category, SuiteWarning):
        return f"snellen: {strip_controls(str(message))}\n"
    return _PLAIN_WARNING(message, category, filename, lineno, line)


def _say(line: str) -> None:
    from snellen.cli.show import announce

    announce(line)


class _Bar:
    """The bar of what is fetched, on a terminal; loaded when something is."""

    def __init__(self) -> None:
        self._bar: FetchBar | None = None

    def __call__(self, name: str, done: int, size: int) -> None:
        """Show that `done` of `size` bytes of a file are fetched, if stderr is a terminal."""
        from snellen.cli.show import error_console

        if error_console.is_terminal:
            from snellen.cli.bars import FetchBar

            self._bar = self._bar or FetchBar(error_console)
            self._bar.show(name, done, size)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.end()


def _agree(question: str) -> bool:
    return not (sys.stdin.isatty() and sys.stderr.isatty()) or click.confirm(question, err=True)


def _accept(question: str) -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty() and click.confirm(question, err=True)


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Raise `Interrupted` in the block for SIGTERM and SIGHUP too, unless the program handles or ignores them."""
    earlier = {}

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                earlier[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; a SnellenError is one line on stderr and its exit code."""
    # Collecting after every 700 new objects, Python's default, takes a fifth of a short command; looking through all
    # that is left when it ends, a tenth.
    gc.set_threshold(200_000, 10, 50)
    atexit.register(gc.freeze)
    if args is None:
        guard_streams()
    words = list(sys.argv[1:] if args is None else args)
    warnings.formatwarning = _line_of_warning
    try:
        _check_encoding(words)
        with (
            _signals_as_interrupts(),
            _Bar() as bar,
            using_callbacks(UserCallbacks(_say, bar, _agree, _accept)),
            naming_missing_packages(" ".join(["snellen", *words[:1]])),
        ):
            code = cli.main(words, prog_name="snellen", standalone_mode=False)
        sys.stdout.flush()
    except SnellenError as error:
        hint = " (--debug shows where)" if _is_of_others(error) else ""
        if "--debug" in words:
            sys.excepthook(type(error), error, error.__traceback__)
            hint = ""
        click.echo(f"snellen: {strip_controls(without_secrets(str(error)))}{hint}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            verb = error.ctx.info_name if error.ctx else ""
            flag = error.option_name
            hint = _hint_of_flag(verb or "", flag, words)
            if hint:
                error = click.NoSuchOption(flag, f"no option {flag}; {hint}", ctx=error.ctx)
        click.echo(f"snellen: {_line_of(error)}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as stopped:
        click.echo("snellen: stopped", err=True)
        sys.exit(interrupted_code(stopped))
    except OutputError as error:
        drop_output()
        if not error.has_reader:  # `snellen list | head`, which is not an error
            sys.exit(0)
        click.echo(
            f"snellen: cannot write the output ({error.strerror}); redirect it to another place",
            err=True,
        )
        sys.exit(SnellenError.exit_code)
    except (OSError, UnicodeEncodeError) as error:
        if "--debug" in words:
            sys.excepthook(type(error), error, error.__traceback__)
        click.echo(f"snellen: {strip_controls(without_secrets(_system_fault(error)))}", err=True)
        sys.exit(SnellenError.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


_TABLE_FORMATS = ("csv", "json", "parquet", "html", "md", "tex")
"""Formats of `snellen report`, which people ask `snellen export` for."""


def _report_line(words: Sequence[str]) -> str:
    """Return the `snellen report` line for `snellen export RUN --format csv`; empty for a format of exports.

    Examples:
        >>> _report_line("export runs/x --format csv --output x.csv".split())
        'snellen report runs/x -o x.csv'
    """
    values: dict[str, str] = {}
    runs: list[str] = []
    behind = iter(words[words.index("export") + 1 :])
    for word in behind:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            values[name] = value if equals else next(behind, "")
        else:
            runs.append(word)
    form = values.get("--format", "") or values.get("--form", "")
    if form not in _TABLE_FORMATS:
        return ""
    output = values.get("--output", "") or values.get("-o", "") or f"report.{form}"
    return shlex.join(["snellen", "report", *(runs or ["RUN"]), "-o", output])


def _hint_of_flag(verb: str, flag: str, words: Sequence[str]) -> str:
    """Return what to write instead of a flag that a verb does not have; empty if nobody else has it."""
    from snellen.cli.lines_of_others import MODEL_OPTIONS, build_line, line_of_others

    known = _FLAGS_ELSEWHERE.get(f"{verb} {flag}") or _FLAGS_ELSEWHERE.get(flag, "")
    if verb == "export" and flag in ("--format", "--form") and "export" in words:
        report_line = _report_line(words)
        if report_line:
            samples = "`snellen export RUN -o samples.csv` writes a row for each reply"
            return f"{samples}; numbers are written by `{report_line}`"
    if verb == "snellen":  # a line of another harness without a verb, or options before `run`
        behind = list(words)
        if "run" in words:
            place = words.index("run")
            behind = [*words[place + 1 :], *words[:place]]
        if not _OWN.isdisjoint(behind):
            return known
        translated = line_of_others(behind, _flags_of_run())
        return f"write {translated}" if translated.line else known
    if verb != "run":
        return known
    behind = words[words.index(verb) + 1 :] if verb in words else []
    building = build_line(flag, behind)
    if not building and flag in _flags_of("build"):
        building = _line_with_flag("build", flag, behind)
    if building:
        return f"build the benchmark first: `{building}`"
    translated = line_of_others(behind, _flags_of_run())
    if not translated.line:
        return known
    if flag == "--data" and any(Path(word).suffix and Path(word).is_file() for word in words):
        return f"give the file as the benchmark: {translated}"
    if known.startswith(_RUNS):
        is_whole = "BENCHMARK" not in translated.line.split()
        return f"use {translated}{known.removeprefix(_RUNS)}" if is_whole else known
    is_of_model = known in (_ORDER, _INSIDE, _AT)
    hint = (known if is_of_model else _ORDER).partition(": `")[0]
    if flag.replace("_", "-") in MODEL_OPTIONS and not is_of_model:
        hint = _INSIDE.partition(": `")[0]
    return f"{hint}: {translated}"


def _line_with_flag(verb: str, flag: str, words: Sequence[str]) -> str:
    """Return the line of another verb that takes a flag: `snellen build mine.tsv --images pictures`.

    Args:
        verb: The verb.
        flag: Its flag, which was typed for a verb that does not have it.
        words: The words behind the verb that was typed, among which a file may be.
    """
    files = [word for word in words if Path(word).suffix and Path(word).is_file()]
    file = files[0] if files else "FILE"
    line = ["snellen", verb, file, flag]
    if _flags_of(verb)[flag]:
        behind = words[words.index(flag) + 1 :] if flag in words else []
        line.append(behind[0] if behind else "VALUE")
    return shlex.join(line)


def _flags_of_run() -> dict[str, bool]:
    """Return the flags of `snellen run`, and whether each has a value."""
    return _flags_of("run")


def _flags_of(verb: str) -> dict[str, bool]:
    """Return the flags of a verb, and whether each has a value."""
    command: click.Command = imported(f"snellen.cli.verbs.{verb}:{verb}_command")
    flags: dict[str, bool] = {}
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            flags[name] = not getattr(parameter, "is_flag", False)
    return flags


def _check_encoding(words: Sequence[str]) -> None:
    """Raise DataError for an argument that is not in UTF-8: nothing that Snellen writes could hold it."""
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise DataError(
                f"the argument {short_name(word)!r} is not in UTF-8; rename the file, or set the terminal to UTF-8"
            )


def _system_fault(error: OSError | UnicodeEncodeError) -> str:
    """What a command could not do because of the system, for a fault that no room has put into words."""
    if isinstance(error, UnicodeEncodeError):
        return (
            f"a text contains {error.object[error.start : error.end]!r}, an unpaired surrogate, which cannot be "
            "encoded; correct the text (--debug shows where)"
        )
    reason = error.strerror or str(error) or type(error).__name__
    place = f"{error.filename}: " if error.filename else ""
    advice = "; free some space, then repeat the command" if error.errno in _FULL else ""
    return f"{place}{reason}{advice} (--debug shows where)"


def _is_of_others(error: BaseException) -> bool:
    """Whether what others wrote raised the error behind this one."""
    while isinstance(error, SnellenError) and error.__cause__:
        if isinstance(error, HookError) and not isinstance(error.__cause__, SnellenError):
            return True
        error = error.__cause__
    return False


def _line_of(error: click.ClickException) -> str:
    """A fault of what was typed, as all other faults are said: in one line, with where to look."""
    message = " ".join(strip_controls(error.format_message()).split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f" (see `{context.command_path} --help`)" if context else ""
    return f"{message[:1].lower()}{message[1:]}{hint}"


# --- verbs of other packages -----------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """A verb of the command line, in a module that loads nothing heavy: `snellen --help` asks for it.

    Examples:
        >>> BIRDS = Verb("List the birds with their songs.", "snellen_birds.verb:command", "Benchmarks")
        >>> BIRDS.section
        'Benchmarks'
    """

    help: str
    """The line of `snellen --help`."""
    command: str
    """`module:attribute` of its click command, imported when the verb is called."""
    section: str = "Other packages"
    """Below which heading it stands."""


def installed_verbs() -> Mapping[str, str]:
    """Where the verbs of other packages are declared, by name: `module:attribute` of a `Verb`."""
    return entry_points_of("snellen.").get("snellen.verbs", {})


def declared_verb(target: str) -> Verb:
    """The verb that a package declares; one that cannot be imported says so in place of its help."""
    try:
        verb: Verb = imported(target)
    except ImportError as error:
        return Verb(f"(cannot be loaded: {error})", target)
    return verb


def imported(target: str) -> Any:
    """The object `module:attribute`. `registry.load_target` does more, and would take a tenth of the time of --help."""
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
