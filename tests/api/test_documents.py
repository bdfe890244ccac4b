# SPDX-License-Identifier: Apache-2.0
"""The documents about the API: the committed OpenAPI document, and the examples of docs/api.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from support.api_client import Ask
from support.api_process import ApiProcess

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "api.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_committed_openapi_document_is_the_served_one(ask: Ask) -> None:
    committed = json.loads((DOCS / "openapi.json").read_text())
    served = ask("GET", "/v1/openapi.json").json()
    assert committed == served, "run `make openapi`, and look at what has changed for clients"


def test_operation_ids_are_unique_names(ask: Ask) -> None:
    document = ask("GET", "/v1/openapi.json").json()
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


EXAMPLES = blocks("sh")


def test_the_examples_run_one_after_the_other(api_process: ApiProcess) -> None:
    """Each block of commands, with the function of the first."""
    function = re.search(r"^api\(\).*\n", PAGE, re.MULTILINE)
    assert function is not None
    assert len(EXAMPLES) > 3
    for script in EXAMPLES:
        text = "set -euo pipefail\n" + function[0] + script
        named = re.sub(r"/run/\S*api\.sock", str(api_process.socket), text)
        assert named != text
        checked = named.replace("curl -s ", "curl -sS --fail-with-body ")
        done = subprocess.run(["bash", "-c", checked], capture_output=True, text=True, env=os.environ)
        assert done.returncode == 0, script + done.stdout + done.stderr


def test_the_example_of_a_problem_is_the_service_s_answer(ask: Ask) -> None:
    (example,) = blocks("json")
    answer = ask("PUT", "/v1/pool", json={"arms": ["bbr", "cubik"]}).json()
    told = json.loads(example)
    assert {**answer, "allowed": told["allowed"], "detail": told["detail"]} == told
