# SPDX-License-Identifier: Apache-2.0
"""The programs themselves take every command that a page names.

A command gets values for its words in capitals, and comes as near to its work as it can without lab, root or
service. `ltp-eval` ends where its first run would begin. `ltp-switcher` and `curl` ask a real daemon, whose
kernel alone is a stand-in. make only plans, and the other programs only parse.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest
from support.api_client import asker
from support.fake_kernel import ARMS, Kernel
from support.house import House
from support.page_commands import Call, calls
from support.pages import parse
from support.parse_only import options_of
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.api.network_agent.app import create_app as network_agent
from ltp_switcher.api.network_agent.collector import Collector
from ltp_switcher.cluster import Cluster
from ltp_switcher.daemon.cli.main import main as switcher
from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.datapath import ArmInfo, protocol
from ltp_switcher.daemon.settings.schema import Config, DaemonSection
from ltp_switcher.eval.cli.main import main as evaluate
from ltp_switcher.eval.lab import qemu
from ltp_switcher.eval.lab import run as lab_run
from ltp_switcher.eval.run import batch
from ltp_switcher.eval.run.results import Job

ROOT: Final = Path(__file__).parent.parent
HOUSE: Final = House.at(ROOT)
PAGES: Final = {name: (ROOT / name).read_text() for name in sorted(HOUSE.files) if name.endswith(".md")}
SCRIPTS: Final = ("packaging/install.sh", "packaging/uninstall.sh")
FILES: Final = ("tests/kmod/bench_scale.py",)
OURS: Final = frozenset((*HOUSE.programs, *SCRIPTS, *FILES, "make", "python", "pytest", "curl"))
FOREIGN: Final = frozenset(
    (
        "apt", "basename", "bpftrace", "cat", "cp", "dask", "insmod", "ip", "journalctl", "mkdir", "sed",
        "ss", "sysctl", "systemctl", "uname",
    )
)  # fmt: skip
"""Programs of others, whose commands nothing here can judge."""
PARSED: Final[Mapping[str, tuple[str, ...]]] = {
    "ltp-eval": (
        "agree", "claims-page", "completion", "gain-coverage", "gain-rollout", "mahimahi", "traces",
        "traffic-compare",
        "traffic-replay",
    ),
    "ltp-switcher": (
        "bundle", "completion", "dashboard", "doctor", "evaluate", "give-back", "network", "outcomes",
        "replay", "report", "run", "token", "unuse", "use", "used",
    ),
}  # fmt: skip
"""Commands that change this machine, fetch something, take minutes, or need files that a service writes."""
RUN: Final = (
    ("ltp-eval", "list"), ("ltp-eval", "claims-page", "--check"), ("ltp-switcher", "--version"),
    ("ltp-switcher", "config", "--example"), ("python", "-c"),
)  # fmt: skip
"""Beginnings of commands that only read, and that end at once."""
VALUES: Final[Mapping[str, str]] = {
    "ADDRESS": "tcp://127.0.0.1:8786", "AFTER": "after", "ARM": "bbr", "ARMS": "arms", "BEFORE": "before",
    "BOOL": "true", "COOKIE": "4711", "DIR": "out", "FILE": "my-file.toml", "FOLDER": "tuning",
    "HOST": "192.0.2.1", "KERNEL": "6.12", "KO": "tcp_mutant.ko", "LOG": "log", "N": "2", "NAME": "yeah",
    "NETWORK": "192.0.2.0/24", "PREFIX": "192.0.2.0/24", "SCENARIO": "fixed", "SCHEME": "bbr",
    "SET": "tuning", "STAGE": "upgrade", "SWITCHER": "switcher", "X": "bbr",
}  # fmt: skip
"""A value for each word in capitals. PATH and PATHS depend on the set of paths."""
OF_THE_READER: Final = {
    "my-file.toml": "eval/scenarios/fixed.toml",
    "my-path.toml": "eval/scenarios/fixed.toml",
    "my-site.toml": "eval/suite/test/pages-1.toml",
    "my-leo.toml": "eval/scenarios/satellite.toml",
    "my-paths": "eval/suite/tuning",
    "paths-offsets": "eval/suite/test",
}
"""Files and folders that a page's reader makes, and one of each kind."""
ARM_OF_THE_READER: Final = "ledbat"
"""The arm that a page shows how to add."""
CHANGE: Final = 17
"""The change that a page reverts."""
_INCOMPLETE: Final = re.compile(r"\brequired\b|expected (?:one|at least one) argument|'' is not valid")
_TARGET: Final = re.compile(r"[a-z][a-z-]*")
_PYTHON: Final = re.compile(r"(?:PYTHONPATH=\S+ )?\.venv(?:-train)?/bin/(?=python|ltp-)([^$;>|]*)$")
"""A line of a plan that calls one of our Python programs."""
_REQUEST: Final = re.compile(r"(GET|PUT|POST|PATCH|DELETE) (/\S+)$")

