"""From scores to numbers: estimates with intervals, means over benchmarks, studies, lint."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
