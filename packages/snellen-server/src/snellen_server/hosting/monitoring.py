"""What an operator watches: logs, one JSON object a line without persons and keys, and numbers for Prometheus."""

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
    """A record as a line of JSON: time, level, what happened, its `facts`, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one JSON object, without keys and passwords."""
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
    """Write the server's records, and warnings of everything below it, to stderr."""
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
    """A registry of its own for one server, and the collector of each metric, of the house and of features, by name."""
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