Faults = list[str]


class DoorError(BaseException):
    """A run would begin now."""


def _door(*_: object, **__: object) -> None:
    raise DoorError


def _lines(faults: Faults) -> str:
    return "\n".join(["", *faults])


@pytest.fixture(scope="module")
def control_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a daemon with the flows, arms, policies and changes that the pages speak of.

    In this folder are all files that a reader makes. A run that begins raises `DoorError`.
    """
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for where, name in (
            (batch.Board, "__init__"),
            (Job, "fingerprint"),
            (lab_run, "_inputs"),
            (qemu, "execute"),
        ):
            monkeypatch.setattr(where, name, _door)
        monkeypatch.setattr(Cluster, "__enter__", _door)
        monkeypatch.chdir(folder)
        for name, of in {"docs": "docs", "eval": "eval", **OF_THE_READER}.items():
            Path(name).symlink_to(ROOT / of)
        (policies,) = re.findall(r"```toml\n(\[\[policy\]\].*?)```", PAGES["docs/operations.md"], re.DOTALL)
        Path("policies.toml").write_text(policies)
        kernel = Kernel(*(flow(cookie, "198.51.100.7", busy=True) for cookie in (4711, 1234, 0x15)))
        ltp = ArmInfo(protocol.ArmId.LTP, "ltp", protocol.ArmState.AVAILABLE, protocol.ArmKind.LEARNED, "")
        monkeypatch.setattr(kernel, "arms", lambda: [*ARMS, ltp])
        place = folder / "control.sock"
        section = DaemonSection(control_socket=str(place), state_dir=str(folder / "state"), mode="advise")
        with running(make_daemon(kernel, Config(daemon=section), monkeypatch)):
            with ControlClient(str(place)) as client:
                for number in range(CHANGE):
                    client.call("config.set", values={"kernel": {"watchdog_ms": 1000 + number}})
            yield place


@cache
def _every_call() -> tuple[Call, ...]:
    """The calls of all pages, and those that make plans to make the pages' targets."""
    found = [call for name, text in PAGES.items() for call in calls(name, text, OURS)]
    return (*found, *_planned(found)[1])


def _of(found: Iterable[Call], *programs: str) -> list[Call]:
    """The calls of programs with arguments, each once."""
    first: dict[tuple[str, ...], Call] = {}
    for call in found:
        if call.words[0] in programs and len(call.words) > 1:
            first.setdefault(call.words, call)
    return list(first.values())


def _is_parsed(call: Call) -> bool:
    """Whether nothing but its parser judges a call."""
    # A selection by visits needs a daemon that has learned about the prefix.
    special = "mahimahi" in call.words or call.words[-2:] == ("--by", "visits")
    return special or call.words[1] in PARSED.get(call.words[0], (call.words[1],))


