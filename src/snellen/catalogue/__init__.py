"""The catalogue: suites and their benchmarks, one TOML file per benchmark."""

from snellen.catalogue.entries import BenchmarkSpec, Expected, PictureLimits, PromptSet, SourceSpec
from snellen.catalogue.forms import select, suite_members, suites
from snellen.catalogue.loading import (
    add_suites,
    aggregation_of,
    analysis_files,
    declared_file,
    dimension_titles,
    entries,
    entry_file,
    entry_folder,
    study_files,
    suite_facts,
    suite_of,
)

__all__ = [
    "BenchmarkSpec",
    "Expected",
    "PictureLimits",
    "PromptSet",
    "SourceSpec",
    "add_suites",
    "aggregation_of",
    "analysis_files",
    "declared_file",
    "dimension_titles",
    "entries",
    "entry_file",
    "entry_folder",
    "select",
    "study_files",
    "suite_facts",
    "suite_members",
    "suite_of",
    "suites",
]
