"""Models behind one small interface: `generate` and, if supported, `loglikelihood`."""
