# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus: the daemon's metrics unchanged, and the metrics that this process counts itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.api.gain import Gain
from ltp_switcher.api.problems import ProblemError
from ltp_switcher.daemon.control.families import from_json

PREFIX: Final = "ltp_switcher_"
FRESH_S: Final = 1.0
"""Time for which all requests get the same copy of the metrics, in seconds."""
_OPENMETRICS: Final = "application/openmetrics-text"
_DURATIONS_S: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_NO_ROUTE: Final = "none"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"


class _Daemon(Collector):
    """The daemon's metrics at each scrape, and whether the daemon answered."""

    def __init__(self, daemon: DaemonClient) -> None:
        self._daemon = daemon

    def describe(self) -> list[Metric]:
        """Return no metrics, so that registering the collector does not ask the daemon."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the daemon's families."""
        up = Metric(PREFIX + "up", "1 while the daemon answers.", "gauge")
        try:
            families = from_json(self._daemon.call("metrics"))
        except ProblemError:
            families = []
        up.add_sample(PREFIX + "up", {}, float(bool(families)))
        yield up
        for family in families:
            metric = Metric(family.name, family.help, family.kind, family.unit)
            for sample in family.samples:
                metric.add_sample(family.name + sample.suffix, dict(sample.labels), sample.value)
            yield metric


class _Copy(Collector):
    """The metrics of one moment, and the texts made from them, by content type."""

    def __init__(self, metrics: Sequence[Metric] = (), made_s: float = float("-inf")) -> None:
        self._metrics = metrics
        self.made_s = made_s
        self.texts: dict[str, bytes] = {}

    def collect(self) -> Sequence[Metric]:
        """The metrics as they were."""
        return self._metrics


class ApiMetrics:
    """All metrics of one API process: the daemon's, and those that the process counts itself."""

    def __init__(self, daemon: DaemonClient, gain: Gain) -> None:
        self.gain = gain
        self._copy = _Copy()
        self._one_at_a_time = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Daemon(daemon))
        self._registry.register(gain)
        ProcessCollector(namespace="ltp_switcher_api", registry=self._registry)
        self.requests = Counter(
            PREFIX + "api_requests", "Requests answered, by route and status.", ("method", "route", "status"),
            registry=self._registry,
        )  # fmt: skip
        self.durations = Histogram(
            PREFIX + "api_request_duration_seconds", "Time to answer a request; event streams are left out.",
            buckets=_DURATIONS_S, registry=self._registry,
        )  # fmt: skip
        self.streams = Gauge(
            PREFIX + "api_event_streams", "Clients that listen to events.", registry=self._registry
        )
        self.streams_dropped = Counter(
            PREFIX + "api_event_streams_dropped", "Clients dropped because they read too slowly.",
            registry=self._registry,
        )  # fmt: skip

    def ready(self, accept: str) -> tuple[bytes, str] | None:
        """Return a fresh text in the format that `accept` asks for, and its content type; None if `render`
        has to make it.
        """
        copy, (_, content_type) = self._copy, _encoder(accept)
        text = copy.texts.get(content_type) if _is_fresh(copy) else None
        return None if text is None else (text, content_type)

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that the header `Accept` asks for, and the content type. The call
        may wait for the daemon.

        The metrics are at most `FRESH_S` seconds old. The daemon is asked once in this time, whatever the
        number of requests.
        """
        encode, content_type = _encoder(accept)
        with self._one_at_a_time:
            if not _is_fresh(self._copy):
                self._copy = _Copy(list(self._registry.collect()), time.monotonic())
            copy = self._copy
            if content_type not in copy.texts:
                copy.texts[content_type] = encode(copy)
        return copy.texts[content_type], content_type


def _is_fresh(copy: _Copy) -> bool:
    return time.monotonic() - copy.made_s < FRESH_S


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """The encoder for the wanted format, and the content type. Only two formats are on offer, because each
    further version or escaping would need a text of its own.
    """
    names = {part.partition(";")[0].strip() for part in accept.split(",")}
    return choose_encoder(_OPENMETRICS if _OPENMETRICS in names else "")


class CountRequests:
    """ASGI middleware that counts requests and measures their durations."""

    def __init__(self, app: ASGIApp, metrics: ApiMetrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began_s, status, stream = time.monotonic(), 500, False

        async def noting(message: Message) -> None:
            nonlocal status, stream
            if message["type"] == "http.response.start":
                status = message["status"]
                stream = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            # All unknown paths share a label. Otherwise every guess of a path would make a label of its own.
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._metrics.requests.labels(method, route, str(status)).inc()
            if not stream:
                self._metrics.durations.observe(time.monotonic() - began_s)
