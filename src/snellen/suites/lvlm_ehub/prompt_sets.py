"""How LVLM-eHub's questions are asked by its own code."""

from snellen.prompts.templates import packaged_templates

LISTED = packaged_templates("snellen.suites.lvlm_ehub", "templates/lvlm-ehub.toml")
