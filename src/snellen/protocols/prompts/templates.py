"""Instruction templates, either Snellen's own or those of a user's file of the same format.

The presets here are formats that many benchmarks use; entries name them in their sets of prompts.
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
from snellen.catalogue import BenchmarkSpec, ImageLimits, PromptSet, entries
from snellen.common.foreign import read_text
from snellen.errors import DataError, UnknownNameError
from snellen.formats.json_files import converted, parse_toml
from snellen.protocols.prompts.role_prompts import ReasoningPrompts, parse_reasoning_prompts
from snellen.records import METHODS, Decoding, Method

QUESTION = "{question}"
"""Slot for a sample's own question in a prompt."""
OPTIONS = "{options}"
"""Slot for the options of a question in a prompt. Without it, they follow the prompt as the layout writes them."""


ImagePlaces = Literal["marked", "trimmed", "first"]


class InContext(Struct, frozen=True):
    question: str
    options: tuple[str, ...]


class Layout(Struct, frozen=True, forbid_unknown_fields=True):
    """How a question with options is written, and the format of a reply to it."""

    heading: str
    """Heading of the options. A blank follows unless it is empty or ends with white space."""
    label: str
    """Format of a label; empty if options have no labels, so that a reply names an option by its text."""
    separator: str
    stop: str
    response_prefix: str
    """Text that opens the reply; empty if the reply is not opened."""
    reply: str
    context: str = "{context}\n"
    """Format of the context before the first question of a sample."""
    question: str = "{question} "
    """Text before the heading."""
    open: str = QUESTION
    """Format of a question without options."""
    option: str = "{label} {option}"
    """Format of an option and its label; empty if the image shows the options, which then keep their own order."""
    images: ImagePlaces = "marked"
    """Where the images of a question go: at its marks (`marked`), at its marks without white space around them, or first."""


class Instructions(Struct, frozen=True):
    instructions: tuple[str, ...]


