"""What `snellen --help` shows of the lab's verbs."""

from snellen.plugin_api import Verb

AGREE = Verb(
    "Label difficult replies, and measure how well extractors and judges agree with people.",
    "snellen_lab.cli.labels:agree_command",
    "People",
)
AUDIT = Verb(
    "Have people review a random sample of a benchmark's questions, or of a run's replies.",
    "snellen_lab.cli.labels:audit_command",
    "People",
)
LINT = Verb(
    "Check a benchmark: duplicates, leaks, baselines that need no image.",
    "snellen_lab.cli.lint:lint_command",
    "Benchmarks",
)
ACUITY = Verb(
    "Measure the smallest, faintest or most crowded object that a model can see.",
    "snellen_lab.cli.acuity:acuity_command",
    "First steps",
)
RATE = Verb(
    "Have people rate replies: blinded form, spreadsheets, means and agreement.",
    "snellen_lab.cli.rate:rate_command",
    "People",
)
STUDY = Verb(
    "Run a study: many runs that differ in one or more factors, and their joint analysis.",
    "snellen_lab.cli.study:study_command",
    "Research",
)
ANALYSE = Verb(
    "Compare groups of models across papers and runs: architecture, data, options.",
    "snellen_lab.cli.analyse:analyse_command",
    "Research",
)
PAPER = Verb(
    "Show and check the tables of suites' papers, next to your runs.",
    "snellen_lab.cli.paper:paper_command",
    "Research",
)
SAMPLE = Verb(
    "Draw a sample of a benchmark, or measure how well samples predict full scores.",
    "snellen_lab.cli.sample:sample_command",
    "Benchmarks",
)
