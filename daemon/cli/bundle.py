# SPDX-License-Identifier: Apache-2.0
"""`bundle`: write a support bundle, an archive that helps maintainers to find a fault."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import print_json
from ltp_switcher.daemon.control import bundle
from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.errors import ConfigError


def write(options: argparse.Namespace) -> int:
    """Write the support bundle, an archive that only its owner can read."""
    target = options.file or Path(bundle.file_name())
    with ControlClient(settings(options).daemon.control_socket) as client:
        content = bundle.bundle(client.call)
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(
            "FILE", str(target), f"a new file in a folder of yours ({error.strerror})"
        ) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    if options.json:
        return print_json({"file": str(target), "bytes": len(content)})
    print(f"{target}: {len(content)} bytes. Read it before you pass it on.")
    return 0
