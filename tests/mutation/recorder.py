# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: write down which test runs which lines of the package, and how long each test takes.

`LTP_MUTATION_RECORD` names the file to write. Lines that run while a module is imported belong to no test.
Lines that run in a fixture of a whole file belong to all tests of that file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

FOLDERS = ("daemon", "mpts", "encoder", "policies", "api")


class Recorder:
    """Collects lines by test while the tests run."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cover = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{root}/{folder}/*" for folder in FOLDERS]
        )
        self._tests: dict[str, float] = {}
        self._failing: set[str] = set()
        self._cover.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Attribute the lines to the test, and time it (CPU seconds)."""
        self._cover.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            if item.nodeid in self._tests:
                self._tests[item.nodeid] = round(time.process_time() - began, 3)
            self._cover.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Attribute the lines of a wide fixture to the file."""
        if fixturedef.scope == "function":
            return (yield)
        self._cover.switch_context(request.node.nodeid.partition("::")[0])
        try:
            return (yield)
        finally:
            self._cover.switch_context(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the tests that pass apart from the others, which say nothing about a change."""
        if report.when == "call" and report.passed:
            self._tests[report.nodeid] = 0.0
        elif not report.passed:
            self._tests.pop(report.nodeid, None)
            self._failing.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        self._cover.stop()
        data = self._cover.get_data()
        lines = {
            Path(name).resolve().relative_to(self._root).as_posix(): data.contexts_by_lineno(name)
            for name in data.measured_files()
        }
        record = {"tests": self._tests, "failing": sorted(self._failing), "lines": lines}
        Path(os.environ["LTP_MUTATION_RECORD"]).write_text(json.dumps(record))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before any conftest imports the package."""
    if "LTP_MUTATION_RECORD" in os.environ:
        early_config.pluginmanager.register(Recorder(early_config.rootpath.resolve()))
