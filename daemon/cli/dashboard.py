# SPDX-License-Identifier: Apache-2.0
"""`dashboard`: print an address that opens the dashboard in a browser. The address works once."""

from __future__ import annotations

import argparse
import http.client
import json
import socket

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import Object, as_object, print_json
from ltp_switcher.daemon.control.client import ControlUnavailableError
from ltp_switcher.daemon.settings.tokens import Scope
from ltp_switcher.errors import ControlError, reason

TIMEOUT_S = 5.0


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def dashboard(options: argparse.Namespace) -> int:
    """Ask the API for an address that works once, and print the address."""
    scope = Scope.READ if options.read else Scope.WRITE
    made = ask_api(
        settings(options).api.socket, "POST", "/v1/sessions", {"scope": str(scope)}, http.client.CREATED
    )
    if options.json:
        return print_json(made)
    print(printable(str(made["url"])))
    return 0


def ask_api(path: str, method: str, resource: str, body: Object, good: int) -> Object:
    """Send a request to the API at the UNIX socket `path`, and return the body of the answer.

    Raises:
        ControlUnavailableError: nothing listens at the socket.
        ControlError: the answer's status is not `good`, or the answer does not come from the API.
    """
    connection = UnixConnection(path)
    try:
        connection.request(method, resource, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        told = json.loads(answer.read())
    except OSError as error:
        raise ControlUnavailableError(f"cannot reach ltp-switcher-api at {path}: {reason(error)}") from error
    except (http.client.HTTPException, ValueError) as error:
        raise ControlError(f"what listens at {path} is not ltp-switcher-api: {error!r}") from error
    finally:
        connection.close()
    found = as_object(told if isinstance(told, dict) else {})
    if answer.status != good:
        raise ControlError(str(found.get("detail", f"the API answered {answer.status}")))
    return found
