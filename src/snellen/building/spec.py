"""The records of the settings of builds, behind `build()`, `snellen build`, `reform()` and `snellen reform`.

    BuildSpec             settings of every build
      .entry  EntrySpec   settings that only benchmarks of the catalogue have
      .table  TableSpec   settings that only questions of the user have
    ReformSpec            settings of a benchmark made from annotations

Each field is declared once. Flags, keywords of Python functions and the tables of docs/reference/build-fields.md are
made of its type, default and `Option`; `make fields` writes those that are files. Users see the fields of `BuildSpec`
and of its parts side by side.
"""

# Without postponed annotations: flags are made of these types, and to read them from text takes 10 ms.

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from snellen.building.recipe import Recipe
from snellen.common.answer_forms import NamedForm
from snellen.common.field_values import check_known, convert_fields, fields_of
from snellen.common.record_fields import Option, RecordField, record_fields
from snellen.errors import DataError
from snellen.reformulation.sampling import Sampling

OptionCount = Annotated[int, Meta(ge=2)]
Columns = dict[str, tuple[str, ...]]
"""Columns of a table by role."""
Votes = Literal["majority", "all"]
"""Votes of a jury that reject an option: more than half of the readable votes, or all of them."""
SOURCES = (
    "pool, random, wordnet, near-text, near-image, near-meaning, written, or several "
    "(near-text:2,random:1)."
)


class EntrySpec(Struct, frozen=True, kw_only=True):
    """Settings of a build that apply only to benchmarks of the catalogue: where the data come from,
    and how much of it is built.
    """

    source: Annotated[
        str,
        Option(
            "Folder with the official files of a benchmark.",
            unless="downloaded if possible",
            metavar="FOLDER",
        ),
    ] = ""
    hub: Annotated[
        bool,
        Option("Build from the dataset on the Hugging Face hub (or its local cache, or `source`)."),
    ] = False
    revision: Annotated[
        str,
        Option("Branch, tag or commit of the hub's dataset.", unless="the entry's, or main"),
    ] = ""
    ratio: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Option("Sampling ratio; 1 builds all.", unless="the entry's"),
    ] = None
    params: Annotated[
        dict[str, Any],
        Option(
            "Choice or parameter of the entry's source.",
            metavar="NAME=VALUE",
            page="datasets.md",
        ),
    ] = {}
    decisions: Annotated[
        Any,
        Option(
            "Apply the decisions made when this benchmark was verified: avoid rejected distractors and set aside "
            "rejected questions.",
            in_python="Also `Benchmark.decisions()`.",
            metavar="BENCHMARK",
            page="verifying.md",
        ),
    ] = None


class TableSpec(Struct, frozen=True, kw_only=True):
    """Settings of a build that apply only to a user's own file or folder: what it does not say
    itself, or is not recognised.
    """

    name: Annotated[
        str, Option("Name of the benchmark.", unless="the name of the file or folder")
    ] = ""
    images: Annotated[
        str,
        Option(
            "Folder that image paths in your file are relative to.",
            unless="the file's own",
            metavar="FOLDER",
        ),
    ] = ""
    dimension: Annotated[str, Option("Capability dimension: CG, FG, STP, VGR, ...")] = ""
    metrics: Annotated[
        tuple[str, ...], Option("Metric for open questions.", page="metrics.md")
    ] = ()
    no_images: Annotated[bool, Option("Declare that no question in your file has an image.")] = (
        False
    )
    hidden_answers: Annotated[
        bool, Option("Declare that no question in your file has an answer.")
    ] = False
    fetch_images: Annotated[bool, Option("Download images that your file gives as URLs.")] = False
    columns: Annotated[
        Columns,
        Option(
            "Column that holds a role: question, image, options, answer, id, context, group or tag.",
            in_python="A dict of one column, or several, by role.",
            metavar="ROLE=COLUMN",
            page="own-data.md",
        ),
    ] = {}
    answer_is: Annotated[
        NamedForm | None,
        Option(
            "How answers name options: by letter, text, or number from 0 or from 1.",
            unless="recognised",
        ),
    ] = None


