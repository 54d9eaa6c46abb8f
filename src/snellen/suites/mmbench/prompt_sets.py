"""How MMBench's questions are asked: by its toolkit, and by the code that made LLaVA's published predictions."""

from snellen.prompts.templates import packaged_templates

TOOLKIT = packaged_templates("snellen.suites.mmbench", "templates/mmbench.toml")
LETTER = packaged_templates("snellen.suites.mmbench", "templates/mmbench-letter.toml")
