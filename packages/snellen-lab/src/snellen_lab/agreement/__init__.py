"""How far extractors and judges agree with people who labelled replies."""
