"""ReForm-Eval (Li et al. 2023): 61 task-oriented benchmarks in one form."""
