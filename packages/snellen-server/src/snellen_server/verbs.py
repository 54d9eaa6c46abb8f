"""What `snellen --help` shows of the server's verbs."""

from snellen.plugin_api import Verb

SERVE = Verb(
    "Serve accounts and features to many, on a network.",
    "snellen_server.cli.serve:serve",
    "Serving",
)
SERVE_DATA = Verb(
    "Back up a server, show or erase what it knows of a person.",
    "snellen_server.cli.serve:serve_data",
    "Serving",
)
ARENA = Verb(
    "Rate models by votes between their replies: Elo, Bradley-Terry, intervals, rigged votes.",
    "snellen_server.cli.arena:command",
    "Runs",
)
