"""From scores to numbers: estimates with intervals, means over benchmarks, studies, lint."""
