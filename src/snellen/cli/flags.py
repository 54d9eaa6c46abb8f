"""Flags shared by several verbs: how replies are read and scored, who judges, which questions, and --json."""

from __future__ import annotations

import math
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
from snellen.fetching.user_callbacks import agree_to_all, go_offline
from snellen.metrics.declaration import JUDGE_PREFIX, judging_code
from snellen.registry import code_name, is_code, register_scoring_code
from snellen.runs.spec import (
    ExecutionSpec,
    JudgeSpec,
    QuestionSpec,
    ScoringSpec,
    TokenPrice,
    judge_spec,
    scoring_spec,
)


class IntegerParameter(click.IntRange):
    """Click parameter type for a whole number within bounds, shown as `integer` in help.

    Examples:
        >>> @click.command()
        ... @click.option("--limit", type=IntegerParameter(1))
        ... def command(limit):
        ...     click.echo(limit)
        >>> command(["--limit", "5"], standalone_mode=False)
        5
    """

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a flag's value as an integer; otherwise fail with the allowed range."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"give a whole number{_between(self)}, not {value}", param, ctx)


class FloatParameter(click.FloatRange):
    """Click parameter type for a number within bounds, shown as `number` in help.

    Examples:
        >>> @click.command()
        ... @click.option("--ratio", type=FloatParameter(0, 1))
        ... def command(ratio):
        ...     click.echo(ratio)
        >>> command(["--ratio", "0.5"], standalone_mode=False)
        0.5
    """

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a flag's value as a number; otherwise fail with the allowed range."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"give a number{_between(self)}, not {value}", param, ctx)


def _between(numbers: click.IntRange | click.FloatRange) -> str:
    """Return the allowed range of a number as a part of a message, such as ` from 1 to 8`; empty if there are no
    limits.
    """
    least = numbers.min
    most = numbers.max
    if least is not None and most is not None:
        return f" from {least:g} to {most:g}"
    if least is not None:
        return f" above {least:g}" if numbers.min_open else f" of {least:g} or more"
    if most is not None:
        return f" of at most {most:g}"
    return ""