def _filled(call: Call, **values: str) -> list[str]:
    """A call's arguments, with values for words in capitals; `values` go before those of `VALUES`."""
    values = {**VALUES, **values}
    words = [word for word in call.words[1:] if word not in ("...", "…")]
    filled = []
    for word in words:
        plain = word.replace(",…,", ",").removesuffix("…").replace(ARM_OF_THE_READER, "ltp")
        plain = re.sub(r"(?<!\w)[A-Z]+(?!\w)", lambda name: values.get(name[0], name[0]), plain)
        if plain.endswith("/PATH.toml"):
            plain = str(min((ROOT / plain).parent.glob("*.toml")).relative_to(ROOT))
        elif plain in ("PATH", "PATHS"):
            of = words[words.index("--set") + 1]
            folder = Path(of) if Path(of).is_dir() else ROOT / "eval/suite" / values.get(of, of)
            plain = min(folder.glob("*.toml")).stem
        filled.append(plain)
    return filled


def _refusal(main: Callable[[Sequence[str]], object], words: Sequence[str]) -> str | None:
    """The last line that a program says before it refuses these arguments; None if it does not."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = main(words)
        except DoorError:
            status = 0
        except SystemExit as end:
            status = end.code
    return ["", *said.getvalue().strip().splitlines()][-1] if status else None


def _faults(judged: Iterable[tuple[Call, str | None]]) -> Faults:
    """A line for each refused call. A code span in a sentence may lack arguments, but knows its options."""
    return [
        f"{call}: {why}"
        for call, why in judged
        if why is not None
        and not (call.in_sentence and _INCOMPLETE.search(why) and _options(call) <= _known_options(call))
    ]


def _options(call: Call) -> set[str]:
    return {word.partition("=")[0] for word in call.words if word.startswith("--")}


def _known_options(call: Call) -> set[str]:
    """The options of one of our programs, or of its command that is called; empty for other programs."""
    parser = HOUSE.programs.get(call.words[0])
    return set() if parser is None else options_of(parser, call.words[1])


def _unknown(found: Iterable[Call]) -> Faults:
    return [f"{call}: no such program" for call in found if call.words[0] not in OURS | FOREIGN]


def _unparsed(found: Iterable[Call]) -> Faults:
    """Faults of our programs' command lines, where the parser alone judges them."""

    def parse_only(program: str, words: Sequence[str]) -> None:
        HOUSE.programs[program].parse_args(words)

    judged = [call for call in _of(found, *HOUSE.programs) if _is_parsed(call)]
    return _faults((call, _refusal(partial(parse_only, call.words[0]), _filled(call))) for call in judged)


def _without_run(found: Iterable[Call]) -> Faults:
    """Faults of `ltp-eval`: a scheme, set, path, setting, claim or scenario that there is not, and others."""
    judged = [call for call in _of(found, "ltp-eval") if not _is_parsed(call)]
    # A page may use a set that another page draws.
    judged.sort(key=lambda call: call.words[1] != "draw")
    return _faults((call, _refusal(evaluate, _filled(call))) for call in judged)


def _unanswered(found: Iterable[Call], place: Path) -> Faults:
    """Faults of `ltp-switcher`, where a daemon answers. A table that repeats is shown once."""
    judged = [call for call in _of(found, "ltp-switcher") if not _is_parsed(call)]
    return _faults(
        (call, _refusal(switcher, [*_once(_filled(call, FILE="policies.toml")), "--socket", str(place)]))
        for call in judged
    )


def _once(words: Iterable[str]) -> list[str]:
    return [word for word in words if word != "--watch"]


