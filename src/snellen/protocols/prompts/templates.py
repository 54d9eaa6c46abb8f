"""Instruction templates: Snellen's own, or a user's file of the same form.

Forms that many benchmarks are asked in, for entries to name in their sets of prompts.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen import registry
from snellen.catalogue import BenchmarkSpec, PictureLimits, PromptSet, entries
from snellen.common.foreign import read_text
from snellen.errors import DataError, UnknownNameError
from snellen.formats.json_files import converted, parse_toml
from snellen.protocols.prompts.role_prompts import ReasoningPrompts, parse_reasoning_prompts
from snellen.records import METHODS, Decoding, Method

QUESTION = "{question}"
"""Stands for a sample's own question in a prompt."""


PicturePlaces = Literal["marked", "trimmed", "first"]


class InContext(Struct, frozen=True):
    question: str
    options: tuple[str, ...]


class Layout(Struct, frozen=True, forbid_unknown_fields=True):
    """How a question with options is written, and how a reply to it looks."""

    heading: str
    """A blank parts it from the options, unless it is empty or ends with white space."""
    label: str
    """Empty where options are listed without labels: a reply then names one by its text."""
    separator: str
    stop: str
    response_prefix: str
    """Empty where the reply is not opened."""
    reply: str
    context: str = "{context}\n"
    """What the first question of a sample with a context opens with."""
    question: str = "{question} "
    """What stands before the heading."""
    open: str = QUESTION
    """A question without options."""
    pictures: PicturePlaces = "marked"
    """Where pictures stand that a question marks: at their marks, there without white space around them, or first."""


class Instructions(Struct, frozen=True):
    instructions: tuple[str, ...]


class Templates(Struct, frozen=True):
    """All wording of a run. `id` is a digest of the file, stored with every run."""

    id: str
    families: dict[str, dict[Method, Instructions]]
    in_context: InContext
    layout: Layout
    reasoning: ReasoningPrompts
    """What the other models of a reasoning are told."""
    of_data: bool = False
    """Whether the instructions in a benchmark's own data, if any, replace Snellen's."""
    prompt: str = ""
    """What is asked in place of every instruction and question; `{question}` in it stands for the question."""
    by_suite: dict[str, Templates] = {}
    """Instead of these, for the benchmarks of a suite whose paper says how it asks."""
    by_benchmark: dict[str, Templates] = {}
    """Instead of these, for benchmarks whose entries declare a set of prompts."""
    decoding: Decoding = Decoding(max_new_tokens=0)
    """How replies are decoded where a run says nothing of it; of any length when 0."""
    pictures: PictureLimits = PictureLimits()
    """How large pictures are shown, and how many frames of a clip."""

    def instructions(self, family: str, method: Method) -> tuple[str, ...]:
        """The instructions of a family under a method. Raises UnknownNameError."""
        if self.prompt:
            return ("",)
        try:
            return self.families[family][method].instructions
        except KeyError:
            available = ", ".join(
                f"{name}.{method}" for name in self.families for method in self.families[name]
            )
            raise UnknownNameError(
                f"no templates for {family}.{method}; the file has {available}"
            ) from None

    def with_instructions(self, family: str, instructions: tuple[str, ...]) -> Templates:
        """These templates with other instructions for one family, under both methods."""
        methods: dict[Method, Instructions] = {
            "generation": Instructions(instructions),
            "likelihood": Instructions(instructions),
        }
        return replace(self, families={**self.families, family: methods})

    def with_prompt(self, prompt: str) -> Templates:
        """These templates with one text asked in place of every instruction and question.

        Raises DataError for a field in braces other than `{question}`.
        """
        if not checked_prompt(prompt):
            return self
        digest = hashlib.sha256(prompt.encode()).hexdigest()[:12]
        return replace(
            self,
            id=f"{self.id}, prompt {digest}",
            prompt=prompt,
            by_suite={name: own.with_prompt(prompt) for name, own in self.by_suite.items()},
            by_benchmark={name: own.with_prompt(prompt) for name, own in self.by_benchmark.items()},
        )

    def worded(self, question: str) -> str:
        """What is asked for a question: the prompt where there is one."""
        return self.prompt.replace(QUESTION, question) if self.prompt else question

    def named(self, name: str) -> str:
        """The instruction behind a template id such as `choice.generation.2`."""
        if self.prompt:
            return ""
        family, method, number = name.rsplit(".", 2)
        return self.families[family][cast(Method, method)].instructions[int(number)]