CommandT = TypeVar("CommandT", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
"""Click parameter type of a file or folder."""
SECONDS_OF = {"s": 1, "m": 60, "h": 3600}
JUDGE = "judge_"
"""Prefix of the flags that set fields of `JudgeSpec`."""


def parse_price(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> TokenPrice | None:
    """Parse prices per million tokens, such as `0.15,0.6` or `3,15,0.3,3.75`.

    Returns:
        Two to four prices: of input, of output, of input that is read from the provider's cache, and of input that
        is stored in that cache. None if the user did not give the flag.
    """
    if not text:
        return None
    try:
        prices = tuple(float(price) for price in text.split(","))
    except ValueError:
        prices = ()
    are_prices = all(math.isfinite(price) and price >= 0 for price in prices)
    if not 2 <= len(prices) <= 4 or not are_prices:
        raise click.BadParameter(
            f"{text!r} is not IN,OUT; give two prices per million tokens, such as 0.15,0.6 (and a third for cached ones)"
        )
    return prices


def parse_seconds(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | None:
    """Parse a time such as `90`, `90s`, `30m` or `2h` into seconds."""
    if not text:
        return None
    number = text
    seconds = 1
    if text[-1] in SECONDS_OF:
        number = text[:-1]
        seconds = SECONDS_OF[text[-1]]
    try:
        return float(number) * seconds
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
"""Decorator that adds the flag `--json`, which the command receives as `as_json`."""


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
    type=FloatParameter(1),
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
"""Decorator that adds the flag `--offline`, which forbids the network. The command does not receive it."""


def _parse_roles(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str] | None:
    """Parse `ROLE=MODEL` flags into the model of each role; None without flags."""
    models: dict[str, str] = {}
    for text in texts:
        role, _, model = text.partition("=")
        if not role or not model:
            raise DataError(
                f"--role {text!r}: write ROLE=MODEL, such as questioner=openai:NAME@URL"
            )
        models[role] = model
    return models or None


def _parse_names(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Parse repeated flags with names between commas: `a,b` and `c` are `("a", "b", "c")`."""
    names: list[str] = []
    for text in texts:
        names += [name.strip() for name in text.split(",")]
    return tuple(names)


def _parse_types(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Parse names as `_parse_names` does, without empty ones."""
    types = _parse_names(context, parameter, texts)
    return tuple(name for name in types if name)


def _parse_params(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str] | None:
    """Parse `NAME=VALUE` flags into the value of each name; None without flags."""
    params: dict[str, str] = {}
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
"""Parsers of flags that are written in a special form, by the metavar of their field."""


class GroupedCommand(click.Command):
    """Command whose help groups its options: the usual ones, those of each record, and the others."""

    usual: tuple[str, ...] = ()
    """Flags of the first group."""
    usual_title = "Options that most runs need"
    titles: Mapping[type[Struct], str] = MappingProxyType(
        {
            QuestionSpec: "What to evaluate, and how",
            ExecutionSpec: "Execution",
            ScoringSpec: "How replies are read and scored",
            JudgeSpec: "Models as judges",
        }
    )
    """Titles of the records that have flags."""
    others_title = "Other options"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of all options under their groups' titles."""
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
        """Return the title of the group of an option."""
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
    """Return a decorator that adds a flag to a command for each field of a settings record.

    For a flag that the user did not give, the command receives None (or an empty tuple if the flag can be
    repeated), so that it can tell the default from a typed value.

    Args:
        form: The type of the record, such as `ScoringSpec`.
        names: Fields to add. By default all.
        but: Fields to leave out.
        prefix: Prefix of the flags and of the command's parameters, such as `judge_`.
        unless: Text for the help that says what happens without the flag. By default it is the default of the
            field.
        has_negations: Whether a switch also has the opposite flag (`--no-strict`). It is needed if a settings file
            can turn the switch on.

    Examples:
        >>> @field_flags(ScoringSpec, ("metrics",))
        ... def command(metrics: tuple[str, ...]) -> None: ...
        >>> [option.name for option in command.__click_params__]
        ['metrics']
    """
    fields = []
    for name, field in record_fields(form).items():
        is_selected = not names or name in names
        if is_selected and name not in but:
            fields.append(field)

    def with_flags(command: CommandT) -> CommandT:
        for field in reversed(fields):
            command = _flag(field, prefix, unless, has_negations)(command)
        return command

    return with_flags


def _flag(
    field: RecordField, prefix: str, unless: str, has_negation: bool
) -> Callable[[CommandT], CommandT]:
    """Return the decorator that adds the flag of one field of a settings record to a command.

    Args:
        field: The field, which has the type, help and default of the flag.
        prefix: Prefix of the flag and of the parameter, such as `judge_`.
        unless: Text for the help that says what happens without the flag; by default the default of the field.
        has_negation: Whether a switch also has the opposite flag, such as `--no-strict`.
    """
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
        default = _default_text(field.default)
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
    """Return the click parameter type of a field, or of each item of a list."""
    if field.choices:
        return click.Choice(field.choices)
    if field.option.metavar in ("FILE", "FOLDER"):
        return click.Path()
    least = field.limits.ge
    greatest = field.limits.le
    if field.type is int:
        if least is None:
            return int
        return IntegerParameter(int(least), None if greatest is None else int(greatest))
    if field.type is float:
        if least is None:
            return FloatParameter(field.limits.gt, greatest, min_open=True)
        return FloatParameter(least, greatest)
    return str


def _default_text(default: Any) -> str:
    """Return a default for help: `yes`, `0.5` or `circular`; empty for none."""
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, (int, float)):
        return f"{default:g}"
    return str(default or "")


def judge_flags(command: CommandT) -> CommandT:
    """Give a command the flags for judges, from which `judge_from_flags` makes a record."""
    return field_flags(JudgeSpec, prefix=JUDGE)(command)


def scoring_flags(command: CommandT) -> CommandT:
    """Give a command the flags for parsing and scoring replies, and for judges."""
    return field_flags(ScoringSpec)(judge_flags(command))


stored_scoring_flag = click.option(
    "--scoring",
    "stored_scoring",
    metavar="NAME",
    help="Stored scoring to show: latest, standard, its metric or judge, or the name (or the beginning of it) of its "
    "folder in the run's `scores`.  [latest]",
)
"""Decorator that adds the flag that chooses one of the scorings that runs have already."""

subset_flags = field_flags(SubsetSpec, has_negations=False)
"""Decorator that adds the flags that restrict the questions, which the command passes to `Results.only`."""


def flags_on_line(only: Collection[str] = (), but: Collection[str] = ()) -> list[str]:
    """Return the flags that the user typed, such as `--limit`, and not those that have their default.

    Args:
        only: Names of the parameters to look for. By default all.
        but: Names of parameters to ignore, if `only` is empty.
    """
    context = click.get_current_context()
    flags: list[str] = []
    for parameter in context.command.params:
        if only and parameter.name not in only:
            continue
        if not only and parameter.name in but:
            continue
        source = context.get_parameter_source(str(parameter.name))
        if source is ParameterSource.COMMANDLINE:
            flags.append(parameter.opts[0])
    return flags


def given_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose flags the user gave."""
    return {name: value for name, value in flags.items() if value not in (None, ())}


def flags_given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that the user gave, as fields of a `RunSpec`.

    Those for scoring and judges are in tables: `{"limit": 4, "scoring": {"metrics": ("anls",)}}`. Code that the flags for
    scoring name (`my_metrics.py:NAME`) is imported. A judge that is a function of a reply becomes a metric, as in Python.

    Examples:
        >>> flags_given({"limit": 4, "metrics": ("anls",), "seed": None})
        {'limit': 4, 'scoring': {'metrics': ('anls',)}}
    """
    fields: dict[str, Any] = {}
    scoring: dict[str, Any] = {}
    judge: dict[str, Any] = {}
    for name, value in flags.items():
        if value in (None, ()):
            continue
        if name.startswith(JUDGE):
            judge[name.removeprefix(JUDGE)] = value
        elif name in ScoringSpec.__struct_fields__:
            scoring[name] = value
        else:
            fields[name] = value
    if "metrics" in scoring:
        scoring["metrics"] = tuple(code_name(metric) for metric in scoring["metrics"])
    if "extractor" in scoring:
        scoring["extractor"] = code_name(scoring["extractor"])
    _check_given_once(scoring.get("metrics", ()), judge.get("models", ()))
    register_scoring_code(scoring.get("metrics", ()), scoring.get("extractor", ""))
    if any(is_code(code_name(model)) for model in judge.get("models", ())):
        from snellen.given_arguments import separate_judges  # loads what opens models
        from snellen.metrics.own import judge_names

        functions, judge["models"] = separate_judges(judge["models"])
        scoring["metrics"] = (*scoring.get("metrics", ()), *judge_names(functions))
    if scoring:
        fields["scoring"] = scoring
    if judge:
        fields["judge"] = judge
    return fields


def _check_given_once(metrics: Sequence[str], judges: Sequence[str]) -> None:
    """Raise DataError if the user gave a judge with `--metric`, or the same one with both `--metric` and `--judge`."""
    for metric in metrics:
        name = judging_code(metric)
        if name:
            raise DataError(f"--metric {JUDGE_PREFIX}{name}: this is a judge; write --judge {name}")
    for judge in judges:
        name = code_name(judge)
        if name in metrics:
            raise DataError(
                f"{name} is given with --metric and with --judge; give it once: a judge marks the replies to all "
                "questions, a metric those to questions without options"
            )


def scoring_from_flags(flags: Mapping[str, Any]) -> ScoringSpec:
    """Return the `ScoringSpec` that the flags describe."""
    return scoring_spec(flags_given(flags).get("scoring", {}))


def judge_from_flags(flags: Mapping[str, Any]) -> JudgeSpec:
    """Return the `JudgeSpec` that the flags describe."""
    return judge_spec(flags_given(flags).get("judge", {}))


def column_flags(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that the user named by `--column` flags: `image=Foto` gives `{"image": ["Foto"]}`.

    Raises:
        DataError: A text is not written as ROLE=COLUMN.
    """
    columns: dict[str, list[str]] = {}
    for text in texts:
        role, equals, column = text.partition("=")
        if not equals or not column:
            raise DataError(f"--column {text}: write it as ROLE=COLUMN, such as image=Foto")
        columns.setdefault(role, []).append(column)
    return columns
