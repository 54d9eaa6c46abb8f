"""Forms that many benchmarks are asked in, for entries to name in their sets of prompts."""

from snellen.protocols.prompts.templates import packaged_templates

PLAIN = packaged_templates("snellen.protocols.prompts", "plain.toml")
LETTER = packaged_templates("snellen.protocols.prompts", "letter.toml")