def _planned(found: Iterable[Call]) -> tuple[Faults, list[Call]]:
    """The faults of calls of make, and the calls of our Python programs in make's plans."""
    faults: Faults = []
    plans: dict[tuple[str, ...], tuple[Call, set[str]]] = {}
    for call in _of(found, "make"):
        words = list(call.words[1:])
        beside = str(Path(call.place).parent)
        folder = words[1] if words[0] == "-C" else ""
        targets = {word for word in words if _TARGET.fullmatch(word)} - {folder}
        if not folder and beside in HOUSE.makefiles and not (targets and targets <= HOUSE.makefiles[""]):
            folder = beside
        given = [word.replace("ADDRESS", VALUES["ADDRESS"]) for word in words if "=" in word]
        unknown = targets - HOUSE.makefiles.get(folder, frozenset())
        faults += [f"{call}: no such target: {name}" for name in sorted(unknown)]
        faults += [
            f"{call}: no Makefile reads {name}"
            for name in (word.partition("=")[0] for word in given)
            if not any(re.search(rf"\b{name}\b", text) for text in _recipes())
        ]
        if not unknown:
            plans.setdefault((folder, *given), (call, set()))[1].update(targets)
    ours = []
    for (folder, *given), (call, targets) in plans.items():
        # A make within make runs in a dry run, too: here it is `true`.
        plan = subprocess.run(
            ["make", "--dry-run", "MAKE=true", *given, *sorted(targets)],
            cwd=ROOT / folder, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        if plan.returncode:
            faults.append(f"{call}: {plan.stderr.strip()}")
        for line in plan.stdout.replace("\\\n", " ").splitlines():
            if command := _PYTHON.match(line):
                ours.append(Call(call.place, tuple(shlex.split(command[1])), in_sentence=False))
    return faults, ours


@cache
def _recipes() -> list[str]:
    """The files that read variables of make: the Makefiles, and the scripts that they run."""
    named = [name for name in HOUSE.files if re.search(r"(?:^|/)Makefile$|^packaging/.*\.sh$", name)]
    return [(ROOT / name).read_text() for name in named]


def _modules(found: Iterable[Call]) -> tuple[Faults, set[str]]:
    """The faults of calls of Python programs without an entry point, and all options of these programs."""
    judged = [call for call in _of(found, "python", *FILES) if call.words[1] != "-c"]
    if not judged:
        return [], set()
    ran = subprocess.run(
        [sys.executable, "tests/support/parse_only.py"],
        input=json.dumps([[*call.words[: call.words[0] != "python"], *_filled(call)] for call in judged]),
        cwd=ROOT, env={"PYTHONPATH": "tests"}, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    outcomes: list[dict[str, Any]] = json.loads(ran.stdout)
    faults = _faults((call, outcome["refused"]) for call, outcome in zip(judged, outcomes, strict=True))
    return faults, {option for outcome in outcomes for option in outcome["options"]}


def _scripted(found: Iterable[Call]) -> Faults:
    """Faults of scripts: an option without a branch of the script's `case`."""
    return [
        f"{call}: no such option: {option}"
        for call in _of(found, *SCRIPTS)
        for option in call.words[1:]
        if f"{option})" not in (ROOT / call.words[0]).read_text()
    ]


def _uncollected(found: Iterable[Call]) -> Faults:
    """Faults of pytest: a file that is not there, or a selection of no test."""
    faults = []
    for call in _of(found, "pytest"):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *_filled(call)],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if ran.returncode:
            faults.append(f"{call}: {(ran.stdout + ran.stderr).strip().splitlines()[-1]}")
    return faults


def _failed(found: Iterable[Call]) -> Faults:
    """Faults of commands that only read: these run."""
    faults = []
    for call in [call for call in found if any(call.words[: len(words)] == words for words in RUN)]:
        program = Path(sys.executable).with_name(call.words[0])
        ran = subprocess.run(
            [program, *call.words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        if ran.returncode or not ran.stdout:
            faults.append(f"{call}: status {ran.returncode}: {ran.stderr.strip()}")
    return faults


def _not_described(method: str, target: str) -> str | None:
    """The part of a request that the API's description lacks."""
    parts = urlsplit(target)
    described: dict[str, dict[str, Any]] = json.loads((ROOT / "docs/openapi.json").read_text())["paths"]
    for path, methods in described.items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), parts.path) and method.lower() in methods:
            taken = {one["name"] for one in methods[method.lower()].get("parameters", [])}
            unknown = [name for name, _ in parse_qsl(parts.query) if name not in taken]
            return f"no such parameter: {unknown[0]}" if unknown else None
    return f"no such request: {method} {parts.path}"


@cache
def _of_the_agent() -> frozenset[str]:
    """The paths of the network agent's own API, and that of both descriptions."""
    agent = network_agent(Collector([], path_nodes=1))
    return frozenset((*agent.openapi()["paths"], str(agent.openapi_url)))


def _requests_of_sentences(pages: Mapping[str, str]) -> Faults:
    return [
        f"{name}:{span.line}: {why}"
        for name, text in pages.items()
        for span in parse(text).spans
        for request in [_REQUEST.match(span.text)]
        if request is not None and request[2] not in _of_the_agent()
        for why in [_not_described(request[1], request[2])]
        if why is not None
    ]


def _refused_requests(found: Iterable[Call], place: Path) -> Faults:
    """Faults of curl: a request that the API does not describe, or that it refuses."""
    ask = asker(place)
    judged = []
    for call in _of(found, "curl"):
        method, url, headers, body = _request(call.words[1:])
        target = urlsplit(url)
        path = target._replace(scheme="", netloc="").geturl()
        if target.hostname == "localhost":
            why = _not_described(method, path)
            if why is None:
                answer = ask(method, path, content=body, headers=headers)
                why = None if answer.is_success else f"{answer.status_code}: {answer.text}"
            judged.append((call, why))
        elif url and target.path not in _of_the_agent():
            judged.append((call, f"the agent has no {target.path}"))
    return _faults(judged)


def _request(words: Sequence[str]) -> tuple[str, str, Mapping[str, str], str | None]:
    """Method, URL, headers and body of a call of curl. The URL is empty where the call has none."""
    method, url, body = "GET", "", None
    headers: dict[str, str] = {}
    left = iter(words)
    for word in left:
        if word.startswith("http"):
            url = word
        elif word == "-X":
            method = next(left)
        elif word in ("--json", "-d"):
            body = next(left)
            headers.setdefault("content-type", "application/json")
        elif word == "-H":
            name, _, value = next(left).partition(": ")
            # A value that comes from an earlier answer is empty here.
            headers.update({name: value} if value else {})
        elif word in ("--unix-socket", "-o", "-D"):
            next(left)
        elif word not in ("-s", "-N"):
            raise ValueError(f"curl: not known here: {word}")
    return method, url, headers, body


def _unknown_options(pages: Mapping[str, str], of_modules: set[str]) -> Faults:
    """Faults of spans that begin with an option: no program of ours has it."""
    known = of_modules.union(*map(options_of, HOUSE.programs.values()))
    scripts = "".join((ROOT / name).read_text() for name in SCRIPTS)
    return [
        f"{name}:{span.line}: no program has the option {option}"
        for name, text in pages.items()
        for span in parse(text).spans
        if span.text.startswith("--")
        for option in re.findall(r"(?:^| )(--[a-z][a-z-]*)", span.text)
        if option not in known and f"{option})" not in scripts
    ]


def test_every_program_is_known() -> None:
    assert not (faults := _unknown(_every_call())), _lines(faults)


def test_parsers_take_the_commands() -> None:
    assert not (faults := _unparsed(_every_call())), _lines(faults)


def test_ltp_eval_takes_the_commands(control_socket: Path) -> None:
    assert not (faults := _without_run(_every_call())), _lines(faults)


def test_a_daemon_takes_the_commands(control_socket: Path) -> None:
    assert not (faults := _unanswered(_every_call(), control_socket)), _lines(faults)


def test_make_knows_how_to_make_the_targets() -> None:
    assert not (faults := _planned(_every_call())[0]), _lines(faults)


def test_modules_take_the_commands_and_have_the_options_of_sentences() -> None:
    faults, options = _modules(_every_call())
    faults += _unknown_options(PAGES, options)
    assert not faults, _lines(faults)


def test_scripts_take_the_options() -> None:
    assert not (faults := _scripted(_every_call())), _lines(faults)


def test_pytest_finds_the_tests() -> None:
    assert not (faults := _uncollected(_every_call())), _lines(faults)


def test_commands_that_only_read_end_well() -> None:
    assert not (faults := _failed(_every_call())), _lines(faults)


def test_api_has_the_requests_of_sentences() -> None:
    assert not (faults := _requests_of_sentences(PAGES)), _lines(faults)


def test_api_answers_the_requests(control_socket: Path) -> None:
    assert not (faults := _refused_requests(_every_call(), control_socket)), _lines(faults)


@pytest.mark.parametrize("program", ["ltp-eval", "ltp-switcher", "make", "python", "curl", "pytest"])
def test_pages_have_commands_of_the_program(program: str) -> None:
    """Those of make's plans are among them: `make bench-fleet ARGS='--part liar'`."""
    found = _of(_every_call(), program)
    assert len(found) >= {"pytest": 4, "curl": 15}.get(program, 30)
    if program == "python":
        assert ("python", "-m", "fleet", "--part", "liar") in {call.words for call in found}


def _every_fault(name: str, text: str, place: Path) -> Faults:
    found = calls(name, text, OURS)
    faults, planned = _planned(found)
    found += planned
    of_modules, options = _modules(found)
    return [
        *faults, *of_modules, *_unknown(found), *_unparsed(found), *_without_run(found),
        *_unanswered(found, place), *_scripted(found), *_uncollected(found), *_failed(found),
        *_requests_of_sentences({name: text}), *_refused_requests(found, place),
        *_unknown_options({name: text}, options),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("ltp-eval runn fixed", "invalid choice: 'runn'"),
        ("ltp-eval run fixed --skeme bbr --out DIR", "unrecognized arguments: --skeme"),
        ("ltp-eval run fixed --scheme bbrr --out DIR", "'bbrr' is not valid"),
        ("ltp-eval run fixt --out DIR", "'fixt' is not valid"),
        ("ltp-eval run fixed --set mpts.budgt=3 --out DIR", "did you mean mpts.budget"),
        ("ltp-eval suite --set tunning --schemes bbr", "'tunning' is not valid"),
        ("ltp-eval suite --set tuning --paths gone-1", "'gone-1' is not valid"),
        ("ltp-eval claims jury-fairnes", "'jury-fairnes' is not valid"),
        ("ltp-eval ablate --cases gone", "'gone' is not valid"),
        ("ltp-eval gain-coverage --experimints 3", "--experimints"),
        ("ltp-switcher flwos", "invalid choice: 'flwos'"),
        ("ltp-switcher pool set bbr vegass", "'vegass' is not valid"),
        ("ltp-switcher config set mpts.budgt=200", "did you mean mpts.budget"),
        ("ltp-switcher flows --order speed", "'speed' is not valid"),
        ("ltp-switcher pin", "required: cookie, arm"),
        ("sudo ltp-switcher use", "required: PREFIX"),
        ("ltp-owl-agent --path-node 5", "required: --node"),
        ("make deom", "no such target: deom"),
        ("make demo SEADS=5", "no Makefile reads SEADS"),
        ("make bench-fleet ARGS='--part lair'", "invalid choice: 'lair'"),
        ("make -C kmod-mutant host-tests", "no such target: host-tests"),
        ("python -m ltp_switcher.policies.gone.train", "No module named 'ltp_switcher.policies.gone'"),
        (".venv-train/bin/python -m ltp_switcher.policies.ltp.train --outt DIR", "required: --out"),
        ("PYTHONPATH=tests python -m load --part gone", "invalid choice: 'gone'"),
        ("tests/kmod/bench_scale.py --lives 500", "--lives"),
        ("packaging/install.sh --no-begin", "no such option: --no-begin"),
        ("pytest tests/test_gone.py", "test_gone.py"),
        ("python -c 'import ltp_switcher.gone'", "status 1"),
        ("curl http://localhost/v1/flow", "no such request: GET /v1/flow"),
        ("curl http://localhost/v1/flows -X PUT", "no such request: PUT /v1/flows"),
        ("curl 'http://localhost/v1/flows?limits=2'", "no such parameter: limits"),
        ('curl http://localhost/v1/mode -X PUT --json \'{"mood": "active"}\'', "422"),
        ("curl http://192.0.2.1:9481/v1/networks", "the agent has no /v1/networks"),
        ("cat x | lpt-eval list", "no such program"),
    ],
)
def test_fault_of_a_block_is_found_once_with_its_place(code: str, fault: str, control_socket: Path) -> None:
    (found,) = _every_fault("docs/a.md", f"Text.\n\n```sh\n{code}   # note\n```\n", control_socket)
    assert found.startswith("docs/a.md:4: ")
    assert fault in found