class PromptTemplates(Struct, frozen=True):
    """All wording of a run. `id` is a digest of the file, stored with every run."""

    id: str
    families: dict[str, dict[Method, Instructions]]
    in_context: InContext
    layout: Layout
    reasoning: ReasoningPrompts
    """Prompts for the other models of the protocol `reasoning`."""
    of_data: bool = False
    """Whether the instructions in a benchmark's own data, if any, replace Snellen's."""
    prompt: str = ""
    """Replaces every instruction and question; `{question}` and `{options}` in it are slots."""
    by_suite: dict[str, PromptTemplates] = {}
    """Templates that replace these for the benchmarks of a suite whose paper describes its prompts."""
    by_benchmark: dict[str, PromptTemplates] = {}
    """Templates that replace these for benchmarks whose entries declare a set of prompts."""
    for_one_wording: bool = False
    """Whether they serve only protocols that ask for replies with one prompt; others use the templates of the run."""
    decoding: Decoding = Decoding(max_new_tokens=0)
    """Decoding of replies if the run does not set it. A maximum length of 0 leaves the length to the benchmark."""
    images: ImageLimits = ImageLimits()
    """Limits on the size of images and on the number of frames of a clip."""
    tag: str = ""
    """The tag of a question whose value chooses its `words`."""
    words: dict[str, str] = {}
    """What `{words}` in the layout stands for, by the value of the tag."""

    def words_for(self, tags: Mapping[str, str]) -> str:
        """Return the text that replaces `{words}` in a question with these tags; empty if the templates have no words.

        Raises DataError if there are no words for the value of the tag.
        """
        if not self.words:
            return ""
        value = tags.get(self.tag, "")
        if value not in self.words:
            known = ", ".join(repr(name) for name in self.words)
            raise DataError(
                f"the prompts have no words for a question with {self.tag} = {value!r}; they have words for {known}"
            )
        return self.words[value]

    def instructions(self, family: str, method: Method) -> tuple[str, ...]:
        """Return the instructions of a question family for a method. Raises UnknownNameError."""
        if self.prompt:
            return ("",)
        try:
            return self.families[family][method].instructions
        except KeyError:
            available: list[str] = []
            for known_family, methods in self.families.items():
                for known_method in methods:
                    available.append(f"{known_family}.{known_method}")
            raise UnknownNameError(
                f"no templates for {family}.{method}; the file has {', '.join(available)}"
            ) from None

    def with_instructions(self, family: str, instructions: tuple[str, ...]) -> PromptTemplates:
        """Return these templates with other instructions for one family, for both methods."""
        methods: dict[Method, Instructions] = {
            "generation": Instructions(instructions),
            "likelihood": Instructions(instructions),
        }
        return replace(self, families={**self.families, family: methods})

    def with_prompt(self, prompt: str) -> PromptTemplates:
        """Return these templates with one text in place of every instruction and question.

        Raises DataError for a field in braces other than `{question}` and `{options}`.
        """
        if not checked_prompt(prompt):
            return self
        digest = hashlib.sha256(prompt.encode()).hexdigest()[:12]
        by_suite = {}
        for suite, templates in self.by_suite.items():
            by_suite[suite] = templates.with_prompt(prompt)
        by_benchmark = {}
        for benchmark, templates in self.by_benchmark.items():
            by_benchmark[benchmark] = templates.with_prompt(prompt)
        return replace(
            self,
            id=f"{self.id}, prompt {digest}",
            prompt=prompt,
            by_suite=by_suite,
            by_benchmark=by_benchmark,
        )

    def prompt_for(self, question: str, options: str = "") -> str:
        """Return the text sent for a question: the prompt with what its slots hold, or the question itself."""
        if not self.prompt:
            return question
        texts = {QUESTION: question, OPTIONS: options}
        # In one pass, because a question may itself contain the text of a slot, such as `{options}`.
        return re.sub(r"\{question\}|\{options\}", lambda slot: texts[slot[0]], self.prompt)

    @property
    def places_options(self) -> bool:
        """Whether the prompt says where the options go."""
        return OPTIONS in self.prompt

    def named(self, name: str) -> str:
        """Return the instruction with a template id such as `choice.generation.2`."""
        if self.prompt:
            return ""
        family, method, number = name.rsplit(".", 2)
        return self.families[family][cast(Method, method)].instructions[int(number)]


def checked_prompt(prompt: str) -> str:
    """Check a prompt that the user wrote, and return it unchanged.

    Raises:
        DataError: It has a field in braces other than `{question}` and `{options}`.
    """
    fields: list[str] = re.findall(r"\{\w*\}", prompt)
    unknown_fields = [field for field in fields if field not in (QUESTION, OPTIONS)]
    if unknown_fields:
        raise DataError(
            f"prompt {prompt!r}: unknown field {unknown_fields[0]}; the fields are {QUESTION} and {OPTIONS} (without which the "
            "options follow the prompt)"
        )
    return prompt


@cache
def default_templates() -> PromptTemplates:
    """Return Snellen's own templates."""
    return parse_templates(
        files("snellen.protocols.prompts").joinpath("templates.toml").read_text("utf-8"),
        "templates.toml",
    )


SNELLEN = "snellen"
"""Name of Snellen's own templates, like an empty name."""
DATA = "data"
"""Name for the instructions in a benchmark's own data, or Snellen's own if it has none."""
AS_PUBLISHED = "as-published"
"""Name for the prompts of the papers of suites (`templates` of `[as_published]`), or Snellen's own."""


