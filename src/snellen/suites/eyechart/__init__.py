"""The embedded benchmark suite: images that are drawn from a seed, so that no model has seen them before.

`scenes` composes random scenes and paints them, with the same bytes on every machine; `reader` asks questions about
them.
"""
