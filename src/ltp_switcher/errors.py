# SPDX-License-Identifier: Apache-2.0
"""The project's exceptions. Each exception that the project raises on purpose descends from
`LtpSwitcherError`.

A message tells its reader the fault and the remedy.
"""

from __future__ import annotations


class LtpSwitcherError(Exception):
    """Base of every error that the project raises on purpose."""


def reason(error: Exception) -> str:
    """Say why something failed, in words for a user. For an `OSError` the words leave out the number and the
    path.
    """
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class InvalidValueError(LtpSwitcherError, ValueError):
    """A field of the input has a value that breaks the rule in `allowed`."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        super().__init__(f"{field}: {value!r} is not valid; allowed: {allowed}")


class ConfigError(InvalidValueError):
    """A key of a configuration, scenario or command line that is unknown or out of range."""


class RefusedError(LtpSwitcherError):
    """A valid request is not possible in the program's present state. The message names the remedy."""


class DatapathError(LtpSwitcherError):
    """The kernel module cannot be reached, or refused a request."""


class ModuleVersionError(DatapathError):
    """The loaded module is of another version than the daemon. The message names both, and the remedy."""

    def __init__(self, version: int, size: int, own_version: int, own_size: int) -> None:
        super().__init__(
            f"the module speaks record version {version} of {size} bytes, this daemon version {own_version} "
            f"of {own_size}: another version of it is loaded than is installed; `rmmod tcp_mutant` once no "
            "flow uses it, or reboot"
        )


class ArtifactError(LtpSwitcherError):
    """A weight, state or data file is missing, corrupt, or has another version."""


class ArtifactMissingError(ArtifactError):
    """The weight, state or data file does not exist."""


class ControlError(LtpSwitcherError):
    """The daemon cannot be reached over its control socket, or refused a request."""


class StoreError(LtpSwitcherError):
    """The store that the hosts of a fleet share cannot be reached, or its answer is invalid."""


class LabError(LtpSwitcherError):
    """The lab, a virtual machine with emulated links, could not be built or booted, or its guest system
    failed.
    """


class ClusterError(LtpSwitcherError):
    """A Dask cluster cannot be used, refused a task, or failed to run a task."""


class EmulationError(LtpSwitcherError):
    """The link emulator Mahimahi is not set up on this machine, or its shells failed."""