def named_templates(
    name: str | Path, by_suite: Mapping[str, str] = MappingProxyType({})
) -> PromptTemplates:
    """Return the prompt templates with a given name.

    Args:
        name: Empty or `snellen` for Snellen's own, `data` for instructions in the data, `as-published`, the name of a
            set, or the path of a file.
        by_suite: For `as-published`, the name of the templates of each suite.

    Raises:
        DataError: The file is not a file of templates.
        UnknownNameError: The name does not exist.
    """
    if not name or name == SNELLEN:
        return default_templates()
    defaults = default_templates()
    if name == DATA:
        return replace(defaults, id=f"{DATA}, else {defaults.id}", of_data=True)
    if name == AS_PUBLISHED:
        templates_by_suite: dict[str, PromptTemplates] = {}
        for suite in sorted(by_suite):
            templates_by_suite[suite] = named_templates(by_suite[suite])
        ids = ", ".join(
            f"{suite} {templates.id}" for suite, templates in templates_by_suite.items()
        )
        return replace(
            defaults, id=f"{AS_PUBLISHED} ({ids}), else {defaults.id}", by_suite=templates_by_suite
        )
    sets = registry.targets("templates")
    if name in sets:
        return registered_templates(str(name))
    if not Path(name).suffix and not Path(name).exists():
        raise registry.unknown_name(
            "set of templates", str(name), [SNELLEN, DATA, AS_PUBLISHED, *sets, *declared_sets()]
        )
    return load_templates(Path(name))


def registered_templates(name: str) -> PromptTemplates:
    """Return a set of templates of the registry group `templates`. Raises UnknownNameError."""
    templates: PromptTemplates = registry.find_registered("templates", name)
    return templates


def declared_sets() -> list[str]:
    """Return the names of the sets of prompts that entries of the catalogue declare."""
    names: set[str] = set()
    for spec in entries().values():
        names.update(spec.prompts)
    return sorted(names)


def declared_templates(name: str, sets: Mapping[str, PromptSet]) -> PromptTemplates:
    """Return templates in which each benchmark has the prompts that its own entry declares under a name.

    Args:
        name: Name of the set of prompts.
        sets: The declared prompts, by benchmark.

    Raises:
        DataError: A set of prompts is not valid.
    """
    templates_by_benchmark: dict[str, PromptTemplates] = {}
    for benchmark, prompt_set in sets.items():
        where = f"{benchmark}: [prompts.{name}]"
        templates_by_benchmark[benchmark] = _templates_of_set(prompt_set, where)
    digest = _digest_of_ids(templates_by_benchmark)
    return replace(
        default_templates(), id=f"{name} ({digest})", by_benchmark=templates_by_benchmark
    )


def _digest_of_ids(templates_by_benchmark: Mapping[str, PromptTemplates]) -> str:
    """Return 12 hexadecimal digits that identify the templates of some benchmarks."""
    ids: dict[str, str] = {}
    for benchmark, templates in sorted(templates_by_benchmark.items()):
        ids[benchmark] = templates.id
    return hashlib.sha256(msgspec.json.encode(ids)).hexdigest()[:12]


def with_defaults_of(
    defaults: PromptTemplates,
    specs: Sequence[BenchmarkSpec],
    published: Mapping[str, PromptSet] = MappingProxyType({}),
) -> PromptTemplates:
    """Return the templates of a run that names none, with the default sets that entries declare.

    Args:
        defaults: Templates for benchmarks without a default set.
        specs: The entries of the run's benchmarks.
        published: By benchmark, the set behind the published number, where it is the default. Protocols by likelihood and
            those that need several prompts do not use it.

    Raises:
        DataError: A set of prompts is not valid.
        UnknownNameError: There are no templates of a name that an entry gives.
    """
    templates_by_benchmark: dict[str, PromptTemplates] = {}
    for spec in specs:
        if spec.templates:
            templates_by_benchmark[spec.name] = _default_of(spec)
    for benchmark, prompt_set in published.items():
        templates = _templates_of_set(prompt_set, f"{benchmark}: prompts of [published]")
        templates_by_benchmark[benchmark] = replace(templates, for_one_wording=True)
    if not templates_by_benchmark:
        return defaults
    digest = _digest_of_ids(templates_by_benchmark)
    return replace(
        defaults,
        id=f"of entries ({digest}), else {defaults.id}",
        by_benchmark=templates_by_benchmark,
    )


