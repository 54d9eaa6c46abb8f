"""The catalogue: suites and their benchmarks, one TOML file per benchmark."""

from snellen.absent_names import hint_at_absent_names
from snellen.catalogue.entries import (
    BenchmarkSpec,
    ExpectedCounts,
    ImageLimits,
    PromptSet,
    SourceSpec,
)
from snellen.catalogue.loading import (
    add_suites,
    aggregation_of,
    declared_file,
    declared_files,
    dimension_titles,
    entries,
    entry_file,
    entry_folder,
    published_number_of,
    suite_facts,
    suite_of,
)
from snellen.catalogue.published_number import PublishedNumber, Reproduction
from snellen.catalogue.selection import select, suite_members, suites

__all__ = [
    "BenchmarkSpec",
    "ExpectedCounts",
    "ImageLimits",
    "PromptSet",
    "PublishedNumber",
    "Reproduction",
    "SourceSpec",
    "add_suites",
    "aggregation_of",
    "declared_file",
    "declared_files",
    "dimension_titles",
    "entries",
    "entry_file",
    "entry_folder",
    "published_number_of",
    "select",
    "suite_facts",
    "suite_members",
    "suite_of",
    "suites",
]

hint_at_absent_names(__path__)
