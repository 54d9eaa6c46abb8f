"""The command line: a list of commands (verbs) in sections, each of which is imported when it is called."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import re
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

_DEFAULT_FORMAT_WARNING = warnings.formatwarning
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
_VERBS_OF_OTHER_TOOLS = {
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
"""By Snellen's verb, words that other tools have for it, or that users may try."""
_REMOVAL_WORDS = ("delete", "rm", "remove", "del", "clean")
"""Words that users may try to remove a run."""
_RESUME_WORDS = ("resume", "continue", "retry", "rerun")
"""Words that users may try to resume a run."""
_UNPACK_WORDS = ("unpack", "unzip", "extract", "receive")
"""Words that users may try to unpack a file that `snellen pack` wrote."""
_MODEL_FIRST = "give the model first, then the benchmarks: `snellen run MODEL BENCHMARK ...`"
_IN_MODEL_STRING = "model settings are part of the model string: `hf:org/name?dtype=bf16`"
_ADDRESS_IN_MODEL_STRING = (
    "the address is part of the model string: `openai:NAME@http://HOST:PORT/v1`"
)
_USE_RUNS = "use `--runs FOLDER`"
_REPEAT_TO_RESUME = "repeat the command to resume a run; `--name NEW` begins another"
_REPETITION_FLAGS = (
    "--repeat",
    "--repeats",
    "--repetitions",
    "--n",
    "--epochs",
    "--trials",
    "--num-runs",
    "--n-runs",
    "--times",
)
"""Flags that users may try to ask every question several times."""
_FLAGS_OF_OTHER_TOOLS = {
    **dict.fromkeys(
        ("--model", "--models", "--task", "--tasks", "--data", "--dataset", "--datasets"),
        _MODEL_FIRST,
    ),
    **dict.fromkeys(("--benchmark", "--benchmarks"), _MODEL_FIRST),
    **dict.fromkeys(
        ("--model_args", "--model-args", "--device", "--dtype", "--batch_size", "--batch-size"),
        _IN_MODEL_STRING,
    ),
    **dict.fromkeys(
        ("--base_url", "--base-url", "--model-base-url", "--api-base"), _ADDRESS_IN_MODEL_STRING
    ),
    **dict.fromkeys(
        ("export --metric", "export --judge", "export --extractor"),
        "it exports scores that are stored: give the flag to `snellen score RUN`, then export",
    ),
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
        _USE_RUNS,
    ),
    **dict.fromkeys(("--out", "--save-dir", "--results-dir"), _USE_RUNS),
    **dict.fromkeys(
        ("--output", "-o"), f"{_USE_RUNS}; `snellen report RUN -o FILE` writes the numbers"
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
    **dict.fromkeys(("--resume", "--continue", "--reuse"), _REPEAT_TO_RESUME),
    **dict.fromkeys(("--overwrite", "--force", "--rerun", "--fresh"), _REPEAT_TO_RESUME),
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
    **dict.fromkeys(("--suite",), _MODEL_FIRST),
    **dict.fromkeys(("--tag", "--tags"), "use `--label NAME`"),
    "--debug": "write it before the verb: `snellen --debug run ...`",
    "export --format": "use `--as NAME`; `snellen list exporters` shows the names",
    "export --form": "use `--as NAME`; `snellen list exporters` shows the names",
    "report --format": "the name of the file decides: `-o report.html`, .md, .tex, .csv, .json",
    "report --wrong": "`snellen view` shows wrong replies",
    "report --details": "`snellen score RUN --details` shows every row",
    "build --open": "questions without options are open; if few different answers became options, remove all lines of "
    "`classes = [...]` in the .toml file that the build wrote, and build that file",
    **dict.fromkeys(
        ("reform --limit", "reform --samples", "reform --max-samples", "reform -n"),
        "use `--count N` for N questions in total, or `--per-type N` for N of each type",
    ),
    **dict.fromkeys(
        (
            "pack --hide-answers",
            "pack --hidden-answers",
            "pack --no-answers",
            "pack --without-answers",
        ),
        "answers are left out unless you write `--answers`",
    ),
    **dict.fromkeys(
        (
            "score --output",
            "score -o",
            "score --out",
            "score --output-dir",
            "score --name",
            "score --runs",
        ),
        "use `--to FOLDER` for the run that is made of a file; `snellen report RUN -o FILE` writes the numbers",
    ),
}
"""Replacements for flags of other tools. A key can name a verb, to apply only there."""
_MODULE_OF_VERB = {
    "reform": "build",
    **dict.fromkeys(("pack", "publish", "submit"), "export"),
    **dict.fromkeys(("mend", "report", "score"), "results"),
    **dict.fromkeys(("view", "worker"), "serve"),
    **dict.fromkeys(("fetch", "import", "verify"), "sources"),
}
"""By verb, the module in `snellen.cli.verbs`, if its name differs from that of the verb."""
_OWN_VERBS = frozenset(verb for verbs in _VERBS.values() for verb in verbs)
_PACKAGE_OF_VERB = {
    **dict.fromkeys(
        ("acuity", "agree", "analyse", "audit", "lint", "paper", "rate", "sample", "study"), LAB
    ),
    **dict.fromkeys(("arena", "serve", "serve-data"), SERVER),
}
"""The sibling package of a verb, for the message if it is not installed."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class _VerbGroup(click.Group):
    def main(self, *args: Any, **settings: Any) -> Any:
        with called_from_command_line():
            return super().main(*args, **settings)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verbs in _sections().values() for verb in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb such as `run`, or None for an unknown verb.

        The module of the command is imported only now, so that `snellen` starts fast.
        """
        if cmd_name not in _OWN_VERBS and cmd_name not in installed_verbs():
            return None
        if cmd_name in _OWN_VERBS:
            module = _MODULE_OF_VERB.get(cmd_name, cmd_name)
            command: click.Command = import_target(f"snellen.cli.verbs.{module}:{cmd_name}_command")
            return command
        try:
            added: click.Command = import_target(declared_verb(installed_verbs()[cmd_name]).command)
        except ImportError as error:
            raise SnellenError(
                f"cannot load `snellen {cmd_name}`: {error}; repair or uninstall its package"
            ) from error
        return added

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command for the first word of a command line.

        Raises:
            UnknownNameError: There is no such command. The message says what to write instead.
        """
        if args and not ctx.resilient_parsing:
            word = args[0]
            if word not in _OWN_VERBS and word not in installed_verbs():
                raise self._unknown_verb(ctx, word, args[1:])
        return super().resolve_command(ctx, args)

    def _unknown_verb(
        self, ctx: click.Context, word: str, arguments: Sequence[str]
    ) -> UnknownNameError:
        """Return the error for an unknown command, with a message that says what to write instead.

        For example, it names the package that has the command, a command of Snellen with the same meaning, or the
        whole line that does what a command of another harness does.

        Args:
            ctx: The context of the command line.
            word: The unknown command.
            arguments: The words after it.
        """
        from snellen.registry import unknown_name

        if word in _PACKAGE_OF_VERB:
            install = sibling_install_line(_PACKAGE_OF_VERB[word])
            return UnknownNameError(f"`snellen {word}` is part of another package: {install}")
        beginning = f"unknown command {word!r};"
        if word.lower() in _REMOVAL_WORDS:
            return UnknownNameError(f"{beginning} a run is a folder: remove runs/NAME itself")
        if word.lower() in _RESUME_WORDS:
            return UnknownNameError(
                f"{beginning} to resume a run, repeat its `snellen run` command: only missing requests are sent"
            )
        if word.lower() in _UNPACK_WORDS:
            return UnknownNameError(f"{beginning} {_how_to_unpack(arguments)}")
        for verb, synonyms in _VERBS_OF_OTHER_TOOLS.items():
            if word.lower() not in synonyms:
                continue
            if verb == "run":
                from snellen.cli.other_harnesses import translate_line

                translated = translate_line(arguments, _flags_of_run())
                if translated.line:
                    return UnknownNameError(f"{beginning} use {translated}")
            return UnknownNameError(f"{beginning} use `snellen {verb}`")
        return unknown_name("command", word, self.list_commands(ctx))

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
        if name not in _OWN_VERBS:
            verb = declared_verb(target)
            sections.setdefault(verb.section, {})[name] = verb.help
    return sections


_FIRST_COMMANDS = {
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
        click.echo(_short_help(ctx))


def _how_to_unpack(words: Sequence[str]) -> str:
    """Return how to unpack a file that was made by `snellen pack`, as a part of an error message.

    Args:
        words: The arguments of the command. If one of them is such a file, the text names it.
    """
    from snellen.formats.packed_files import RECEIVED, how_to_unpack

    for word in words:
        instruction = how_to_unpack(Path(word))
        if instruction:
            return f"{word} is a zip file: {instruction}"
    file = words[0] if words and Path(words[0]).is_file() else "FILE.zip"
    command = shlex.join(("python", "-m", "zipfile", "-e", file, RECEIVED))
    return f"a packed file is a zip file: unpack it with `{command}`"


def _short_help(ctx: click.Context) -> str:
    """Return the help of `snellen` without arguments, which fits into a small terminal."""
    formatter = ctx.make_formatter()
    formatter.write_text("Snellen, an eye chart for vision-language models.")
    with formatter.section("Begin with"):
        formatter.write_dl(list(_FIRST_COMMANDS.items()))
    section, verbs = next(iter(_VERBS.items()))
    with formatter.section(section):
        formatter.write_dl(list(verbs.items()))
    formatter.write_paragraph()
    formatter.write_text(
        "`snellen --help` shows all commands, `snellen COMMAND --help` the options of one."
    )
    return formatter.getvalue().rstrip("\n")


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Return a warning as it is printed.

    A warning about a suite is one line without the location in the source code, because it is not about the user's
    code.
    """
    if issubclass(category, SuiteWarning):
        return f"snellen: {strip_controls(str(message))}\n"
    return _DEFAULT_FORMAT_WARNING(message, category, filename, lineno, line)