def with_published_prompts(
    templates: PromptTemplates, sets: Mapping[str, PromptSet]
) -> PromptTemplates:
    """Return the templates `as-published`, in which some benchmarks have the prompts behind their published numbers.

    Args:
        templates: The templates. They are returned unchanged if `sets` is empty.
        sets: The prompts behind the published number, by benchmark.
    """
    if not sets:
        return templates
    of_entries = declared_templates(AS_PUBLISHED, sets)
    templates_by_benchmark = {**templates.by_benchmark, **of_entries.by_benchmark}
    return replace(
        templates, id=f"{of_entries.id}, else {templates.id}", by_benchmark=templates_by_benchmark
    )


def _default_of(spec: BenchmarkSpec) -> PromptTemplates:
    """Return the templates that a benchmark's entry names: a set of prompts in the entry, or registered templates."""
    if spec.templates in spec.prompts:
        where = f"{spec.name}: [prompts.{spec.templates}]"
        return _templates_of_set(spec.prompts[spec.templates], where)
    return registered_templates(spec.templates)


def _templates_of_set(prompt_set: PromptSet, where: str) -> PromptTemplates:
    """Return the templates of an entry's set of prompts.

    Their id is a digest of the set, so that a run can be resumed only with the same prompts.
    """
    form = registered_templates(prompt_set.form)
    layout = converted({**asdict(form.layout), **prompt_set.layout}, Layout, f"{where}: layout")
    _check_layout(layout, where, has_words=bool(prompt_set.words))
    if bool(prompt_set.tag) != bool(prompt_set.words):
        raise DataError(f"{where}: tag and words belong together; give both or neither")
    # The digest keeps the words of earlier versions, so that their runs can be continued: images were called
    # `pictures`, and sets of prompts without limits of images, or without words by tag, had no such field.
    fields: dict[str, Any] = {}
    for name, value in asdict(prompt_set).items():
        if name in ("tag", "words") and not value:
            continue
        if name != "images":
            fields[name] = value
        elif prompt_set.images.words:
            fields["pictures"] = value
    if "images" in prompt_set.layout:
        fields["layout"] = {
            "pictures" if name == "images" else name: text
            for name, text in prompt_set.layout.items()
        }
    digest = hashlib.sha256(form.id.encode() + msgspec.json.encode(fields)).hexdigest()[:12]
    decoding = Decoding(
        prompt_set.max_new_tokens, prompt_set.temperature, prompt_set.top_p, stop=prompt_set.stop
    )
    return replace(
        form,
        id=digest,
        layout=layout,
        decoding=decoding,
        images=prompt_set.images,
        tag=prompt_set.tag,
        words=prompt_set.words,
    )


def packaged_templates(package: str, file: str) -> PromptTemplates:
    """Return the templates of a TOML file in a package, for the hook `templates` of its suite."""
    return parse_templates(
        files(package).joinpath(file).read_text("utf-8"), file, default_templates()
    )


def load_templates(path: Path) -> PromptTemplates:
    """Return the templates of a user's TOML file. Families and methods that it lacks are Snellen's own.

    Raises DataError if the file cannot be read or has the wrong format.
    """
    try:
        return parse_templates(read_text(path), str(path), default_templates())
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the templates ({error})") from None


