# SPDX-License-Identifier: Apache-2.0
"""The guest's files do not depend on the checkout or the machine that packed them."""

import sys

import pytest

from ltp_switcher.eval.lab.boot import REPOSITORY
from ltp_switcher.eval.lab.kernels import kernel
from ltp_switcher.eval.lab.layers import base_layer, link_module, mutant_module
from ltp_switcher.eval.lab.python import python_layers


@pytest.mark.lab
def test_no_layer_holds_a_path_of_the_host() -> None:
    chosen = kernel("6.1")
    parts = [base_layer(chosen), *python_layers(service=True)]
    parts += [link_module(chosen), mutant_module(chosen, REPOSITORY)]
    for part in parts:
        content = part.read_bytes()
        for path in (str(REPOSITORY), sys.prefix, "/tmp/ltp-lab-"):  # noqa: S108
            assert path.encode() not in content, f"{part.name} holds {path}"