class BuildSpec(Struct, frozen=True, kw_only=True):
    """All settings of a build."""

    to: Annotated[
        str, Option("Output folder.", unless="under $SNELLEN_HOME/benchmarks", metavar="FOLDER")
    ] = ""
    answers: Annotated[
        str,
        Option(
            "File with the answers that are hidden in a table of a suite's format.", metavar="FILE"
        ),
    ] = ""
    lenient: Annotated[
        bool, Option("Skip rows of your own file that cannot be used, and count them.")
    ] = False
    force: Annotated[
        bool,
        Option(
            "Rebuild what is already built, and replace a benchmark of the same name from another source."
        ),
    ] = False
    distractors: Annotated[
        str,
        Option(
            f"Where distractors come from: {SOURCES}",
            unless="the entry's",
            metavar="SOURCES",
            page="reform.md",
        ),
    ] = ""
    options: Annotated[
        OptionCount | None,
        Option("Options per question with generated distractors.", unless="4"),
    ] = None
    writer: Annotated[
        Any,
        Option(
            "Model that writes distractors where the paper used a model.",
            in_python="Also an object.",
            metavar="MODEL",
        ),
    ] = None
    seed: Annotated[int, Option("Random seed for sampling, distractors and examples.")] = 0
    examples: Annotated[
        int | str,
        Option(
            "Questions to reserve as few-shot examples: a number, a condition on tags, or `all`.",
            unless="none",
            metavar="N|CONDITION",
            page="few-shot.md",
        ),
    ] = ""
    entry: EntrySpec = EntrySpec()
    table: TableSpec = TableSpec()

    @property
    def recipe(self) -> Recipe:
        """Settings of sampling and options that override those of the entry."""
        sample = None
        if self.entry.ratio == 1:
            sample = Sampling()
        elif self.entry.ratio is not None:
            sample = Sampling("balanced", ratio=self.entry.ratio)
        return Recipe(
            sample=sample,
            options=self.options,
            distractors=self.distractors,
            seed=self.seed,
            examples=str(self.examples),
        )

    @property
    def makes_options(self) -> bool:
        """Whether open questions become multiple choice."""
        return self.writer is not None or self.options is not None or bool(self.distractors)


class ReformSpec(Struct, frozen=True, kw_only=True):
    """All settings of a benchmark made from annotations."""

    ask: Annotated[
        tuple[str, ...],
        Option(
            "Types of questions: class, count, presence ...",
            unless="all that fit",
            metavar="TYPE,TYPE",
            page="reference/question-types.md",
        ),
    ] = ()
    images: Annotated[
        str, Option("Folder with the images that the file names.", metavar="FOLDER")
    ] = ""
    columns: Annotated[
        Columns,
        Option(
            "Column of a table that holds a role: image, label, caption, objects, questions, "
            "answer, texts, fields, attributes, relations or id.",
            in_python="A dict of one column, or several, by role.",
            metavar="ROLE=COLUMN",
        ),
    ] = {}
    options: Annotated[OptionCount | None, Option("Options per question.", unless="4")] = None
    distractors: Annotated[
        str,
        Option(
            f"Where distractors come from: {SOURCES}",
            unless="pool",
            metavar="SOURCES",
            page="reform.md",
        ),
    ] = ""
    writer: Annotated[
        Any,
        Option(
            "Model that writes distractors (for `--distractors written`).",
            in_python="Also an object.",
            metavar="MODEL",
        ),
    ] = None
    embeddings: Annotated[str, Option("clip: model that finds similar images.", metavar="CLIP")] = (
        ""
    )
    per_type: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Option("Questions per type, spread over its answers; 0 for all.", unless="500"),
    ] = None
    count: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Option("Questions in total, the same number of each type."),
    ] = None
    seed: Annotated[int, Option("Random seed for questions and distractors.")] = 0
    name: Annotated[
        str, Option("Name of the benchmark.", unless="the name of the file or folder")
    ] = ""
    title: Annotated[str, Option("Title of the benchmark.")] = ""
    licence: Annotated[str, Option("Licence of the images and annotations.")] = ""
    to: Annotated[
        str, Option("Output folder.", unless="under $SNELLEN_HOME/benchmarks", metavar="FOLDER")
    ] = ""
    jury: Annotated[
        tuple[Any, ...],
        Option(
            "Model that sees the image and votes on each option.",
            metavar="MODEL",
            page="verifying.md",
        ),
    ] = ()
    blind: Annotated[
        tuple[Any, ...],
        Option(
            "Model whose correct answers without the image set questions aside.",
            metavar="MODEL",
            page="verifying.md",
        ),
    ] = ()
    votes: Annotated[Votes, Option("How the votes of the jury are counted.")] = "majority"
    runs: Annotated[str, Option("Folder for the runs of the jury and the blind models.")] = "runs"
    lenient: Annotated[bool, Option("Skip rows that cannot be used, and count them.")] = False
    force: Annotated[
        bool,
        Option(
            "Overwrite the TOML file if it differs, and replace a benchmark of the same name from another source."
        ),
    ] = False

    @property
    def in_entry(self) -> list[str]:
        """The given fields that an existing entry contains as well."""
        return [name for name in ("ask", "title", "licence") if getattr(self, name)]

    @property
    def sampling(self) -> Sampling | None:
        """Number of questions to draw per type, or in total; None if the user did not set it.

        Raises:
            DataError: Both are given.
        """
        if self.per_type is not None and self.count is not None:
            raise DataError("per-type and count cannot be combined; use one of them")
        if self.per_type == 0:
            return Sampling()
        if self.per_type is None and self.count is None:
            return None
        return Sampling("layered", each=self.per_type, count=self.count)