def parse_templates(text: str, where: str, base: PromptTemplates | None = None) -> PromptTemplates:
    """Return the templates of a TOML file.

    Args:
        text: The content of the file.
        where: Its name, for messages.
        base: Templates that stand for what the file leaves out.

    Raises:
        DataError: It is not a file of templates, has no instructions, or a placeholder would stay unfilled.
    """
    content = parse_toml(text, f"{where}: not a template file")
    written_in_context = content.pop("in_context", None)
    written_layout = content.pop("layout", None)
    reasoning = parse_reasoning_prompts(content.pop("reasoning", {}), where)
    prompt = converted(content.pop("prompt", ""), str, f"{where}: prompt")
    # All other tables are families of templates.
    written_families = {}
    for family, written_methods in content.items():
        written_families[family] = _methods(written_methods, f"{where}: [{family}")
    families: dict[str, dict[Method, Instructions]] = {}
    if base:
        families = {name: dict(methods) for name, methods in base.families.items()}
    for family, methods in written_families.items():
        families[family] = {**families.get(family, {}), **methods}

    if base and not written_in_context:
        in_context = base.in_context
    else:
        in_context = converted(written_in_context, InContext, f"{where}: [in_context]")
    if base and not written_layout:
        layout = base.layout
    else:
        layout = converted(written_layout, Layout, f"{where}: [layout]")
    templates = PromptTemplates(
        id=hashlib.sha256(text.encode()).hexdigest()[:12],
        families=families,
        in_context=in_context,
        layout=layout,
        reasoning=reasoning,
        prompt=checked_prompt(prompt),
    )
    _check_layout(layout, where)
    for family, methods in written_families.items():
        for method, group in methods.items():
            group_where = f"{where}: [{family}.{method}]"
            if not group.instructions:
                raise DataError(f"{group_where} has no instructions; add at least one")
            for instruction in group.instructions:
                field = re.search(r"\{\w*\}", instruction)
                if field:
                    raise DataError(f"{group_where} leaves {field[0]} unfilled in {instruction!r}")
    return templates


def _methods(content: Any, where: str) -> dict[Method, Instructions]:
    """Return the instructions of a family of templates, by method.

    Args:
        content: The table of the family, which has a table for each method.
        where: The file and the family without the closing bracket, such as `mine.toml: [choice`, for messages.

    Raises:
        DataError: It is not such a table.
    """
    if not isinstance(content, dict):
        raise DataError(
            f"{where}] is not a table; a template file has [FAMILY.METHOD] with instructions = [...]"
        )
    for method in content:
        if method not in METHODS:
            raise DataError(f"{where}]: {registry.unknown_name('method', method, METHODS)}")
    instructions: dict[Method, Instructions] = {}
    for method, table in content.items():
        instructions[method] = converted(table, Instructions, f"{where}.{method}]")
    return instructions


def _placeholders_in(text: str) -> set[str]:
    """Return the names in braces of a text: "label" of "({label})". Raises ValueError if a brace is not closed."""
    placeholders: set[str] = set()
    for _, placeholder, _, _ in string.Formatter().parse(text):
        if placeholder is not None:
            placeholders.add(placeholder)
    return placeholders


def _check_layout(layout: Layout, where: str, *, has_words: bool = False) -> None:
    """Raise DataError if a text of a layout lacks a placeholder that it needs, or has one that is never filled.

    Args:
        layout: Texts with placeholders in braces, such as `({label})`.
        where: What declares it, for the message.
        has_words: Whether `{words}` is filled, too.
    """
    filled_in_questions = {"words"} if has_words else set()
    filled = {
        "label": {"label"},
        "reply": {"label", "option"},
        "context": {"context"},
        "question": {"question", "letters"} | filled_in_questions,
        "option": {"label", "option"},
        "open": {"question", "capitalized"} | filled_in_questions,
    }
    needed = {
        "label": {"label"} if layout.label else set(),
        "reply": {"label"} if layout.label else {"option"},
        # Without a text for options, the image shows them, and may show the question, too.
        "question": {"question"} if layout.option else set(),
        "option": {"option"} if layout.option else set(),
    }
    for name, filled_placeholders in filled.items():
        text = getattr(layout, name)
        location = f"{where}: [layout] {name} = {text!r}"
        try:
            placeholders = _placeholders_in(text)
        except ValueError as error:
            raise DataError(f"{location}: {error}") from None
        needed_placeholders = needed.get(name, set())
        if not needed_placeholders <= placeholders <= filled_placeholders:
            must = f"hold {{{min(needed_placeholders)}}}, and " if needed_placeholders else "hold "
            raise DataError(f"{location} must {must}nothing but {sorted(filled_placeholders)}")


PLAIN = packaged_templates("snellen.protocols.prompts", "plain.toml")
LETTER = packaged_templates("snellen.protocols.prompts", "letter.toml")