def checked_prompt(prompt: str) -> str:
    """The prompt itself. Raises DataError for a field in braces other than `{question}`."""
    if fields := [field for field in re.findall(r"\{\w*\}", prompt) if field != QUESTION]:
        raise DataError(
            f"prompt {prompt!r}: {fields[0]} stands for nothing; the one field is {QUESTION}"
        )
    return prompt


@cache
def default_templates() -> Templates:
    return parse_templates(
        files("snellen.protocols.prompts").joinpath("templates.toml").read_text("utf-8"),
        "templates.toml",
    )


SNELLEN = "snellen"
"""Stands for Snellen's own words, as no name does."""
DATA = "data"
"""Stands for the instructions in a benchmark's own data; Snellen's own if there are none."""
AS_PUBLISHED = "as-published"
"""Stands for the prompts of the papers of suites that say so (`templates` of `[as_published]`), else Snellen's own."""


def named_templates(
    name: str | Path, by_suite: Mapping[str, str] = MappingProxyType({})
) -> Templates:
    """Snellen's own templates for no name or `snellen`, those of the data for `data`, a named set, or those of a file.

    For `as-published` also those named `by_suite`. Raises DataError for a file that is none, UnknownNameError for a
    name that nobody has.
    """
    if not name or name == SNELLEN:
        return default_templates()
    defaults = default_templates()
    if name == DATA:
        return replace(defaults, id=f"{DATA}, else {defaults.id}", of_data=True)
    if name == AS_PUBLISHED:
        of_suites = {suite: named_templates(set_name) for suite, set_name in by_suite.items()}
        ids = ", ".join(f"{suite} {templates.id}" for suite, templates in sorted(of_suites.items()))
        return replace(
            defaults, id=f"{AS_PUBLISHED} ({ids}), else {defaults.id}", by_suite=of_suites
        )
    sets = registry.targets("templates")
    if name in sets:
        chosen: Templates = registry.find("templates", str(name))
        return chosen
    if not Path(name).suffix and not Path(name).exists():
        raise registry.unknown(
            "set of templates", str(name), [SNELLEN, DATA, AS_PUBLISHED, *sets, *declared_sets()]
        )
    return load_templates(Path(name))


def declared_sets() -> list[str]:
    """Names of the sets of prompts that entries of the catalogue declare."""
    return sorted({name for spec in entries().values() for name in spec.prompts})


def declared_templates(name: str, sets: Mapping[str, PromptSet]) -> Templates:
    """The set of prompts called `name`, from what each benchmark's entry declares of it. Raises DataError."""
    by_benchmark = {
        benchmark: _of_set(own, f"{benchmark}: [prompts.{name}]") for benchmark, own in sets.items()
    }
    text = msgspec.json.encode(
        {benchmark: own.id for benchmark, own in sorted(by_benchmark.items())}
    )
    digest = hashlib.sha256(text).hexdigest()[:12]
    return replace(default_templates(), id=f"{name} ({digest})", by_benchmark=by_benchmark)


def with_defaults_of(defaults: Templates, specs: Sequence[BenchmarkSpec]) -> Templates:
    """The templates of a run that names none, but those that entries name as their own. Raises UnknownNameError."""
    own = {spec.name: _default_of(spec) for spec in specs if spec.templates}
    if not own:
        return defaults
    text = msgspec.json.encode(
        {benchmark: templates.id for benchmark, templates in sorted(own.items())}
    )
    digest = hashlib.sha256(text).hexdigest()[:12]
    return replace(defaults, id=f"of entries ({digest}), else {defaults.id}", by_benchmark=own)


def _default_of(spec: BenchmarkSpec) -> Templates:
    if spec.templates in spec.prompts:
        return _of_set(spec.prompts[spec.templates], f"{spec.name}: [prompts.{spec.templates}]")
    chosen: Templates = registry.find("templates", spec.templates)
    return chosen


