# SPDX-License-Identifier: Apache-2.0
"""The REST API: HTTP over a UNIX socket, in front of the daemon's control socket."""
