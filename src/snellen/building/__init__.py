"""Building benchmarks: from drafts to a complete folder that is put in place in one step."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
