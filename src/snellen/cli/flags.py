"""Flags shared by several verbs: how replies are read and scored, who judges, which questions, and --json."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct

from snellen.common.foreign import raise_limits
from snellen.common.record_fields import RecordField, record_fields
from snellen.errors import DataError
from snellen.experiments.compare_spec import SubsetSpec
from snellen.fetching.attendance import agree_to_all, go_offline
from snellen.runs.spec import (
    ExecutionSpec,
    JudgeSpec,
    QuestionSpec,
    ScoringSpec,
    TokenPrice,
    judge_spec,
    scoring_spec,
)


class WholeNumber(click.IntRange):
    """A whole number between bounds, by that name in help and messages."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"give a whole number{_between(self)}, not {value}", param, ctx)


class Number(click.FloatRange):
    """The same of any number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"give a number{_between(self)}, not {value}", param, ctx)


def _between(numbers: click.IntRange | click.FloatRange) -> str:
    least, most = numbers.min, numbers.max
    if least is None:
        return "" if most is None else f" of at most {most:g}"
    if most is None:
        return f" above {least:g}" if numbers.min_open else f" of {least:g} or more"
    return f" from {least:g} to {most:g}"


CommandT = TypeVar("CommandT", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
"""The type of flags and arguments that name a file or folder."""
SECONDS_OF = {"s": 1, "m": 60, "h": 3600}
JUDGE = "judge_"
"""The prefix of the flags that set fields of `JudgeSpec`."""


def parse_price(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> TokenPrice | None:
    if not text:
        return None
    try:
        input_price, output_price = (float(price) for price in text.split(","))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not IN,OUT; give two prices per million tokens, e.g. 0.15,0.6"
        ) from None
    return input_price, output_price


def parse_seconds(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | None:
    """`90`, `90s`, `30m` or `2h` in seconds."""
    if not text:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1] in SECONDS_OF else (text, "s")
    try:
        return float(number) * SECONDS_OF[unit]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time; write 90, 30m or 2h") from None


details_flag = click.option(
    "--details",
    "with_details",
    is_flag=True,
    help="Print all tables and notes, not only the headline results.",
)
json_flag = click.option(
    "--json", "as_json", is_flag=True, help="Print tables as JSON, one object per line."
)
"""A decorator: `--json`, given to the command as `as_json`."""


def _forbid_network(context: click.Context, parameter: click.Parameter, is_set: bool) -> None:
    if is_set and not context.resilient_parsing:
        go_offline()


def _agree(context: click.Context, parameter: click.Parameter, is_set: bool) -> None:
    if is_set and not context.resilient_parsing:
        agree_to_all()


def _raise_limits(context: click.Context, parameter: click.Parameter, factor: float | None) -> None:
    if factor and not context.resilient_parsing:
        raise_limits(factor)


yes_flag = click.option(
    "--yes",
    "-y",
    is_flag=True,
    expose_value=False,
    callback=_agree,
    help="Accept licences and large downloads without asking.",
)
limits_flag = click.option(
    "--raise-limits",
    "limits",
    type=Number(1),
    expose_value=False,
    callback=_raise_limits,
    metavar="FACTOR",
    help="Multiply the limits on the size and duration of untrusted input.  [$SNELLEN_LIMITS, "
    "or 1]",
)
offline_flag = click.option(
    "--offline",
    is_flag=True,
    expose_value=False,
    callback=_forbid_network,
    help="Do not download data or models; use only what is on this machine.",
)
"""The flag `--offline`, which forbids the network and passes nothing to the command."""


def _parse_roles(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str] | None:
    pairs = [text.partition("=") for text in texts]
    if wrong := ["".join(pair) for pair in pairs if not all(pair)]:
        raise DataError(
            f"--role {wrong[0]!r} is not ROLE=MODEL, such as questioner=openai:NAME@URL"
        )
    return {role: model for role, _, model in pairs} or None


def _parse_names(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(name.strip() for text in texts for name in text.split(","))


def _parse_types(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    types = _parse_names(context, parameter, texts)
    return tuple(name for name in types if name)


def _parse_params(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str] | None:
    params = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise DataError(f"--param {text}: write it as NAME=VALUE")
        params[name] = value
    return params or None


def _parse_columns(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, list[str]] | None:
    return column_flags(texts) or None


_FORMS = {
    "ROLE=MODEL": _parse_roles,
    "ROLE=COLUMN": _parse_columns,
    "NAME=VALUE": _parse_params,
    "TYPE,TYPE": _parse_types,
    "IN,OUT": parse_price,
    "TIME": parse_seconds,
    "CARD,...": _parse_names,
}
"""How a value is read that is written in a form of its own, by the metavar of its field."""


class GroupedCommand(click.Command):
    """A command whose help groups its options: first the usual ones, then those of each record, then the others."""

    usual: tuple[str, ...] = ()
    """Flags of the first group."""
    usual_title = "Options that most runs need"
    titles: Mapping[type[Struct], str] = MappingProxyType(
        {
            QuestionSpec: "What is asked, and how",
            ExecutionSpec: "How the work is done",
            ScoringSpec: "How replies are read and scored",
            JudgeSpec: "Models as judges",
        }
    )
    """Titles of the records that have flags."""
    others_title = "Other options"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        titles = (self.usual_title, *self.titles.values(), self.others_title)
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for parameter in self.get_params(ctx):
            line = parameter.get_help_record(ctx)
            if line is not None and isinstance(parameter, click.Option):
                groups[self._title_of(parameter)].append(line)
        for title, lines in groups.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)

    def _title_of(self, parameter: click.Option) -> str:
        spellings = {*parameter.opts, *parameter.secondary_opts}
        if not spellings.isdisjoint(self.usual):
            return self.usual_title
        name = parameter.name or ""
        for form, title in self.titles.items():
            prefix = JUDGE if form is JudgeSpec else ""
            if name.startswith(prefix) and name.removeprefix(prefix) in record_fields(form):
                return title
        return self.others_title


def field_flags(
    form: type[Struct],
    names: Collection[str] = (),
    *,
    but: Collection[str] = (),
    prefix: str = "",
    unless: str = "",
    has_negations: bool = True,
) -> Callable[[CommandT], CommandT]:
    """Give a command a flag for each field of a record, or for those named, all but some.

    A flag that is not given is None or empty. `unless` says what holds then, where it is not the record's default.
    Fields that a file may set need a negation (`--no-strict`) to be set back.
    """
    fields = [
        field
        for name, field in record_fields(form).items()
        if name not in but and (not names or name in names)
    ]

    def with_flags(command: CommandT) -> CommandT:
        for field in reversed(fields):
            command = _flag(field, prefix, unless, has_negations)(command)
        return command

    return with_flags


def _flag(
    field: RecordField, prefix: str, unless: str, has_negation: bool
) -> Callable[[CommandT], CommandT]:
    option = field.option
    is_switch = field.type is bool
    long_flag = f"--{prefix.replace('_', '-')}{field.flag.removeprefix('--')}"
    if option.flag.startswith("--"):
        flags = [option.flag]
    elif is_switch and has_negation:
        flags = [f"{long_flag}/--no-{long_flag.removeprefix('--')}"]
    elif option.flag:
        flags = [option.flag, long_flag]
    else:
        flags = [long_flag]

    help_text = option.help
    if field.is_repeated:
        help_text += " Repeat for more."
    default = unless or option.unless
    if not default and (has_negation or not is_switch):
        default = _shown(field.default)
    if default:
        help_text += f"  [{default}]"

    kind: dict[str, Any] = {}
    if option.alone:
        kind = {"is_flag": False, "flag_value": option.alone}
    elif is_switch and not has_negation:
        kind = {"is_flag": True}
    if option.metavar not in _FORMS and not is_switch:
        kind["type"] = _click_type(field)
    return click.option(
        *flags,
        f"{prefix}{field.name}",
        default=None,
        multiple=field.is_repeated,
        metavar=option.metavar or None,
        callback=_FORMS.get(option.metavar),
        help=help_text,
        **kind,
    )


def _click_type(field: RecordField) -> Any:
    """How click reads a value of the type, or of each item of a list."""
    if field.choices:
        return click.Choice(field.choices)
    if field.option.metavar in ("FILE", "FOLDER"):
        return click.Path()
    least, most = field.limits.ge, field.limits.le
    if field.type is int and least is not None:
        return WholeNumber(int(least), None if most is None else int(most))
    if field.type is float:
        return Number(least if least is not None else field.limits.gt, most, min_open=least is None)
    return int if field.type is int else str


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, (int, float)) else str(default or "")


def judge_flags(command: CommandT) -> CommandT:
    """Give a command the flags for judges; see `judge_from_flags`."""
    return field_flags(JudgeSpec, prefix=JUDGE)(command)


def scoring_flags(command: CommandT) -> CommandT:
    """Give a command the flags for reading and scoring replies, and for judges."""
    return field_flags(ScoringSpec)(judge_flags(command))


subset_flags = field_flags(SubsetSpec, has_negations=False)
"""Give a command the flags that narrow the questions; it passes them on to `Results.only`."""


def flags_on_line(only: Collection[str] = (), but: Collection[str] = ()) -> list[str]:
    """The flags that stand on the command line, as they are written, of parameters by name."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        and (parameter.name in only if only else parameter.name not in but)
    ]


