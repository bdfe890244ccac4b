# SPDX-License-Identifier: Apache-2.0
"""Metrics as Prometheus reads them: their formats, their values, and its own checker's opinion."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from support.api_client import Ask, asker

from ltp_switcher.api.app import create_app
from ltp_switcher.api.backend import DaemonClient
from ltp_switcher.cache import cache_dir
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.families import gauge, to_json

OPENMETRICS = "application/openmetrics-text"
ROOT = Path(__file__).parents[2]
RULES = ROOT / "packaging/prometheus/rules.yml"
ALERTS = ROOT / "packaging/prometheus/alerts.yml"


def promtool() -> str:
    """Prometheus' checker, as `make promtool` unpacks it. Without it the test is skipped, and says so."""
    found = shutil.which("promtool") or shutil.which("promtool", path=str(cache_dir() / "promtool"))
    if found is None:
        pytest.skip("promtool is missing: make promtool")
    return found


def values(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and sorted labels."""
    return {
        (sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def test_the_daemon_s_and_the_api_s_own(ask: Ask) -> None:
    found = values(ask("GET", "/metrics").text)
    assert found["ltp_switcher_up",] == 1
    assert found["ltp_switcher_flows",] == 3
    assert found["ltp_switcher_mode", "mode=advise"] == 1
    assert found["ltp_switcher_arm_flows", "arm=cubic"] == 3
    assert found["ltp_switcher_state_saves_total", "result=failed"] == 0
    assert found["ltp_switcher_daemon_resident_memory_bytes",] > 1e6
    assert found["ltp_switcher_api_process_resident_memory_bytes",] > 1e6
    steps = found["ltp_switcher_step_duration_seconds_count",]
    assert steps == found["ltp_switcher_step_duration_seconds_bucket", "le=+Inf"] > 0


def test_requests_are_counted_by_route_not_by_path(ask: Ask) -> None:
    for path in ("/v1/flows/4711", "/v1/flows/815", "/nowhere", "/nobody"):
        ask("GET", path)
    ask("HEAD", "/health")
    found = values(ask("GET", "/metrics").text)
    name = "ltp_switcher_api_requests_total"
    assert found[name, "method=GET", "route=/v1/flows/{cookie}", "status=200"] == 2
    assert found[name, "method=GET", "route=none", "status=404"] == 2
    assert found[name, "method=GET", "route=/health", "status=200"] == 1
    assert found["ltp_switcher_api_request_duration_seconds_count",] == 5


def test_methods_that_nobody_knows_share_a_series(ask: Ask) -> None:
    """Else each request could add one, and the process would grow without end."""
    for method in ("FETCH", "GETT", "PURGE"):
        ask(method, "/v1/k")
    ask("PUT", "/v1/k", json={"k": 2})
    found = values(ask("GET", "/metrics").text)
    name, route = "ltp_switcher_api_requests_total", "route=/v1/k"
    assert found[name, "method=other", route, "status=405"] == 3
    assert found[name, "method=PUT", route, "status=200"] == 1


def test_openmetrics_where_the_reader_asks_for_it(ask: Ask) -> None:
    answer = ask("GET", "/metrics", headers={"accept": f"{OPENMETRICS}; version=1.0.0,text/plain;q=0.5"})
    assert answer.headers["content-type"].startswith(OPENMETRICS)
    kinds = {family.name: family.type for family in parse_openmetrics(answer.text)}
    assert kinds["ltp_switcher_build"] == "info"
    assert kinds["ltp_switcher_step_duration_seconds"] == "histogram"
    assert kinds["ltp_switcher_fallbacks"] == "counter"


def test_without_a_daemon_the_api_still_tells_of_itself(tmp_path: Path) -> None:
    answer = asker(tmp_path / "nobody.sock")("GET", "/metrics")
    found = values(answer.text)
    assert (answer.status_code, found["ltp_switcher_up",]) == (200, 0)
    assert "ltp_switcher_flows" not in answer.text
    assert found["ltp_switcher_api_process_open_fds",] > 0


def check(*arguments: str, text: str = "", folder: Path | None = None) -> tuple[int, str]:
    """Exit status and complaints of promtool."""
    ran = subprocess.run(
        [promtool(), *arguments], input=text, cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_promtool_finds_no_fault(ask: Ask) -> None:
    assert check("check", "metrics", text=ask("GET", "/metrics").text) == (0, "")


def test_promtool_would_find_a_fault() -> None:
    assert check("check", "metrics", text="# TYPE x counter\nx 1\n")[0] != 0


def test_alerts_fire_on_their_faults_and_on_nothing_else(tmp_path: Path) -> None:
    rules = yaml.safe_load(ALERTS.read_text())
    cases = yaml.safe_load((ROOT / "tests/packaging/alerts.yml").read_text())
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    (tmp_path / "cases.yml").write_text(yaml.safe_dump({**cases, "rule_files": ["alerts.yml"]}))
    status, said = check("test", "rules", "cases.yml", folder=tmp_path)
    assert status == 0, said
    rules["groups"][0]["rules"][0]["expr"] = "vector(0) > 1"
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    assert check("test", "rules", "cases.yml", folder=tmp_path)[0] != 0


class Daemon(DaemonClient):
    """Counts how often it was asked for its metrics."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.asked = 0

    def call(self, method: str, **params: Json) -> Json:
        self.asked += method == "metrics"
        return to_json([gauge("ltp_switcher_flows", "Flows.", 3)])


FORMATS = (
    "", "text/plain", "text/plain;version=x",
    OPENMETRICS, f"{OPENMETRICS};version=1.0.0", f"{OPENMETRICS};version=7.1.3",
    "text/plain;version=1.0.0;escaping=allow-utf-8", f"text/html, {OPENMETRICS}; q=0.1"
)  # fmt: skip


def test_a_crowd_of_readers_asks_the_daemon_once_a_second_at_most() -> None:
    daemon = Daemon()
    app = create_app(daemon)

    async def crowds() -> None:
        transport = httpx.ASGITransport(app)
        began_s = time.monotonic()
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            while daemon.asked < 3:
                answers = await asyncio.gather(
                    *(client.get("/metrics", headers={"accept": kind}) for kind in FORMATS * 10)
                )
                assert {answer.status_code for answer in answers} == {200}
                assert daemon.asked <= time.monotonic() - began_s + 1

    asyncio.run(crowds())


def test_two_loops_share_a_copy() -> None:
    daemon = Daemon()
    metrics = create_app(daemon).state.metrics
    began_s = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        texts = set(threads.map(metrics.render, FORMATS * 20))
    assert daemon.asked <= time.monotonic() - began_s + 1
    assert {kind.partition(";")[0] for _, kind in texts} == {"text/plain", OPENMETRICS}


def test_recording_rules_give_their_figures(tmp_path: Path) -> None:
    rules = yaml.safe_load(RULES.read_text())
    cases = yaml.safe_load((ROOT / "tests/packaging/rules.yml").read_text())
    (tmp_path / "cases.yml").write_text(yaml.safe_dump({**cases, "rule_files": ["rules.yml"]}))
    for number in range(-1, len(rules["groups"][0]["rules"])):
        planted = copy.deepcopy(rules)
        if number >= 0:
            planted["groups"][0]["rules"][number]["expr"] = "vector(7)"
        (tmp_path / "rules.yml").write_text(yaml.safe_dump(planted))
        status, said = check("test", "rules", "cases.yml", folder=tmp_path)
        assert (status == 0) == (number < 0), said


NAME = re.compile(r"ltp_switcher_[a-z_]+")


def test_alerts_and_the_dashboard_of_grafana_use_metrics_that_exist(ask: Ask) -> None:
    board = json.loads((ROOT / "packaging/grafana/ltp-switcher.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for file in (ALERTS, RULES):
        queries += [rule["expr"] for rule in yaml.safe_load(file.read_text())["groups"][0]["rules"]]
    assert len(queries) > 15
    text = ask("GET", "/metrics").text
    exist = {sample.name for family in parse_text(text) for sample in family.samples}
    # A histogram by arm has samples once a flow has moved data.
    exist |= {f"{family.name}_bucket" for family in parse_text(text) if family.type == "histogram"}
    # The gain has samples once an experiment gives figures.
    exist |= {family.name for family in parse_text(text) if family.type == "gauge"}
    assert {name for query in queries for name in NAME.findall(query)} - exist == set()
