"""Models behind one small interface: `generate` and, where it can, `loglikelihood`."""
