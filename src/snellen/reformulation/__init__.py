"""Reformulating task-oriented data as unified questions: samples, options, regions (ReForm-Eval, appendix A)."""
