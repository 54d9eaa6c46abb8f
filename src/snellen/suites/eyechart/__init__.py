"""The embedded benchmark suite: pictures drawn from a seed, so nobody's model has seen them.

`scenes` composes what is in a picture and paints it, `png` encodes it to the same bytes on
every machine, `questions` asks about it.
"""
