# SPDX-License-Identifier: Apache-2.0
"""Every page is plain English, and names nothing that does not exist. The rules are in `support/words.py`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from support.c_words import c_comment_faults, c_reference_faults
from support.house import House
from support.pages import parse, sentences, slug, words
from support.words import comment_fragments, docstring_faults, faults, fragments

ROOT = Path(__file__).parent.parent
HOUSE = House.at(ROOT)
PAGES = {name: (ROOT / name).read_text() for name in sorted(HOUSE.files) if name.endswith(".md")}


@pytest.mark.parametrize("name", PAGES)
def test_page_keeps_the_rules(name: str) -> None:
    assert faults(name, PAGES[name], HOUSE, PAGES) == []


def test_modules_say_plainly_what_they_hold() -> None:
    modules = sorted(name for name in HOUSE.files if name.endswith(".py"))
    assert [fault for name in modules for fault in docstring_faults(name, (ROOT / name).read_text())] == []


def test_unclear_phrase_of_a_module_is_found() -> None:
    source = '"""Plain.\n\nIt holds `what`, and\nwhat the daemon learned."""\nTEXT = "what it is"\n'
    (found,) = docstring_faults("a.py", source)
    assert "what" in found
    assert docstring_faults("a.py", '"""What is plain?"""\n') == []
    assert docstring_faults("a.py", "x = 1\n") == []


def test_docstrings_of_modules_are_no_fragments() -> None:
    # The docstring of a test goes on from the test's name, which is a sentence.
    modules = sorted(name for name in HOUSE.files if name.endswith(".py") and not name.startswith("tests/"))
    assert [fault for name in modules for fault in fragments(name, (ROOT / name).read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "where flows are, at these times, shape (n,).",
        "Where flows are, at these times, shape (n,).",
        "When it last sent something.",
        "Whose tests have begun since the last call, shape (n,).",
        "Which players are tested, shape (n,).",
        "Of the links, likewise.",
        "Of a file, at most.",
        "Likewise of the links whose rate halves.",
        "The same for some flows.",
        "The same.",
        "At most.",
        "Those that meet real flows.",
        "Its place in `prefixes`.",
        "They are made anew after so long.",
        "As the base class says.",
        "With fewer, the swing is not known.",
        "By scheme.",
        "So often a time is doubled.",
        "... or by the time of ten packets.",
        "thr_max.",
        "The share of the steady arm; NaN: it has not.",
        "End of the test under way; 0: none is.",
        "The phase; -1: not watched.",
        "0 where throughput is Cubic's on all links; else below.",
        "1 if the generator runs.",
        "See above.",
        "A stream ends so long after its client.",
        "What the daemon has learned.",
    ],
)
@pytest.mark.parametrize(
    "place", ['"""{}"""', 'x = 1\n"""{}"""', 'class A:\n    x: int\n    """\n    {}\n    """']
)
def test_fragment_of_a_phrase_is_found(text: str, place: str) -> None:
    (found,) = fragments("a.py", place.format(text) + "\n")
    assert found.endswith(text)


@pytest.mark.parametrize(
    "text",
    [
        "True where a flow is still young.",
        "The steady arm's share when the careful arm replaced it; NaN if it never did.",
        "Least time between reports, in quarters of the RTT.",
        "The same order as in the file, by arm.",
        "At most `limit` messages that have arrived.",
        "Whether the flow sends.",
        "0: 3 packets; 1: 5 packets.",
        "See `Arm`.",
        "A packet waits so long that it is late.",
        "`thr_max` of Eq. 12.",
        "(x + x_o) / c, by the change of a queue.",
        "Ofcom's limit.",
        "Take in a step.\n\n    Args:\n        slots: of the flows.",
    ],
)
def test_whole_phrase_passes(text: str) -> None:
    assert fragments("a.py", f'x = 1\n"""{text}"""\nname = "of no docstring"\n') == []


GENERATED = "daemon/datapath/protocol.py"
"""Its comments are those of the netlink family's description."""


def test_comments_are_sentences() -> None:
    modules = sorted(name for name in HOUSE.files if name.endswith(".py") and not name.startswith("tests/"))
    found = [
        fault
        for name in modules
        if name != GENERATED
        for fault in comment_fragments(name, (ROOT / name).read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "So that no shorter prefix decides.",
        "By cookie: an interrupted dump may tell of a flow twice.",
        "Without a copy where nothing is missing.",
        "Within the ranges of Eq. 3 and 4.",
        "Of these, flows that met a loss.",
        "Likewise for IPv6.",
        "Where the last echo ended: packets resolved.",
        "The same, but later.",
        "... or by the time of ten packets.",
    ],
)
def test_fragment_of_a_comment_is_found_once(text: str) -> None:
    source = f"def f() -> None:\n    # {text}\n    # By name.\n    pass\n"
    assert comment_fragments("a.py", source) == [f"a.py:2: a fragment: {text}"]


