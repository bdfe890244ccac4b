# SPDX-License-Identifier: Apache-2.0
"""Parse command lines of Python programs with each program's own parser, and run no program.

Input is a JSON list of command lines, each a list of words: `-m`, a module and its arguments, or a file and
its arguments. Output is a JSON list with an object for each: the parser's refusal or null, and the parser's
options.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import runpy
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import MagicMock


class ParsedError(BaseException):
    """The command line is parsed; `args[0]` is the parser."""


_parse = argparse.ArgumentParser.parse_args


def _stop(parser: argparse.ArgumentParser, *given: object) -> None:
    _parse(parser, *given)  # type: ignore[call-overload]
    raise ParsedError(parser)


def options_of(parser: argparse.ArgumentParser, command: str | None = None) -> set[str]:
    """The options of a program, and those of one of its commands, or of all."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, made in action.choices.items():
                if command in (None, name):
                    found |= options_of(made)
    return found


def parsed(words: Sequence[str]) -> dict[str, object]:
    """Run a program up to the end of its parser. One without a parser takes no arguments, and is not run."""
    module = words[1] if words[0] == "-m" else None
    arguments = words[1 + (module is not None) :]
    said = io.StringIO()
    try:
        file = words[0] if module is None else _file(module)
        if "parse_args" not in Path(file).read_text():
            return {"refused": f"it takes no arguments: {arguments}" if arguments else None, "options": []}
        sys.argv = [file, *arguments]
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            if module is None:
                sys.path.insert(0, str(Path(file).parent))
                runpy.run_path(file, run_name="__main__")
            else:
                runpy.run_module(module, run_name="__main__")
    except ParsedError as end:
        return {"refused": None, "options": sorted(options_of(end.args[0]))}
    except SystemExit:
        return {"refused": (said.getvalue().strip().splitlines() or ["it exits"])[-1], "options": []}
    except ImportError as error:
        return {"refused": str(error), "options": []}
    return {"refused": "it has parsed nothing", "options": []}


def _file(module: str) -> str:
    found = find_spec(module)
    if found is not None and found.submodule_search_locations:
        found = find_spec(f"{module}.__main__")
    if found is None or found.origin is None:
        raise ImportError(f"no such module: {module}")
    return found.origin


def main() -> None:
    """Parse the command lines of the standard input."""
    argparse.ArgumentParser.parse_args = _stop  # type: ignore[assignment, method-assign]
    if find_spec("torch") is None:
        # A trainer's parser needs no PyTorch, but its module imports it.
        for name in ("torch", "torch.nn", "torch.nn.functional"):
            sys.modules[name] = MagicMock()
    json.dump([parsed(words) for words in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
