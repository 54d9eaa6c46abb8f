"""Models behind one small interface: `generate` and, if supported, `loglikelihood`."""

from snellen.absent_names import hint_at_absent_names

hint_at_absent_names(__path__)