@pytest.mark.parametrize(
    ("span", "fault"),
    [
        ("ltp-switcher runn", "invalid choice: 'runn'"),
        ("ltp-eval draw --wides", "required: --out"),
        ("--daemons beside", "no program has the option --daemons"),
        ("DELETE /v1/flows", "no such request: DELETE /v1/flows"),
        ("GET /v1/report?sense_s=3", "no such parameter: sense_s"),
    ],
)
def test_fault_of_a_sentence_is_found_once_with_its_place(
    span: str, fault: str, control_socket: Path
) -> None:
    (found,) = _every_fault("docs/a.md", f"Text.\n\nIt is `{span}`.\n", control_socket)
    assert found.startswith("docs/a.md:3: ")
    assert fault in found


@pytest.mark.parametrize(
    "text",
    [
        "`ltp-switcher pin` and `ltp-switcher config set` lack arguments. `ltp-switcher-api` is a name.",
        "`GET /v1/flows/{cookie}`, `GET /v1/network`, `--daemon beside`, `apt install git`",
        "```text\nltp-eval gone\n```",
        "```sh\nltp-eval draw --wide 9 --seed 1 --out drawn\nltp-eval suite --set drawn --paths PATHS\n```",
    ],
)
def test_good_text_passes(text: str, control_socket: Path) -> None:
    assert _every_fault("docs/a.md", text, control_socket) == []


