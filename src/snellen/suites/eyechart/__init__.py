"""The embedded benchmark suite: images drawn from a seed, so nobody's model has seen them.

`scenes` composes what is in an image and paints it, `png` encodes it to the same bytes on
every machine, `questions` asks about it.
"""
