# SPDX-License-Identifier: Apache-2.0
"""The generator of the netlink code: no drift, C and numpy agree on every byte, bad input is named."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ltp_switcher
from ltp_switcher.daemon.datapath import protocol

REPOSITORY = Path(__file__).resolve().parents[2]
GENERATE = REPOSITORY / "kmod-mutant/tools/generate.py"
GENERATED = (
    "kmod-mutant/mutant_arms_gen.h",
    "kmod-mutant/mutant_arms_gen.c",
    "kmod-mutant/include/uapi/linux/mutant.h",
    "kmod-mutant/mutant_nl_gen.h",
    "kmod-mutant/mutant_nl_gen.c",
    "daemon/datapath/protocol.py",
    "docs/netlink.md",
)
SOURCES = (
    "kmod-mutant/mutant.yaml",
    "kmod-mutant/records.yaml",
    *(str(path.relative_to(REPOSITORY)) for path in sorted(REPOSITORY.glob("policies/*/arm.toml"))),
)
DTYPES = {
    "stat": protocol.STAT_DTYPE,
    "credit": protocol.CREDIT_DTYPE,
    "record": protocol.RECORD_DTYPE,
    "command": protocol.COMMAND_DTYPE,
    "control": protocol.CONTROL_DTYPE,
    "start_arm": protocol.START_ARM_DTYPE,
    "start": protocol.START_DTYPE,
    "outcome": protocol.OUTCOME_DTYPE,
}


def fields(dtype: np.dtype[np.void]) -> list[tuple[str, np.dtype[np.void], int]]:
    """Return name, type and byte offset of every member, in order."""
    assert dtype.names is not None
    assert dtype.fields is not None
    return [(name, dtype.fields[name][0], dtype.fields[name][1]) for name in dtype.names]


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(GENERATE), "--root", str(root), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A root with the contract and everything generated from it."""
    for name in (*SOURCES, *GENERATED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def test_the_repository_has_not_drifted() -> None:
    result = generate(REPOSITORY, "--check")
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("name", GENERATED)
def test_a_hand_edit_is_drift_and_a_run_takes_it_back(copy: Path, name: str) -> None:
    (copy / name).write_text((copy / name).read_text(encoding="utf-8") + "edited\n", encoding="utf-8")
    result = generate(copy, "--check")
    assert result.returncode == 1
    assert f"a/{name}" in result.stdout
    assert "-edited" in result.stdout
    assert generate(copy).stdout == f"wrote {name}\n"
    assert generate(copy, "--check").returncode == 0


def test_a_missing_file_is_drift(copy: Path) -> None:
    (copy / GENERATED[0]).unlink()
    assert generate(copy, "--check").returncode == 1


def test_c_and_numpy_agree_on_every_offset(tmp_path: Path) -> None:
    lines = [
        "#include <stdio.h>",
        "#include <stddef.h>",
        "#include <linux/mutant.h>",
        "int main(void) {",
        'printf("{");',
    ]
    for name, dtype in DTYPES.items():
        lines.append(f'printf("\\"{name}\\": [%zu", sizeof(struct mutant_{name}));')
        lines += [
            f'printf(", %zu", offsetof(struct mutant_{name}, {field}));' for field, _, _ in fields(dtype)
        ]
        lines.append('printf("],");')
    lines += ['printf("\\"end\\": []}");', "return 0; }"]
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text("\n".join(lines))
    include = REPOSITORY / "kmod-mutant/include/uapi"
    subprocess.run(["cc", "-Wall", "-Werror", f"-I{include}", str(source), "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    layout = json.loads(printed)
    for name, dtype in DTYPES.items():
        assert layout[name] == [dtype.itemsize, *(offset for _, _, offset in fields(dtype))], name


@pytest.mark.parametrize("name", DTYPES)
def test_no_padding_and_aligned_size(name: str) -> None:
    dtype = DTYPES[name]
    assert dtype.itemsize % 8 == 0
    assert dtype.itemsize == sum(member.itemsize for _, member, _ in fields(dtype))
    assert dtype == np.dtype(dtype, align=True)


@pytest.mark.parametrize(
    ("size", "most", "length"),
    [
        (protocol.COMMAND_DTYPE.itemsize, protocol.COMMANDS_MAX, protocol.COMMANDS_LEN_MAX),
        (protocol.CONTROL_DTYPE.itemsize, protocol.CONTROLS_MAX, protocol.CONTROLS_LEN_MAX),
    ],
)
def test_a_full_batch_fits_one_attribute(size: int, most: int, length: int) -> None:
    assert most * size == length
    assert length + 4 <= 0xFFFF < length + 4 + size


BAD_INPUT = [
    ("mutant.yaml", "      - jury\n", "", ["definitions[arm-id].entries", "'jury'", "add the line `- jury`"]),
    (
        "mutant.yaml",
        "      - owl\n",
        "      - owl\n      - lp\n",
        ["definitions[arm-id].entries", "learned arms last"],
    ),
    (
        "../policies/spine/arm.toml",
        '"aimd"',
        '"aimed"',
        ["policies/spine/arm.toml", "'aimed'", "window, aimd, cubic"],
    ),
    ("mutant.yaml", "name: mutant\n", "nmae: mutant\n", ["mutant.yaml.nmae", "not permitted"]),
    ("mutant.yaml", "protocol: genetlink", "protocol: raw", ["mutant.yaml.protocol", "'raw'", "genetlink"]),
    ("mutant.yaml", "value: 20", "value: twenty", ["definitions[arms-max].value", "'twenty'", "integer"]),
    ("mutant.yaml", "    value: 65536\n", "", ["definitions[control-one].value", "None", "a number"]),
    ("mutant.yaml", "    doc: Flags of a flow's state.\n", "", ["definitions[flow-flags].doc", "required"]),
    (
        "mutant.yaml",
        "name: starts-max\n",
        "name: starts-most\n",
        ["definitions", "'starts-max'", "starts-most"],
    ),
    ("mutant.yaml", "value: 65520", "value: 65536", ["commands-len-max", "65536", "65520"]),
    ("mutant.yaml", "value: 65504", "value: 65505", ["controls-len-max", "65505", "65504"]),
    ("mutant.yaml", "name: arm-id\n", "name: Arm_Id\n", ["'Arm_Id'", "lower-case words"]),
    ("mutant.yaml", "      - vegas\n", "      - cubic\n", ["definitions[arm-id].entries", "each name once"]),
    (
        "mutant.yaml",
        "enum: arm-state",
        "enum: arm-stat",
        ["attributes[state].enum", "'arm-stat'", "arm-state"],
    ),
    ("mutant.yaml", "type: u64\n", "type: u128\n", ["attributes[cookie].type", "'u128'", "u64"]),
    ("mutant.yaml", "max-len: 15", "max: 15", ["attributes[name].checks.max", "max-len"]),
    ("mutant.yaml", "max: arms-max", "max: arms-mx", ["checks.max", "'arms-mx'", "arms-max"]),
    (
        "mutant.yaml",
        "[cookie, arm, handover, restore]",
        "[cookie, army]",
        ["operations[pin].do.request", "'army'", "cookie, arm"],
    ),
    (
        "mutant.yaml",
        "flags: [admin-perm]",
        "flags: [root]",
        ["operations[arm-load].flags", "'root'", "admin-perm"],
    ),
    ("mutant.yaml", "      mcgrp: events\n", "", ["operations[flow-birth].mcgrp", "a group with an event"]),
    ("mutant.yaml", "name: unpin", "name: pin", ["mutant.yaml.operations", "'pin'", "each name once"]),
    ("mutant.yaml", "definitions:\n", "definitions: {\n", ["mutant.yaml", "a readable YAML file"]),
    ("records.yaml", "[step-get, select,", "[step, select,", ["uns-admin-perm[0]", "'step'", "step-get"]),
    ("records.yaml", "count: credits-max", "count: 0", ["members[credit].count", "at least 1"]),
    (
        "records.yaml",
        "type: u8, count: 3",
        "type: u8, count: 2",
        ["members[samples]", "offset 7", "reserved"],
    ),
    ("records.yaml", "name: sending-us, type: u32", "name: more, type: u64", ["members[more]", "offset 12"]),
    (
        "records.yaml",
        "type: credit",
        "type: credits",
        ["members[credit].type", "'credits'", "u64, stat, credit"],
    ),
    ("records.yaml", "name: want-arm", "name: arm", ["structs[record].members", "'arm'", "each name once"]),
]


@pytest.mark.parametrize(("name", "old", "new", "expected"), BAD_INPUT)
def test_bad_input_names_field_value_and_what_is_allowed(
    copy: Path, name: str, old: str, new: str, expected: list[str]
) -> None:
    path = copy / "kmod-mutant" / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    result = generate(copy)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for words in expected:
        assert words in result.stderr


def test_an_arm_executes_the_laws_that_it_declares(copy: Path) -> None:
    declared = copy / "policies/ltp/arm.toml"
    more = '\n[[variant]]\nname = "ltp-cubic"\nlaw = "cubic"\n'
    declared.write_text(declared.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert generate(copy).stdout == "wrote kmod-mutant/mutant_arms_gen.c\n"
    table = (copy / "kmod-mutant/mutant_arms_gen.c").read_text(encoding="utf-8")
    assert "[MUTANT_ARM_ID_LTP] = LAW(WINDOW) | LAW(CUBIC)," in table


def test_the_module_has_the_versions_of_the_whole() -> None:
    source = (REPOSITORY / "kmod-mutant/mutant_main.c").read_text()
    assert re.findall(r'MODULE_VERSION\("(.*)"\)', source) == [ltp_switcher.__version__]


def test_the_module_names_the_protocols_of_all_kernel_arms() -> None:
    """Whoever packs an initramfs takes along what a soft dependency names."""
    source = (REPOSITORY / "kmod-mutant/mutant_main.c").read_text()
    (named,) = re.findall(r'MODULE_SOFTDEP\("pre: (.*)"\)', source)
    kernel_arms = [arm.name.lower() for arm in protocol.ArmId if 0 < arm < protocol.ArmId.LTP]
    assert named.split() == [f"tcp_{name}" for name in kernel_arms]