@pytest.mark.parametrize(
    "text",
    [
        "On a long path BBR is in its start still.",
        "Where a queue stands, another flow may be the cause: `rivals` tells.",
        "In a holdback, units are prefixes.",
        "As with `dataclasses.field`, the type is the instance's.",
        "It may grow meanwhile.",
        "Sorted by name: so the order is one.",
        "fmt: skip",
    ],
)
def test_comment_with_a_clause_passes(text: str) -> None:
    assert comment_fragments("a.py", f'# {text}\nx = "# Of these"  # of no weight\n') == []


GENERATED_C = ("*/uapi/*", "*_gen.[ch]")
"""Their comments are those of the netlink family's description, too."""


def test_comments_of_c_are_plain_sentences() -> None:
    sources = sorted(name for name in HOUSE.files if name.endswith((".c", ".h")) and "tests/" not in name)
    assert {"kmod-mutant/mutant_core.h", "kmod-mutant/bpf/choose.bpf.c"} <= set(sources)
    found = [
        fault
        for name in sources
        if not any(fnmatchcase(name, pattern) for pattern in GENERATED_C)
        for fault in c_comment_faults(name, (ROOT / name).read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("comment", "fault"),
    [
        ("/* In a pulse. */", "2: a fragment: In a pulse."),
        ("// In a pulse.", "2: a fragment: In a pulse."),
        ("/* The flow of a cookie. Under RCU. */", "2: a fragment: Under RCU."),
        ("int x; /* of the socket */", "2: a fragment: of the socket"),
        ("int x; /* its time, µs */", "2: a fragment: its time"),
        ("/* Drop what is too old. */", "2: “what"),
        ("int x; /* what it was cloned from */", "2: “what"),
        ("/*\n * A window.\n *\n * Its share is\n * that of Cubic.\n */", "5: “that of"),
        ("/*\n * Files:\n *\n *\tmain\tbegin\n *\tinfo\twhat it\n *\t\ttells\n */", "6: “what"),
        ("/*\n * A list:\n * - first\n * - a word\n *   of what\n */", "5: “what"),
        ("/**\n * f() - Take it.\n * @sk: a socket\n * @now: what the clock says\n */", "5: “what"),
        (f"/* {'word ' * 33}*/", "2: 33 words"),
        (f"/* It is {'so ' * 15}good.\n * @at is {'so ' * 30}bad.\n */", "2: 33 words"),
    ],
)
def test_fault_in_a_comment_of_c_is_found_once(comment: str, fault: str) -> None:
    (found,) = c_comment_faults("a.c", f"int y;\n{comment}\nint z;\n")
    assert fault in found


@pytest.mark.parametrize(
    "comment",
    [
        "// SPDX-License-Identifier: GPL-2.0-only",
        "#endif /* _MUTANT_CORE_H */",
        "int x; /* enum mutant_event_bits */",
        "int x; /* time of the first hit, ns since boot; 0: none */",
        "/* Give @sk's flow its arm. `of` is no word here. Does it know what to do? */",
        f"/* It is {'so ' * 15}good. @at is {'so ' * 15}bad. */",
        "/*\n * Files:\n *\n *\tmain\tof loading\n *\tinfo\tby name,\n *\t\tand kind\n */",
        "/*\n * It has:\n * - of losses,\n *   one\n * - with a queue\n */",
        "/**\n * f() - Take it.\n * @sk: of the flow\n * @now: in ns\n */",
        'char *s = "/* of what */", c = \'"\'; /* a text */',
    ],
)
def test_plain_comment_of_c_passes(comment: str) -> None:
    assert c_comment_faults("a.c", f"int y;\n{comment}\nint z;\n") == []


def test_comments_of_c_name_only_functions_and_files_that_exist() -> None:
    sources = {name: (ROOT / name).read_text() for name in HOUSE.files if name.endswith((".c", ".h"))}
    assert c_reference_faults(sources) == []


def test_name_of_nothing_in_a_comment_of_c_is_found() -> None:
    sources = {
        "a/mutant_a.c": "/*\n * mutant_gone(), mutant_here(), mutant_a.c\n */\nvoid mutant_here(void);\n",
        "a/b.h": 'int x; /* mutant_b.h, tcp_gone() */ char *s = "/* mutant_text() */";\n',
    }
    assert c_reference_faults(sources) == [
        "a/mutant_a.c:2: no such name: mutant_gone()",
        "a/b.h:1: no such name: mutant_b.h",
    ]


def _small_house() -> House:
    files = {
        "README.md",
        "docs/a.md",
        "docs/b.md",
        "tool/README.md",
        "tool/main.py",
        "tool/deep/load.py",
    }
    return House(frozenset(files), {}, {}, frozenset({"kernel.watchdog_ms"}))


LONG = "\n".join([" ".join(["word"] * 16)] * 2)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"One {LONG}.", "33 words"),
        (f"- Short.\n- An item of {LONG}.", "words"),
        (f"| a | b |\n|---|---|\n| c | two {' '.join(LONG.split())} |", "words"),
        ("It tells what it does.", "what"),
        ("The file holds what\nthe daemon learned.", "what"),
        ("Its share is that of Cubic.", "that of"),
        ("The figure stands in the table.", "stands in"),
        ("It is of no use.", "is of"),
        ("This is made by no command.", "by no command"),
        ("A claim beside what is reached.", "what"),
        ("See [there](docs/c.md).", "link to nothing: docs/c.md"),
        ("See [there](docs/a.md#gone).", "link to no heading: docs/a.md#gone"),
        ("See [here](#gone).", "link to no heading: #gone"),
        ("![picture](docs/img.png)", "link to nothing: docs/img.png"),
        ("Look in /data/there for it.", "absolute path: /data"),
        ("```sh\ncat /home/user/notes\n```", "absolute path: /home"),
        ("Read `tool/gone.py`.", "no such file: tool/gone.py"),
        ("Read `gone/`.", "no such file: gone/"),
        ("Read `main.py`.", "no such file: main.py"),
        ("See `ltp_switcher.gone.away`.", "no such module: ltp_switcher.gone.away"),
        ("Set `kernel.watchdog`.", "no such setting: kernel.watchdog"),
        ("line\n\n" * 61, "122 lines"),
        ("word " * 30, "a line of 150 characters"),
    ],
)
def test_fault_is_found_once_and_named(text: str, fault: str) -> None:
    (found,) = faults("README.md", text, _small_house(), {"docs/a.md": "# Here\n"})
    assert fault in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", f"One {LONG[5:]}."),
        ("README.md", "What does it do? It runs one flow, e.g. cubic. See Eq. 3 of the paper."),
        ("README.md", "See [there](docs/a.md#here-it-is), [b](docs/b.md) and [web](https://example.org/x)."),
        ("README.md", "Read `tool/main.py`, `tool/*.py`, `tool/`, `docs/a.md` and `summary.json`."),
        ("README.md", "Half and/or 3 Mbit/s, in `/etc/x`, at `GET /v1/flows`, below /proc/sys."),
        ("README.md", "Set `kernel.watchdog_ms`."),
        ("tool/README.md", "Read `load.py` and `../docs/a.md`."),
        ("docs/a.md", "Read `main.py`, and [b](b.md)."),
        ("docs/a.md", "line\n\n" * 61),
        ("docs/a.md", f"| {'word ' * 30} |\n# {'word ' * 30}\n```\n{'word ' * 30}\n```\n"),
        ("CHANGELOG.md", "word " * 30),
    ],
)
def test_good_text_passes(name: str, text: str) -> None:
    assert faults(name, text, _small_house(), {"docs/a.md": "# Here it is\n"}) == []


def test_fault_has_its_line() -> None:
    (found,) = faults("docs/a.md", "# Good\n\nGood.\n\nIt is of no use.\n", _small_house(), {})
    assert found.startswith("docs/a.md:5: ")


def test_sentences_end_where_readers_end_them() -> None:
    text = "It costs 0.5 ms (Eq. 3). `Span` begins here! Does it? α is small, e.g. 0.1."
    (block,) = parse(text).blocks
    assert [words(sentence) for sentence in sentences(block.text)] == [6, 3, 2, 5]


def test_anchor_of_a_heading() -> None:
    assert slug("Does `mutant` pay? (R_max)") == "does-mutant-pay-r_max"


def test_house_knows_this_repository() -> None:
    assert {"README.md", "kmod-mutant/mutant.yaml"} <= HOUSE.files
    assert "demo" in HOUSE.makefiles[""]
    assert "host-test" in HOUSE.makefiles["kmod-mutant"]
    assert {"ltp-switcher", "ltp-eval"} <= set(HOUSE.programs)
    assert HOUSE.has_module("ltp_switcher.policies.runtime.arm")
    assert HOUSE.has_module("ltp_switcher.layers")
    assert not HOUSE.has_module("ltp_switcher.policies.gone")
