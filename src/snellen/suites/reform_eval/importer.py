"""`snellen import reform-eval`: the published, already re-formulated data, from a folder or the hub."""

from __future__ import annotations

from snellen.catalogue.hooks import Importer
from snellen.suites.reform_eval.published import hub_patterns, importable_benchmarks, published_entries

IMPORTER = Importer(
    title="ReForm-Eval-Data",
    benchmarks=importable_benchmarks,
    dataset="Aweminus/ReForm-Eval-Data",
    patterns=hub_patterns,
    names=published_entries,
)
