"""The facts of a benchmark, as its entry in the catalogue has them: read, changed for a build, and written as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import tomli_w
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.callers import source_setting
from snellen.catalogue.places import HubSource, Place, ReaderName, UrlSource
from snellen.catalogue.published_number import PublishedNumber
from snellen.common.faults import names_of
from snellen.errors import DataError
from snellen.formats.json_files import converted
from snellen.records import Formulation
from snellen.reformulation.sampling import Sampling

MetricName = Annotated[str, names_of("metrics")]
ProtocolLabel = Annotated[str, names_of("protocols")]
TemplatesName = Annotated[str, names_of("templates")]
BenchmarkName = Annotated[str, names_of("benchmarks")]


class SourceSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a benchmark's questions come from: a reader with its parameters, and how it is sampled.

    Examples:
        >>> SourceSpec("table", {"file": "animals.csv"}).params["file"]
        'animals.csv'
    """

    reader: ReaderName
    """What reads the files: `table`, `mapped`, one of Snellen's others, or one of a suite's hooks."""
    params: dict[str, Any] = {}
    """Parameters of the reader: files, columns, templates."""
    choices: dict[str, dict[str, dict[str, Any]]] = {}
    """Choices of a build by name: for each value what changes in `params`, table by table. The first is as it is."""
    embedded: bool = False
    """Whether its files lie beside the entry, so that it is built when it is first run."""
    folder: str = ""
    """Where its files are: of an embedded benchmark relative to its entry, of any other below `--source` (the
    benchmark's own name where it is left out)."""
    select: Sampling = Sampling()
    """How the complete benchmark is drawn from the official files (ReForm-Eval, Tables 5 and 6)."""
    sample: Sampling = Sampling()
    """How the evaluated part of it is drawn (ReForm-Eval E.1)."""
    drawn_with: BenchmarkName = ""
    """The benchmark whose draw it shares, when both use the same samples; its own where it is left out."""
    options: int = 4
    """The number of options of a question whose wrong options are made when it is built."""
    distractors: Annotated[str, names_of("distractor_sources", listed=True)] = ""
    """Where those wrong options come from, the first tier first: `near-text:2,random:1`. As the reader has them where
    it is left out."""
    written: bool = False
    """Whether a model writes its distractors, which a build from its official files then needs (`--writer`)."""
    places: tuple[Place, ...] = ()
    """Where it can be fetched, in the order in which they are tried."""
    files_of: BenchmarkName = ""
    """The benchmark whose official files it reads too: their places are its own."""


class ExpectedCounts(Struct, frozen=True, forbid_unknown_fields=True):
    """Published or pinned counts; a build that differs warns and goes on.

    Examples:
        >>> ExpectedCounts(samples=1500, images=1200).samples
        1500
    """

    samples: int | None = None
    images: int | None = None


class Implied(Struct, frozen=True, forbid_unknown_fields=True):
    """What published accuracies tell about the evaluated questions. `snellen verify` checks whether the files agree."""

    answers: dict[str, float] = {}
    """The share of questions for which an answer is right: the accuracy of a model that always gives it, in [0, 1]."""
    chance: float | None = None
    """The accuracy of guessing, in [0, 1]: the mean of one over the number of options."""
    by: str = ""
    """The published values that imply it."""


Grouping = Literal["cluster", "question", "image", "images"]
"""What samples have in common: the cluster of their intervals, a question, an image; or the one question that is asked
about several images together."""


class ImageLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """How large images are shown, and how many frames of a clip; 0 is no limit."""

    max_pixels: int = 0
    """Width times height. A larger image is shrunk, by averages over areas, its shape kept."""
    max_side: int = 0
    """Of the longer side, in pixels."""
    frames: int = 0
    """Of the frames that the benchmark has of a clip, evenly so many, with the first and the last."""

    @property
    def words(self) -> str:
        """The limits in words, such as `images of at most 1,024 px per side`; empty without a limit."""
        sizes = []
        if self.max_pixels > 0:
            sizes.append(f"{self.max_pixels:,} pixels")
        if self.max_side > 0:
            sizes.append(f"{self.max_side:,} px per side")
        limits = []
        if sizes:
            limits.append(f"images of at most {' and '.join(sizes)}")
        if self.frames > 0:
            limits.append(f"at most {self.frames} frames of a clip")
        return ", ".join(limits)


