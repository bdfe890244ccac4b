# SPDX-License-Identifier: Apache-2.0
"""The matrix of the packages: its table, the results that are kept, and the inputs that end them."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from packages import build, dashboard, machine, matrix

SIZES = {"ltp-switcher": (15_000_000, 60_000)}


def checks(*told: tuple[str, bool]) -> list[Mapping[str, object]]:
    return [{"step": step, "check": "one", "ok": ok, "s": 1.0, "said": "why"} for step, ok in told]


def result(*told: tuple[str, bool], release: str = "Debian 12") -> matrix.Result:
    return matrix.Result(release, "k", "abc", "def", "6.1", 60.0, SIZES, checks(*told))


def printed(*results: matrix.Result) -> str:
    console = Console(file=StringIO(), width=120)
    console.print(matrix.table(results))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_machine_passes_only_with_every_check_and_the_last() -> None:
    assert result(("install", True), ("end", True)).good
    assert not result(("install", True)).good, "it stopped on the way"
    assert not result(("install", False), ("end", True)).good
    assert not result().good


def test_the_table_names_what_failed_and_what_was_not_reached() -> None:
    text = printed(
        result(("install", True), ("install", True), ("purge", False), ("end", True)),
        result(("install", True), release="Debian 13"),
    )
    rows = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    assert "pass 2" in rows["install"]
    assert "fail 0 of 1" in rows["purge"]
    assert "not reached" in rows["purge"]
    assert "15.0 / 58.6" in rows["ltp-switcher, MB / MiB installed"]
    assert "end" not in rows


def test_a_result_is_read_back_as_it_was(tmp_path: Path) -> None:
    wanted = result(("install", True), ("end", True))
    wanted.save(tmp_path / "a/b.json")
    assert matrix.Result.load(tmp_path / "a/b.json") == wanted
    (tmp_path / "a/b.json").write_text('{"release": "Debian 12"}')
    assert matrix.Result.load(tmp_path / "a/b.json") is None
    assert matrix.Result.load(tmp_path / "nothing") is None


def test_json_has_every_check() -> None:
    (told,) = json.loads(matrix.as_json([result(("install", False), ("end", True))]))
    assert told["good"] is False
    assert [check["ok"] for check in told["checks"]] == [False, True]


def test_a_half_written_line_of_the_serial_port_is_not_read_yet(tmp_path: Path) -> None:
    (tmp_path / "checks.jsonl").write_text('{"step": "install"}\nnoise\n{"step": "en')
    assert machine.checks(tmp_path) == [{"step": "install"}]


def test_a_run_goes_on_from_a_stage_of_the_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU is a program here that writes to the disk, and ends at each boot."""
    base, logs = tmp_path / "base", tmp_path / "logs"
    base.mkdir()
    (base / "disk.img").write_text("made ")
    boots: list[str] = []

    @contextmanager
    def booted(_base: Path, _packages: Path, logs: Path, _ports: machine.Ports) -> Iterator[object]:
        boots.append((logs / "disk.img").read_text())
        last = "older" in boots[-1]
        line = (
            {"step": "end", "check": "end"} if last else {"step": "machine", "check": "reboot", "said": "two"}
        )
        with (logs / "checks.jsonl").open("a") as port, (logs / "disk.img").open("a") as disk:
            port.write(json.dumps({**line, "ok": True}) + "\n")
            disk.write("older ")
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
            yield ended

    monkeypatch.setattr(machine, "booted", booted)
    seen: list[object] = []

    def run(stage: str | None) -> list[str]:
        seen.clear()
        checks = machine.run_checks(
            base, tmp_path / "packages.img", logs, lambda check, _: seen.append(check["check"]), stage
        )
        return [str(check["check"]) for check in checks]

    assert run(None) == ["reboot", "end"]
    assert boots == ["made ", "made older "]
    boots.clear()
    assert run("two") == ["reboot", "end"]
    assert boots == ["made older "], "as the stage began, not as it ended"
    assert seen == ["end"]
    with pytest.raises(build.FailedError, match="those kept: two"):
        run("three")


def test_the_browser_waits_until_the_machine_listens() -> None:
    """QEMU takes connections for a machine that does not listen yet, and ends them."""

    def machine_of(listener: socket.socket) -> None:
        listener.accept()[0].close()
        with listener.accept()[0] as connection:
            connection.sendall(b"http://127.0.0.1:9480/?code=x\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=machine_of, args=(listener,), daemon=True).start()
        connection, once = dashboard.address(listener.getsockname()[1])
        connection.close()
    assert once == "http://127.0.0.1:9480/?code=x"


def test_what_the_browser_misses_is_a_failed_check_and_the_next_step_runs() -> None:
    def misses() -> None:
        raise AssertionError("Locator expected to have count '6'")

    first, second = dashboard.run((("flows", misses), ("why", lambda: None)))
    assert (first["step"], first["ok"], first["said"]) == (
        "dashboard",
        False,
        "Locator expected to have count '6'",
    )
    assert (second["ok"], second["said"]) == (True, "")


def test_packages_are_built_anew_when_a_file_of_theirs_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "tests").mkdir()
    (tmp_path / "daemon.py").write_text("1")
    before = build.key_of_tree(tmp_path)
    (tmp_path / "tests/test_it.py").write_text("1")
    assert build.key_of_tree(tmp_path) == before
    (tmp_path / "daemon.py").write_text("2")
    assert build.key_of_tree(tmp_path) != before
    (tmp_path / "daemon.py").write_text("1")
    assert build.key_of_tree(tmp_path) == before
    (tmp_path / "daemon.py").rename(tmp_path / "daemons.py")
    assert build.key_of_tree(tmp_path) != before


def test_an_update_of_python_depends_on_itself() -> None:
    control = (
        "Package: python3.11\nVersion: 3.11.2-6\nDepends: python3.11-minimal (= 3.11.2-6), libc6 (>= 2.3)\n"
    )
    assert build.raised(control) == (
        "Package: python3.11\nVersion: 3.11.2-6+update\n"
        "Depends: python3.11-minimal (= 3.11.2-6+update), libc6 (>= 2.3)\n"
    )


@pytest.mark.parametrize("script", sorted(machine.GUEST.glob("*.sh")), ids=lambda path: path.name)
def test_the_guest_s_script_has_no_error_of_syntax(script: Path) -> None:
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if shutil.which("shellcheck"):
        done = subprocess.run(
            ["shellcheck", "-S", "warning", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
