"""The catalogue: one TOML file a benchmark, facts only."""

from snellen.catalogue.entries import BenchmarkSpec, Expected, SourceSpec, entries, select, suites

__all__ = ["BenchmarkSpec", "Expected", "SourceSpec", "entries", "select", "suites"]