def _of_set(own: PromptSet, where: str) -> Templates:
    form: Templates = registry.find("templates", own.form)
    layout = converted({**asdict(form.layout), **own.layout}, Layout, f"{where}: layout")
    _check_layout(layout, where)
    # Without limits of pictures as before there were any, so that runs of that time go on.
    said = {
        name: value
        for name, value in asdict(own).items()
        if name != "pictures" or own.pictures.words
    }
    digest = hashlib.sha256(form.id.encode() + msgspec.json.encode(said)).hexdigest()[:12]
    decoding = Decoding(own.max_new_tokens, own.temperature, own.top_p, stop=own.stop)
    return replace(form, id=digest, layout=layout, decoding=decoding, pictures=own.pictures)


def packaged_templates(package: str, file: str) -> Templates:
    """Templates of a TOML file in a package, for the hook `templates` of its suite."""
    return parse_templates(
        files(package).joinpath(file).read_text("utf-8"), file, default_templates()
    )


def load_templates(path: Path) -> Templates:
    """Templates of a user's TOML file; what it lacks of families and methods comes from Snellen's own.

    Raises DataError for a file that cannot be read or has the wrong form.
    """
    try:
        return parse_templates(read_text(path), str(path), default_templates())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the templates ({error})") from None


def parse_templates(text: str, where: str, base: Templates | None = None) -> Templates:
    content = parse_toml(text, f"{where}: not a template file")
    in_context, layout = content.pop("in_context", None), content.pop("layout", None)
    reasoning = parse_reasoning_prompts(content.pop("reasoning", {}), where)
    prompt = converted(content.pop("prompt", ""), str, f"{where}: prompt")
    written_families = {
        family: _methods(methods, f"{where}: [{family}") for family, methods in content.items()
    }
    families = {name: dict(methods) for name, methods in (base.families if base else {}).items()}
    for family, methods in written_families.items():
        families[family] = {**families.get(family, {}), **methods}
    templates = Templates(
        id=hashlib.sha256(text.encode()).hexdigest()[:12],
        families=families,
        in_context=base.in_context
        if base and not in_context
        else converted(in_context, InContext, f"{where}: [in_context]"),
        layout=base.layout
        if base and not layout
        else converted(layout, Layout, f"{where}: [layout]"),
        reasoning=reasoning,
        prompt=checked_prompt(prompt),
    )
    _check_layout(templates.layout, where)
    for family, methods in written_families.items():
        for method, group in methods.items():
            if not group.instructions:
                raise DataError(
                    f"{where}: [{family}.{method}] has no instructions; add at least one"
                )
            for instruction in group.instructions:
                if field := re.search(r"\{\w*\}", instruction):
                    raise DataError(
                        f"{where}: [{family}.{method}] leaves {field[0]} unfilled in {instruction!r}"
                    )
    return templates


def _methods(content: Any, where: str) -> dict[Method, Instructions]:
    """The instructions of a family by method. Raises DataError."""
    if not isinstance(content, dict):
        raise DataError(
            f"{where}] is not a table; a template file has [FAMILY.METHOD] with instructions = [...]"
        )
    for method in content:
        if method not in METHODS:
            raise DataError(f"{where}]: {registry.unknown('method', method, METHODS)}")
    return {
        method: converted(table, Instructions, f"{where}.{method}]")
        for method, table in content.items()
    }


def _check_layout(layout: Layout, where: str) -> None:
    no_fields: set[str] = set()
    forms = (
        ("label", layout.label, {"label"}, {"label"} if layout.label else no_fields),
        ("reply", layout.reply, {"label", "option"}, {"label"} if layout.label else {"option"}),
        ("context", layout.context, {"context"}, no_fields),
        ("question", layout.question, {"question", "letters"}, {"question"}),
        ("open", layout.open, {"question", "capitalized"}, no_fields),
    )
    for name, form, fields, needed in forms:
        try:
            present = {
                field for _, field, _, _ in string.Formatter().parse(form) if field is not None
            }
        except ValueError as error:
            raise DataError(f"{where}: [layout] {name} = {form!r}: {error}") from None
        if not needed <= present <= fields:
            must = f"hold {{{min(needed)}}}, and " if needed else "hold "
            raise DataError(
                f"{where}: [layout] {name} = {form!r} must {must}nothing but {sorted(fields)}"
            )


PLAIN = packaged_templates("snellen.protocols.prompts", "plain.toml")
LETTER = packaged_templates("snellen.protocols.prompts", "letter.toml")