BUILD_FIELDS: Mapping[str, RecordField] = {
    **record_fields(EntrySpec),
    **record_fields(TableSpec),
    **record_fields(BuildSpec),
}
"""Fields that `build_spec` takes."""


def build_spec(fields: Mapping[str, Any]) -> BuildSpec:
    """Return the settings of a build, checked and converted, with each field in the record that it belongs to.

    Args:
        fields: Values by field, such as `{"to": "built", "name": "mine"}`. A single string may replace a list of strings, and a path a string.

    Raises:
        DataError: A value has the wrong type or is out of bounds.
        UnknownNameError: A field does not exist, or a name is not one of a field's choices.

    Examples:
        >>> build_spec({"columns": {"tag": "Thema"}, "options": 3}).table.columns
        {'tag': ('Thema',)}
    """
    check_known(fields, BUILD_FIELDS, "field", "")
    given = with_column_lists(fields)
    common = {name: value for name, value in given.items() if name in record_fields(BuildSpec)}
    return replace(
        convert_fields(common, BuildSpec),
        entry=convert_fields(fields_of(EntrySpec, given), EntrySpec),
        table=convert_fields(fields_of(TableSpec, given), TableSpec),
    )


def reform_spec(fields: Mapping[str, Any]) -> ReformSpec:
    """Return the settings of a benchmark made from annotations, checked and converted.

    Raises the same errors as `build_spec`.
    """
    return convert_fields(with_column_lists(fields), ReformSpec)


def with_column_lists(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which `columns` has a tuple of columns for each role: `{"tag": "Thema"}`
    becomes `{"tag": ("Thema",)}`.
    """
    given = dict(fields)
    columns = given.get("columns")
    if not isinstance(columns, Mapping):
        return given
    columns_by_role: dict[str, tuple[str, ...]] = {}
    for role, names in columns.items():
        columns_by_role[role] = (names,) if isinstance(names, str) else tuple(names)
    given["columns"] = columns_by_role
    return given


def check_targets(
    given: Iterable[str], *, has_tables: bool, has_entries: bool, as_flags: bool = False
) -> None:
    """Raise DataError if the user gave settings that apply to none of the things to build.

    Args:
        given: Names of the settings that the user gave.
        has_tables: Whether the user builds own files.
        has_entries: Whether the user builds benchmarks of the catalogue.
        as_flags: Whether the message names command-line flags instead of settings.
    """
    given = list(given)
    if not has_entries:
        _check_unused(
            EntrySpec,
            given,
            "benchmarks of the catalogue, because your own table is used as it is",
            as_flags,
        )
    if not has_tables:
        _check_unused(
            TableSpec,
            given,
            "your own tables, because a catalogue entry defines this itself",
            as_flags,
        )


def _check_unused(
    form: type[Struct], given: Iterable[str], applies_to: str, as_flags: bool
) -> None:
    """Raise DataError if the user gave a setting that belongs to a record of settings which does
    not apply.

    Args:
        form: The record, such as `TableSpec`.
        given: The names of all settings that the user gave.
        applies_to: What the record applies to, for the message.
        as_flags: Whether the message names command-line flags instead of settings.
    """
    fields = record_fields(form)
    unused = []
    for name in given:
        if name in fields:
            unused.append(fields[name].flag if as_flags else name)
    if unused:
        raise DataError(
            f"{', '.join(unused)} applies only to {applies_to}; remove {', '.join(unused)}"
        )
