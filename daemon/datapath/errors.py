# SPDX-License-Identifier: Apache-2.0
"""The kernel module's refusals, as exceptions that name the remedy."""

from __future__ import annotations

import errno

from ltp_switcher.daemon.datapath.netlink import NetlinkError
from ltp_switcher.errors import DatapathError


class ModuleMissingError(DatapathError):
    """The kernel has no netlink family `mutant`."""

    def __init__(self) -> None:
        super().__init__(
            "the kernel module tcp_mutant is not loaded: run `modprobe tcp_mutant` "
            "(if there is no such module, install it: `make install`)"
        )


class PermissionDeniedError(DatapathError):
    """The caller lacks the capability for the request."""

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation}: not permitted; it needs CAP_NET_ADMIN in the flow's user namespace, "
            "from its network namespace or the initial one (run as root, or let ltp-switcher.service run it)"
        )


class FlowNotFoundError(DatapathError):
    """No flow has the cookie, or the caller may not see the flow."""

    def __init__(self, cookie: int) -> None:
        self.cookie = cookie
        super().__init__(f"no flow under `mutant` has the cookie {cookie}")


class RequestRefusedError(DatapathError):
    """The kernel refused a request for a reason that has no class of its own. `errno` and `reason` come from
    the kernel.
    """

    def __init__(self, operation: str, error: NetlinkError) -> None:
        self.errno = error.errno
        self.reason = error.reason
        super().__init__(f"{operation}: {error}")


def explain(operation: str, error: NetlinkError) -> DatapathError:
    """Make the exception that explains to a person why `operation` failed."""
    if error.errno == errno.EPERM:
        return PermissionDeniedError(operation)
    return RequestRefusedError(operation, error)
