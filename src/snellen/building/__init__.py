"""Building benchmarks: from drafts to a complete folder that is put in place in one step."""