class PromptSet(Struct, frozen=True, forbid_unknown_fields=True):
    """How others ask the questions of a benchmark: templates with changes, image sizes and decoding."""

    form: TemplatesName
    """The set of templates that it starts from: `plain`, `letter`, or that of a suite."""
    layout: dict[str, str] = {}
    """Parts of its layout in other words, by the fields of `[layout]` in a template file."""
    tag: str = ""
    """The tag of a question whose value chooses its `words`."""
    words: dict[str, str] = {}
    """What `{words}` in the layout's `question` and `open` stands for, by the value of `tag`."""
    images: ImageLimits = ImageLimits()
    """How large images are shown: `max_pixels` (width times height), `max_side`, and of a clip the most `frames`."""
    max_new_tokens: int = 0
    """The longest reply, in tokens; the benchmark's own limit when 0."""
    temperature: float = 0.0
    """That of sampling; 0 takes the most likely token."""
    top_p: float = 1.0
    """The share of likely tokens that are sampled from."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply."""


class BenchmarkSpec(Struct, frozen=True, kw_only=True):
    """The facts of one benchmark.

    Examples:
        >>> source = SourceSpec("table", {"file": "animals.csv"})
        >>> spec = BenchmarkSpec(name="animals", title="Animals", formulation="choice", source=source)
        >>> spec.name, spec.formulation
        ('animals', 'choice')
    """

    name: str
    """The name to run it by. Leave it out and it is that of its file: `entries/names.toml` of the suite `zoo` is
    `zoo/names`, and `entries/zoo.toml` is `zoo`. A package cannot say otherwise."""
    title: str
    """One line for lists and reports."""
    formulation: Formulation
    """Whether questions have options (`choice`), have none (`text`), or come in several rounds (`dialogue`). A build
    refuses another form than its questions have."""
    source: SourceSpec
    """Where its questions come from, as below."""
    suite: str = ""
    """That of its folder where it is left out."""
    dimension: str = ""
    """The capability that it tests, by its name in `[dimensions]` of a suite."""
    task: str = ""
    """What kind of task it is: for `--where`, and for protocols by `[tasks.TASK]` of its suite."""
    family: str = ""
    """The family of prompt templates that it is asked by; that of its formulation where it is left out."""
    instructions: tuple[str, ...] = ()
    """Instructions that come with the data. They count only in a run with `--templates data`; to change how it is asked
    otherwise, give it `prompts`."""
    split: str = "test"
    """The split of the dataset that it is."""
    metrics: tuple[MetricName, ...] = ()
    """Metrics of its open questions, the first one being the headline, and further ones of options. Without any, open
    questions have `exact_match` and `word_accuracy`."""
    headline: str = ""
    """The row that stands for it where a run has it, instead of the accuracy or the first metric."""
    mean_over: str = ""
    """The tag whose values have equal weight in its headline, as its paper prints it: `mean_over = "task"`."""
    counted_together: tuple[str, ...] = ()
    """With `mean_over`: values of the tag that begin with one of these words share the weight of a single value."""
    mean_of: tuple[str, ...] = ()
    """The rows whose mean is its headline, as its paper prints it: `mean_of = ["typed_match", "group_accuracy"]`."""
    expected: ExpectedCounts = ExpectedCounts()
    """Counts that a build should give: `samples` and `images`. One that differs warns and goes on."""
    complete: ExpectedCounts = ExpectedCounts()
    """The same of the complete benchmark in the paper's tables, before sampling."""
    implied: Implied = Implied()
    """What published accuracies imply of the answers and of the numbers of options."""
    remark: str = ""
    """Why its counts differ from the paper's, where that is known."""
    origins: tuple[str, ...] = ()
    """Datasets whose annotations the questions are made from, by the names that model cards use."""
    image_sources: tuple[str, ...] = ()
    """Collections that the images come from."""
    licence: str = ""
    """The licence of its data, such as `CC-BY-4.0`."""
    agreement: str = ""
    """Whom or what its data are for alone, which a user agrees to once before they are fetched."""
    citation: str = ""
    """Its paper."""
    url: str = ""
    """Its home on the web."""
    max_new_tokens: int = 30
    """The longest reply, in tokens, where neither a run nor a set of prompts says otherwise."""
    likelihood_rule: Literal["sum", "mean", "byte", "softmax"] = "sum"
    """How its paper reduces the log-likelihoods of options to a score."""
    groups: dict[Grouping, str] = {}
    """The tags that samples have in common which ask one question, show one image, or ask one question about
    several images that are answered together (docs/metrics.md, Score groups of questions)."""
    same_requests: bool = False
    """Whether its published data ask the very same with several answers, so that one reply has to serve them."""
    topics: tuple[str, ...] = ()
    """Words to find it by, with `--where`."""
    prompts: dict[str, PromptSet] = {}
    """Wordings by name, for `--templates NAME`: how others ask it, or how you do."""
    published: PublishedNumber | None = None
    """Its published number, for `--as-published`: how its makers ask, read and count, and published replies that prove
    it, as below."""
    templates: TemplatesName = ""
    """The set that it is asked by when a run names none (`--templates snellen`): one of its `prompts`, or a name of the
    group `templates`. As its suite says where it is left out."""
    generation: tuple[ProtocolLabel, ...] = ()
    """Its protocols by generation when a run names none; the suite's where they are left out."""
    likelihood: tuple[ProtocolLabel, ...] = ()
    """The same by likelihood; never used for a benchmark without options."""

    @property
    def short(self) -> str:
        """The name without the suite."""
        return self.name.rpartition("/")[2]

    @property
    def hub(self) -> HubSource:
        """Its dataset on the hub. Raises DataError if none is known."""
        for place in self.source.places:
            if isinstance(place, HubSource):
                return place
        raise DataError(
            f"the catalogue has no hub dataset for {self.name}; build it from its official files ({source_setting()})"
        )

    def from_place(self, place: UrlSource | HubSource, revision: str = "") -> BenchmarkSpec:
        """Return the benchmark with the files of a place as its source.

        If the place names a reader, that reader and the parameters of the place replace those of the source. Two readers
        keep the source's parameters: the source's own reader has them in addition, and `hub-rows`, which reads the rows
        as another reader reads the official files, gets them as `official`.

        Args:
            place: The place.
            revision: Revision of a dataset on the hub.
        """
        source = self.source
        reader = place.reader or source.reader
        params = dict(place.params if place.reader else source.params)
        if isinstance(place, HubSource):
            place = replace(place, revision=revision)
            if reader.startswith("hub-"):
                params["files"] = place.rows
                if place.images:
                    params["images"] = place.images
        if isinstance(place, HubSource) and reader == source.reader:
            params = {**source.params, **params}
        elif reader == "hub-rows":
            params["official"] = source.params
        return replace(self, source=replace(source, reader=reader, params=params, places=(place,)))

    def from_hub(self, revision: str = "") -> BenchmarkSpec:
        """Return the benchmark with its dataset on the hub, at a given revision, as its source. Raises DataError if it has none."""
        return self.from_place(self.hub, revision)

    @property
    def draw(self) -> str:
        """The name that seeds the random draw of its samples. Benchmarks with the same name here draw the same samples."""
        return self.source.drawn_with or self.name

    def source_in(self, folder: Path) -> Path:
        """Return the folder with the benchmark's files: a subfolder of `folder` with one of its names, or `folder` itself."""
        for name in (self.name, self.short, self.source.folder):
            if name and (folder / name).is_dir():
                return folder / name
        return folder

    def toml(self) -> str:
        """Return the entry as TOML, without fields that have their defaults.

        Examples:
            >>> from snellen.plugin_api import entries
            >>> entries()["eyechart/colour"].toml().splitlines()[0]
            'name = "eyechart/colour"'
        """
        return tomli_w.dumps(_changed_fields(self))

    def facts(self) -> dict[str, Any]:
        """The names that a `--where` condition can use besides the samples' tags."""
        return {
            "benchmark": self.name,
            "suite": self.suite,
            "dimension": self.dimension,
            "task": self.task,
            "formulation": self.formulation,
            "split": self.split,
            "topics": self.topics,
            "origins": self.origins,
            "image_sources": self.image_sources,
            "licence": self.licence,
        }


