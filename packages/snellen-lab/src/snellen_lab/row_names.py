"""Names of the result rows that average several benchmarks, as results.json has them."""

from __future__ import annotations

HEADLINE = "headline"
"""Mean over the headline numbers of benchmarks."""
CAPABILITY = "capability"
"""Mean over the headline numbers of the benchmarks of one dimension."""
TASK_CAPABILITY = "task_capability"
"""Mean over the headline numbers of the benchmarks of one task."""
