"""Words for a reasoning of several rounds about SNLI-VE."""

from snellen.prompts.reasoning_prompts import load_reasoning_prompts

ENTAILMENT = load_reasoning_prompts("snellen.suites.lvlm_ehub")