def _say(line: str) -> None:
    from snellen.cli.show import announce

    announce(line)


class _FetchProgress:
    """Progress bar for fetched files on a terminal. The package that draws it is imported with the first file."""

    def __init__(self) -> None:
        self._bar: FetchBar | None = None

    def __call__(self, name: str, done: int, size: int) -> None:
        """Show that `done` of `size` bytes of a file are fetched, if stderr is a terminal."""
        from snellen.cli.show import error_console

        if error_console.is_terminal:
            from snellen.cli.bars import FetchBar

            self._bar = self._bar or FetchBar(error_console)
            self._bar.show(name, done, size)

    def __enter__(self) -> _FetchProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.end()


def _is_interactive() -> bool:
    """Return whether a user can be asked: input and messages are connected to a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agree(question: str) -> bool:
    """Ask the user whether to continue with a large download; True without a terminal."""
    if not _is_interactive():
        return True
    return click.confirm(question, err=True)


def _accept(question: str) -> bool:
    """Ask the user whether to accept the terms of a licence; False without a terminal."""
    if not _is_interactive():
        return False
    return click.confirm(question, err=True)


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Raise `Interrupted` in the block if SIGTERM or SIGHUP arrives, unless the program handles or ignores them."""
    replaced_handlers = {}

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:
                replaced_handlers[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in replaced_handlers.items():
            signal.signal(number, handler)


def main(args: Sequence[str] | None = None) -> None:
    """Run a command line and exit.

    An error is printed as one line on stderr, and decides the exit code.

    Args:
        args: The words behind `snellen`; by default those of this process.
    """
    # Python collects garbage after every 700 new objects by default, which takes a fifth of the time of a short
    # command. Its last collection, when the process ends, takes a tenth.
    gc.set_threshold(200_000, 10, 50)
    atexit.register(gc.freeze)
    if args is None:
        guard_streams()
    words = list(sys.argv[1:] if args is None else args)
    warnings.formatwarning = _format_warning
    try:
        _check_encoding(words)
        with (
            _signals_as_interrupts(),
            _FetchProgress() as bar,
            using_callbacks(UserCallbacks(_say, bar, _agree, _accept)),
            naming_missing_packages(" ".join(["snellen", *words[:1]])),
        ):
            code = cli.main(words, prog_name="snellen", standalone_mode=False)
        sys.stdout.flush()
    except SnellenError as error:
        hint = " (--debug shows where)" if _is_from_other_code(error) else ""
        if "--debug" in words:
            sys.excepthook(type(error), error, error.__traceback__)
            hint = ""
        click.echo(f"snellen: {strip_controls(without_secrets(str(error)))}{hint}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            verb = error.ctx.info_name if error.ctx else ""
            flag = error.option_name
            hint = _hint_for_flag(verb or "", flag, words)
            if hint:
                error = click.NoSuchOption(flag, f"no option {flag}; {hint}", ctx=error.ctx)
        click.echo(f"snellen: {_format_usage_error(error)}", err=True)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as stopped:
        click.echo("snellen: stopped", err=True)
        sys.exit(interrupted_code(stopped))
    except OutputError as error:
        drop_output()
        if not error.has_reader:  # as in `snellen list | head`, which is not an error
            sys.exit(0)
        click.echo(
            f"snellen: cannot write the output ({error.strerror}); redirect it to another place",
            err=True,
        )
        sys.exit(SnellenError.exit_code)
    except (OSError, UnicodeEncodeError) as error:
        if "--debug" in words:
            sys.excepthook(type(error), error, error.__traceback__)
        click.echo(
            f"snellen: {strip_controls(without_secrets(_describe_system_error(error)))}", err=True
        )
        sys.exit(SnellenError.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


_TABLE_FORMATS = ("csv", "json", "parquet", "html", "md", "tex")
"""Formats of `snellen report`, for which users may try `snellen export`."""


def _report_line(words: Sequence[str]) -> str:
    """Return the `snellen report` command that does what a user tried with `snellen export RUN --format csv`.

    Args:
        words: The words of the command line, including `export`.

    Returns:
        The command; empty if `snellen report` does not write the format either.

    Examples:
        >>> _report_line("export runs/x --format csv --output x.csv".split())
        'snellen report runs/x -o x.csv'
    """
    value_by_flag: dict[str, str] = {}
    runs: list[str] = []
    arguments = iter(words[words.index("export") + 1 :])
    for word in arguments:
        if not word.startswith("-"):
            runs.append(word)
            continue
        flag, equals, value = word.partition("=")
        value_by_flag[flag] = value if equals else next(arguments, "")
    table_format = value_by_flag.get("--format", "") or value_by_flag.get("--form", "")
    if table_format not in _TABLE_FORMATS:
        return ""
    output = value_by_flag.get("--output", "") or value_by_flag.get("-o", "")
    output = output or f"report.{table_format}"
    return shlex.join(["snellen", "report", *(runs or ["RUN"]), "-o", output])


def _hint_for_flag(verb: str, flag: str, words: Sequence[str]) -> str:
    """Return what to write instead of a flag that a command does not have.

    Args:
        verb: The command, such as `run`; `snellen` if the flag is before the command, or there is no command.
        flag: The flag, which may exist in another tool.
        words: All words of the command line. If possible, the hint is the corrected command.

    Returns:
        The hint, as a part of an error message; empty if nothing is known about the flag.
    """
    usual_hint = _FLAGS_OF_OTHER_TOOLS.get(f"{verb} {flag}", "")
    if not usual_hint and verb in ("build", "export"):
        usual_hint = _hint_from_line(verb, flag, words)
    if not usual_hint:
        general_hint = _FLAGS_OF_OTHER_TOOLS.get(flag, "")
        usual_hint = general_hint if _is_possible(general_hint, verb) else ""
    if verb == "export" and flag in ("--format", "--form") and "export" in words:
        report_line = _report_line(words)
        if report_line:
            samples = "`snellen export RUN -o samples.csv` writes a row for each reply"
            return f"{samples}; numbers are written by `{report_line}`"
    if verb == "snellen":
        return _hint_without_verb(words) or usual_hint
    if verb == "run":
        return _hint_for_run(flag, words, usual_hint)
    return usual_hint


def _is_possible(hint: str, verb: str) -> bool:
    """Return whether a hint that begins with a flag, such as `use `--runs FOLDER``, can be followed for a command.

    It can if the command has the flag. A hint that does not begin with a flag is always possible.
    """
    named = re.match(r"use `(--[\w-]+)", hint)
    return named is None or verb == "snellen" or named[1] in _flags_of(verb)


def _hint_from_line(verb: str, flag: str, words: Sequence[str]) -> str:
    """Return what to write instead of a flag that `build` or `export` does not have, but another command does.

    `--split` and `--subset` are not flags of any command, but part of a name; for these, the name is returned.

    Args:
        verb: `build` or `export`.
        flag: The flag.
        words: All words of the command line.

    Returns:
        The hint; empty if none of this applies.

    Examples:
        >>> _hint_from_line("build", "--split", "build photos --split test".split())
        'a split is part of the name: `snellen build photos:test`'
    """
    arguments = list(words[words.index(verb) + 1 :]) if verb in words else []
    if verb == "export":
        score_flags = _flags_of("score")
        is_about_scoring = flag in score_flags and flag in _flags_of_run()
        if not is_about_scoring:
            return ""
        run = _first_argument(verb, arguments, flag) or "RUN"
        value = [_value_of(arguments, flag)] if score_flags[flag] else []
        score_line = shlex.join(["snellen", "score", run, flag, *value])
        return f"first score the run so, `{score_line}`, then name that scoring with `--scoring`"
    if flag in ("--split", "--subset"):
        source = _first_argument(verb, arguments, flag) or "SOURCE"
        split = _value_of(arguments, flag) or "SPLIT"
        return f"a split is part of the name: `{shlex.join(['snellen', 'build', f'{source}:{split}'])}`"
    if flag in _flags_of("reform"):
        return f"`{_line_with_flag('reform', flag, arguments)}` makes questions from annotations"
    return ""


def _first_argument(verb: str, words: Sequence[str], flag: str) -> str:
    """Return the first word that is neither a flag nor the value of a flag; empty if there is none.

    Args:
        verb: The command, whose flags with values are known.
        words: The words after the command.
        flag: Another flag, which the command does not have, and which has a value.
    """
    flags_with_value = {name for name, has_value in _flags_of(verb).items() if has_value}
    flags_with_value.add(flag)
    previous = ""
    for word in words:
        if not word.startswith("-") and previous not in flags_with_value:
            return word
        previous = word
    return ""


def _value_of(words: Sequence[str], flag: str) -> str:
    """Return the value of a flag, written as `--flag value` or `--flag=value`; empty if there is none."""
    for number, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
        if word == flag and number + 1 < len(words):
            return words[number + 1]
    return ""


def _hint_without_verb(words: Sequence[str]) -> str:
    """Return the `snellen run` command for a line that lacks the command, such as `snellen --model hf ...`.

    It may be a line of another harness, or have flags before the word `run`.

    Args:
        words: All words of the command line.

    Returns:
        The hint; empty if the words cannot be translated.
    """
    from snellen.cli.other_harnesses import translate_line

    arguments = list(words)
    if "run" in words:
        position = words.index("run")
        arguments = [*words[position + 1 :], *words[:position]]
    has_other_verb = not _OWN_VERBS.isdisjoint(arguments)
    if has_other_verb:
        return ""
    translated = translate_line(arguments, _flags_of_run())
    return f"write {translated}" if translated.line else ""


def _hint_for_run(flag: str, words: Sequence[str], usual_hint: str) -> str:
    """Return what to write instead of a flag that `snellen run` does not have, with the complete command if possible.

    Args:
        flag: The flag.
        words: All words of the command line.
        usual_hint: The hint for this flag. It is returned if no complete command can be made of the words.
    """
    from snellen.cli.other_harnesses import LATER, MODEL_OPTIONS, line_to_build, translate_line

    arguments = words[words.index("run") + 1 :] if "run" in words else []
    if flag in _REPETITION_FLAGS:
        times = _value_of(arguments, flag)
        times = times if times.isdecimal() and int(times) > 1 else "5"
        return (
            f"use `-p 'repeat?k={times}'` to send the same requests {times} times, or `-p 'instability?m={times}'` to ask "
            "with other wordings"
        )
    building = line_to_build(flag, arguments)
    if not building and flag in _flags_of("build"):
        building = _line_with_flag("build", flag, arguments)
    if building:
        return f"build the benchmark first: `{building}`"
    translated = translate_line(arguments, _flags_of_run())
    if not translated.line:
        later = LATER.get(flag.replace("_", "-"), "")
        return usual_hint or later.format(_value_of(arguments, flag) or "NUMBER")
    has_file = any(Path(word).suffix and Path(word).is_file() for word in words)
    if flag == "--data" and has_file:
        return f"give the file as the benchmark: {translated}"
    if usual_hint.startswith(_USE_RUNS):
        is_complete = "BENCHMARK" not in translated.line.split()
        if not is_complete:
            return usual_hint
        return f"use {translated}{usual_hint.removeprefix(_USE_RUNS)}"
    hint = _MODEL_FIRST
    if usual_hint in (_MODEL_FIRST, _IN_MODEL_STRING, _ADDRESS_IN_MODEL_STRING):
        hint = usual_hint
    elif flag.replace("_", "-") in MODEL_OPTIONS:
        hint = _IN_MODEL_STRING
    reason, _, _ = hint.partition(": `")
    return f"{reason}: {translated}"


def _line_with_flag(verb: str, flag: str, words: Sequence[str]) -> str:
    """Return the command that has the flag which the user typed, such as `snellen build mine.tsv --images pictures`.

    Args:
        verb: The command that has the flag.
        flag: The flag, which the user typed for another command.
        words: The words that the user typed after that command. The first file among them is used.
    """
    files = [word for word in words if Path(word).suffix and Path(word).is_file()]
    file = files[0] if files else "FILE"
    command = ["snellen", verb, file, flag]
    takes_value = _flags_of(verb)[flag]
    if takes_value:
        words_behind_flag = words[words.index(flag) + 1 :] if flag in words else []
        command.append(words_behind_flag[0] if words_behind_flag else "VALUE")
    return shlex.join(command)


def _flags_of_run() -> dict[str, bool]:
    """Return the flags of `snellen run`, and whether each has a value."""
    return _flags_of("run")


def _flags_of(verb: str) -> dict[str, bool]:
    """Return the flags of a verb, and whether each has a value."""
    command = cli.get_command(click.Context(cli), verb)
    if command is None:
        return {}
    flags: dict[str, bool] = {}
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            flags[name] = not getattr(parameter, "is_flag", False)
    return flags


def _check_encoding(words: Sequence[str]) -> None:
    """Raise DataError for an argument that is not in UTF-8, because the files that Snellen writes cannot contain it."""
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise DataError(
                f"the argument {short_name(word)!r} is not in UTF-8; rename the file, or set the terminal to UTF-8"
            )


def _describe_system_error(error: OSError | UnicodeEncodeError) -> str:
    """Return the message for an error of the operating system that no other code has described."""
    if isinstance(error, UnicodeEncodeError):
        return (
            f"a text contains {error.object[error.start : error.end]!r}, an unpaired surrogate, which cannot be "
            "encoded; correct the text (--debug shows where)"
        )
    reason = error.strerror or str(error) or type(error).__name__
    file = f"{error.filename}: " if error.filename else ""
    advice = "; free some space, then repeat the command" if error.errno in _DISK_FULL else ""
    return f"{file}{reason}{advice} (--debug shows where)"


def _is_from_other_code(error: BaseException) -> bool:
    """Return whether an error was caused by code of the user or of another package, such as a metric of their own."""
    while isinstance(error, SnellenError) and error.__cause__:
        cause = error.__cause__
        if isinstance(error, HookError) and not isinstance(cause, SnellenError):
            return True
        error = cause
    return False


def _format_usage_error(error: click.ClickException) -> str:
    """Return the message of an error in the command line as one line, with the command that shows the help."""
    message = " ".join(strip_controls(error.format_message()).split()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f" (see `{context.command_path} --help`)" if context else ""
    parameter = error.param if isinstance(error, click.MissingParameter) else None
    if context and parameter is not None and parameter.name == "runs" and parameter.nargs == -1:
        hint = f"; `{context.command_path} runs` takes all runs of the folder `runs`{hint}"
    return f"{message[:1].lower()}{message[1:]}{hint}"


# --- verbs of other packages -----------------------------------------------------------------------------------------


class Verb(NamedTuple):
    """A verb that a package adds to the command line. Its module is imported for `snellen --help`, so it must be light.

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
    """Heading under which `snellen --help` lists it."""


def installed_verbs() -> Mapping[str, str]:
    """Return the verbs that other packages add, by name, with the `module:attribute` where each `Verb` is declared."""
    return entry_points_of("snellen.").get("snellen.verbs", {})


def declared_verb(target: str) -> Verb:
    """Return the verb that a package declares. If it cannot be imported, its help line is the error.

    Args:
        target: The `module:attribute` of the `Verb`.
    """
    try:
        verb: Verb = import_target(target)
    except ImportError as error:
        return Verb(f"(cannot be loaded: {error})", target)
    return verb


def import_target(target: str) -> Any:
    """Import an object that is named as `module:attribute`.

    `registry.load_target` does more, but would take a tenth of the time of `snellen --help`.
    """
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)