def given_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose flags the user gave."""
    return {name: value for name, value in flags.items() if value not in (None, ())}


def flags_given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that the user gave, as fields of a `RunSpec`; those for scoring and judges in tables of their own."""
    tables: dict[str, dict[str, Any]] = {"scoring": {}, "judge": {}}
    fields: dict[str, Any] = {}
    for name, value in flags.items():
        if value in (None, ()):
            continue
        if name.startswith(JUDGE):
            tables["judge"][name.removeprefix(JUDGE)] = value
        elif name in ScoringSpec.__struct_fields__:
            tables["scoring"][name] = value
        else:
            fields[name] = value
    return {**fields, **{name: table for name, table in tables.items() if table}}


def scoring_from_flags(flags: Mapping[str, Any]) -> ScoringSpec:
    """The `ScoringSpec` that the flags describe."""
    return scoring_spec(flags_given(flags).get("scoring", {}))


def judge_from_flags(flags: Mapping[str, Any]) -> JudgeSpec:
    """The `JudgeSpec` that the flags describe."""
    return judge_spec(flags_given(flags).get("judge", {}))


def column_flags(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each role, from flags such as `picture=Foto`. Raises DataError for another form."""
    columns: dict[str, list[str]] = {}
    for text in texts:
        role, equals, column = text.partition("=")
        if not equals or not column:
            raise DataError(f"--column {text}: write it as ROLE=COLUMN, such as picture=Foto")
        columns.setdefault(role, []).append(column)
    return columns
