# SPDX-License-Identifier: Apache-2.0
"""`token`: make, list and remove the tokens that the API accepts over TCP."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import Object, print_json, print_table
from ltp_switcher.daemon.settings import tokens
from ltp_switcher.errors import ConfigError


def token(options: argparse.Namespace) -> int:
    """Carry out the action: make, list or remove tokens."""
    path = Path(settings(options).api.token_file)
    if options.action == "list":
        return _list(options, path)
    if options.name is None:
        raise ConfigError(f"token {options.action}", "", "the name of a token")
    if options.action == "remove":
        tokens.remove(path, options.name)
        return 0
    if options.scope is None:
        raise ConfigError("token add", options.name, "--read or --write")
    secret = tokens.add(path, options.name, tokens.Scope(options.scope))
    if options.json:
        return print_json({"name": options.name, "scope": options.scope, "token": secret})
    print("This is the only time that the token is shown:", file=sys.stderr)
    print(secret)
    return 0


def _list(options: argparse.Namespace, path: Path) -> int:
    found = tokens.load(path)
    if options.json:
        told: list[Object] = [{"name": t.name, "scope": t.scope, "created": t.created} for t in found]
        return print_json(told)
    return print_table(options, ["name", "may", "created"], [[t.name, t.scope, t.created] for t in found])
