"""What `snellen --help` shows of the lab's verbs."""

from snellen.plugin_api import Verb

RATE = Verb(
    "Have people rate replies: blinded form, spreadsheets, means and agreement.",
    "snellen_lab.cli.rate:rate_command",
    "People",
)