def parse_entry(content: Mapping[str, Any], where: str) -> BenchmarkSpec:
    """Return a benchmark's facts from the tables of its file. Raises DataError naming a wrong or unknown field."""
    known_fields = BenchmarkSpec.__struct_fields__
    unknown_fields = set(content).difference(known_fields)
    if unknown_fields:
        raise DataError(
            f"{where}: {registry.unknown_name('field', min(unknown_fields), known_fields)}"
        )
    spec = converted(content, BenchmarkSpec, where)
    prompt = spec.published.prompt if spec.published else ""
    if prompt and prompt not in spec.prompts:
        unknown = registry.unknown_name("set of prompts", prompt, spec.prompts)
        raise DataError(
            f"{where}: published.prompt: {unknown}; the entry declares it as [prompts.{prompt}]"
        )
    return spec


def merged(shared: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables, and the tables within them.

    If both tables have a value of the same name, that of `changes` is kept: `{"a": 1, "t": {"b": 2}}` and
    `{"t": {"c": 3}}` give `{"a": 1, "t": {"b": 2, "c": 3}}`.
    """
    content = {**shared, **changes}
    for name, changed_value in changes.items():
        shared_value = shared.get(name)
        if isinstance(changed_value, dict) and isinstance(shared_value, dict):
            content[name] = merged(shared_value, changed_value)
    return content


# --- what a build may change by name: choices, and parameters of the reader -------------------------------------------


def with_params(spec: BenchmarkSpec, settings: Mapping[str, Any]) -> BenchmarkSpec:
    """Return an entry with other settings of its source.

    Args:
        spec: The entry of a benchmark.
        settings: New values by name. A name may be a choice that the entry offers (the value is one of its
            alternatives), a parameter of the entry's reader, or a parameter inside a table of parameters (the value has
            the same type as the present one; a text is parsed as in TOML).

    Raises:
        UnknownNameError: The entry has no such name or alternative.
        DataError: A value has another type.
    """
    if not settings:
        return spec
    choices = spec.source.choices
    params = spec.source.params
    for name, value in settings.items():
        if name in choices:
            if value not in choices[name]:
                raise registry.unknown_name(f"value of {name}", str(value), choices[name])
            params = merged(params, choices[name][value])
            continue
        if name in params:
            params = {**params, name: _as_type_of(params[name], name, value)}
            continue
        table = _table_with_param(name, params)
        if not table:
            raise registry.unknown_name(f"parameter of {spec.name}", name, {*choices, *params})
        new_value = _as_type_of(params[table][name], name, value)
        params = merged(params, {table: {name: new_value}})
    return replace(spec, source=replace(spec.source, params=params))


def _table_with_param(name: str, params: Mapping[str, Any]) -> str:
    """Return the only table among the parameters that has a parameter of that name; empty if none or several have."""
    matching_tables = []
    for table, inner_params in params.items():
        if isinstance(inner_params, dict) and name in inner_params:
            matching_tables.append(table)
    return matching_tables[0] if len(matching_tables) == 1 else ""


def _as_type_of(current: Any, name: str, value: Any) -> Any:
    """Return a new value of a parameter, as the type of its current value: 3 for `"3"` if the current value is 4.

    Args:
        current: The value in the entry.
        name: The name of the parameter, for the message.
        value: The new value. A text is parsed as TOML unless the current value is a text.

    Raises:
        DataError: The new value has another type than the current one.
    """
    parsed = value
    if isinstance(value, str) and not isinstance(current, str):
        parsed = _parse_toml_value(value)
    if type(parsed) is not type(current):
        raise DataError(f"{name} is {current!r} in the entry; {value!r} has another type")
    return parsed


def _parse_toml_value(text: str) -> Any:
    """Parse the value of a setting as TOML. Text that is not TOML is returned as it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _changed_fields(record: Struct) -> dict[str, Any]:
    """Return the fields that differ from their defaults, and those that have none, as plain values."""
    changed: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(record)):
        value = getattr(record, field.name)
        default = field.default
        if default is msgspec.NODEFAULT and not field.required:
            default = field.default_factory()
        if value is not None and value != default:
            changed[field.name] = _plain(value)
    return changed


def _plain(value: Any) -> Any:
    """Convert a value to one that TOML can store. Records become tables of the fields that differ from their defaults.

    A type that is one of several alternatives, as those of places are, has a tag. The table begins with it: `{"kind":
    "hub", ...}`.
    """
    if isinstance(value, Struct):
        table: dict[str, Any] = {}
        config = type(value).__struct_config__
        if config.tag:
            table[str(config.tag_field)] = config.tag
        return {**table, **_changed_fields(value)}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
