"""How LVLM-eHub's questions are asked by its own code, and in a reasoning of several rounds about SNLI-VE."""

from snellen.protocols.prompts.templates import packaged_templates

LISTED = packaged_templates("snellen.suites.lvlm_ehub", "templates/lvlm-ehub.toml")
ENTAILMENT = packaged_templates("snellen.suites.lvlm_ehub", "templates/lvlm-ehub-entailment.toml")
