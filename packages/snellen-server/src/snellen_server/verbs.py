"""What `snellen --help` shows of the server's verbs."""

from snellen.plugin_api import Verb

SERVE = Verb(
    "Serve the leaderboard, the arena and shared runs to many users on a network.",
    "snellen_server.cli.serve:serve",
    "Serving",
)
SERVE_DATA = Verb(
    "Back up a server, and export or erase the data of a person.",
    "snellen_server.cli.serve:serve_data",
    "Serving",
)
ARENA = Verb(
    "Rate models by votes on their replies: Elo, Bradley-Terry, intervals, anomalous voters.",
    "snellen_server.cli.arena:command",
    "Runs",
)