def test_calls_are_those_of_a_shell() -> None:
    text = """\
Run `sudo make demo` or `.venv/bin/ltp-eval list`, not `apt install git`.

```sh
api() { curl -s "http://localhost$1" "${@:2}"; }
for name in a b; do
    sed "s/x/$name/" $name.toml >/etc/out/$name.toml
done
api /v1/flows \\
    -X PUT && X=1 make 'a b'   # note
etag=$(api /v1/pool | sed -n p) & packaging/install.sh --no-start
```
```text
make gone
```
"""
    assert {str(call) for call in calls("p.md", text, OURS)} == {
        "p.md:1: make demo",
        "p.md:1: ltp-eval list",
        "p.md:6: sed s/x/a/ a.toml",
        "p.md:6: sed s/x/b/ b.toml",
        "p.md:8: curl -s http://localhost/v1/flows -X PUT",
        "p.md:9: make 'a b'",
        "p.md:10: curl -s http://localhost/v1/pool",
        "p.md:10: sed -n p",
        "p.md:10: packaging/install.sh --no-start",
    }


@pytest.mark.parametrize("code", ["for a in b; done", "echo 'x", "./gone", "cat <gone"])
def test_code_that_bash_cannot_read_is_a_fault(code: str) -> None:
    with pytest.raises(ValueError, match=r"p\.md"):
        calls("p.md", f"```sh\n{code}\n```\n", OURS)
