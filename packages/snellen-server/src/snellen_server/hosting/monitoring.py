"""Logs and metrics for the operator of a server.

Each log record is one JSON object per line, without API keys or tokens. The metrics are for
Prometheus.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from snellen_server.hosting.credentials import redacted
from snellen_server.hosting.features import Collector

LOGGER = logging.getLogger("snellen_server")
"""Every part of the server logs here: `LOGGER.info("what happened", extra={"facts": {...}})`."""
QUIET = ("uvicorn.access", "alembic")


class JsonLines(logging.Formatter):
    """Formats a log record as a line of JSON: time, level, event, further facts, and any traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as a JSON object, with keys and tokens replaced by `[redacted]`."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return redacted(msgspec.json.encode(line, enc_hook=str).decode())


def log_to_stderr() -> None:
    """Write the server's log records from level INFO on, and all other warnings, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    LOGGER.setLevel(logging.INFO)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


# --- metrics ---------------------------------------------------------------------------------------------------------


HOUSE_METRICS = (
    Collector(
        "snellen_requests",
        "Requests by route, method and status",
        labels=("route", "method", "status"),
    ),
    Collector(
        "snellen_request_seconds", "Time until the whole answer was sent", "histogram", ("route",)
    ),
    Collector("snellen_refusals", "Requests that were refused, by reason", labels=("reason",)),
    Collector(
        "snellen_commit_writes",
        "Writes of one commit",
        "histogram",
        buckets=(1, 2, 5, 10, 20, 50, 100, 200),
    ),
    Collector("snellen_commit_seconds", "Time of one commit", "histogram"),
    Collector("snellen_writes_waiting", "Writes that wait", "gauge"),
    Collector("snellen_job_runs", "Runs of background jobs", labels=("job", "outcome")),
)


def make_collectors(metrics: Iterable[Collector]) -> tuple[CollectorRegistry, Mapping[str, Any]]:
    """Return a new Prometheus registry, and the collectors in it by the name of their metric.

    The metrics are those of the server itself (`HOUSE_METRICS`) and those given, which features
    declare. Each server has a registry of its own, so that several can run in one process, as in
    tests.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    collectors: dict[str, Any] = {}
    for metric in (*HOUSE_METRICS, *metrics):
        if metric.kind == "histogram":
            collectors[metric.name] = Histogram(
                metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry
            )
        else:
            kind = Counter if metric.kind == "counter" else Gauge
            collectors[metric.name] = kind(
                metric.name, metric.help, metric.labels, registry=registry
            )
    return registry, collectors
