# SPDX-License-Identifier: Apache-2.0
"""The control methods for the exchange of lessons between hosts, and the metrics of this exchange.

A lesson is the knowledge of one host about the arms on a prefix. `ltp-switcher-fleet` is a process of its
own. It reads the lessons of this host with `fleet.lessons`. With `fleet.tell` it hands over the knowledge of
other hosts and its own state. The daemon never waits for this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

import numpy as np

from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.daemon.choose.visits.site import EFFECT_MAX, VARIANCE_MAX
from ltp_switcher.daemon.control.answers import JsonList, Method, Params
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.controlled import Controlled
from ltp_switcher.daemon.control.families import Family, counter, gauge, labelled
from ltp_switcher.daemon.control.visit_methods import effects_json
from ltp_switcher.daemon.gain.outcomes import PREFIX_KEY, prefix_key, prefix_text
from ltp_switcher.daemon.settings.fleet import NAME
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.spans import model_version
from ltp_switcher.errors import InvalidValueError

PREFIX: Final = "ltp_switcher_fleet"
SILENT_S: Final = 60.0
"""Silence in seconds after which the fleet service counts as not running."""
LIMIT: Final = 100
"""Largest number of prefixes that `fleet.get` returns."""
HOSTS_MAX: Final = 256
"""Largest number of hosts that the fleet service may report."""
SOURCES_MAX: Final = 4096
"""Largest number of prefixes for which the daemon keeps the names of the hosts that told it
about the prefix.
"""

_STATUS: Final[Mapping[str, Json]] = {
    "host": "", "site": "", "store": "", "reachable": False, "error": "", "lag_s": 0.0, "exchanges": 0,
    "failures": 0, "written": 0, "write_failures": 0, "read": 0, "live": 0, "namesakes": 0,
}  # fmt: skip
"""The members with which the fleet service describes itself, as they are before its first report. A value
also shows the member's type.
"""
_HOST: Final[Mapping[str, Json]] = {
    "name": "", "version": "", "age_s": 0.0, "lessons": 0, "refused": 0, "other_version": 0,
    "other_model": 0, "compared": 0.0, "apart": 0.0, "disagrees": False, "shut_out": False,
}  # fmt: skip
"""The members with which the fleet service describes a host. Each has a value of the member's type."""


class FleetMethods:
    """The control methods for the fleet, by name, each with the names of its parameters."""

    def __init__(self, daemon: Controlled) -> None:
        self._daemon = daemon
        self._epoch = time.time_ns()
        self._status: dict[str, Json] = dict(_STATUS)
        self._hosts: list[dict[str, Json]] = []
        self._heard_s = self._hosts_s = -np.inf
        self._sources: dict[str, list[Json]] = {}
        self._without_room = 0
        self.methods: dict[str, tuple[Method, frozenset[str]]] = {
            "fleet.lessons": (self._lessons, frozenset({"since"})),
            "fleet.tell": (self._tell, frozenset({"lessons", "status", "hosts"})),
            "fleet.get": (self._get, frozenset()),
        }

    def families(self) -> list[Family]:
        """The metrics of the fleet. All are 0 if this host shares no knowledge with others."""
        told = self._summary()
        hosts = {cast("str", host["name"]): host for host in self._hosts}

        def by_host(name: str) -> dict[str, float]:
            return {host: float(cast("float", found[name])) for host, found in hosts.items()}

        def number(name: str) -> float:
            return float(cast("float", told[name]))

        return [
            gauge(f"{PREFIX}_running", "1 while ltp-switcher-fleet tells of itself.", number("running")),
            gauge(f"{PREFIX}_reachable", "1 while it reaches the store.", number("reachable")),
            gauge(f"{PREFIX}_lag_seconds", "Time since the last whole exchange.", number("lag_s"), "seconds"),
            gauge(f"{PREFIX}_hosts", "Hosts of the site that it knows, beside this one.", len(hosts)),
            gauge(f"{PREFIX}_prefixes", "Prefixes of which others know something.", number("told")),
            counter(f"{PREFIX}_written", "Lessons that it wrote.", number("written")),
            counter(f"{PREFIX}_write_failures", "Lessons that the store refused.", number("write_failures")),
            counter(f"{PREFIX}_read", "Lessons that it read.", number("read")),
            counter(f"{PREFIX}_failures", "Exchanges that failed.", number("failures")),
            counter(f"{PREFIX}_without_room", "Prefixes told that had no room.", self._without_room),
            gauge(f"{PREFIX}_namesakes", "Other services that write as this host.", number("namesakes")),
            labelled(
                f"{PREFIX}_refused", "counter", "Values of a host that no rewards lead to.", "host",
                by_host("refused"),
            ),
            labelled(
                f"{PREFIX}_disagrees", "gauge", "1 for a host that disagrees with all others.", "host",
                by_host("disagrees"),
            ),
        ]  # fmt: skip

    def _lessons(self, params: Params) -> JsonList:
        """The lessons of prefixes with traffic since an earlier answer, and the cursor for the next one."""
        visits = self._daemon.engine.visits
        since = _cursor(params.get("since"), self._epoch)
        model, now_s = self._model(), time.time()
        if visits is None:
            return JsonList(iter(()), "lessons", {"learn": False, "model": model, "cursor": None})
        cursor = f"{self._epoch}:{visits.lesson}"
        numbers, effects = visits.lessons(since, now_s)
        rest: dict[str, Json] = {"learn": True, "model": model, "cursor": cursor}
        return JsonList(_each_lesson(visits, numbers.tolist(), effects, self._daemon.names), "lessons", rest)

    def _tell(self, params: Params) -> Json:
        """Take over the knowledge of other hosts and the state of the fleet service. With an error, nothing
        is taken over.
        """
        visits = self._daemon.engine.visits
        lessons, status, hosts = (params.get(name) for name in ("lessons", "status", "hosts"))
        known = {name: arm for arm, name in self._daemon.names.items()}
        places = {} if visits is None else {arm: place for place, arm in enumerate(visits.arms.tolist())}
        word = _Word.of(
            [] if lessons is None else lessons, {n: places[a] for n, a in known.items() if a in places}
        )
        told_status = None if status is None else _like(status, _STATUS, "status")
        told_hosts = None if hosts is None else _hosts(hosts)
        if visits is not None and len(word.keys):
            self._without_room += visits.tell(word.keys, word.effects, word.hosts, time.time())
            for prefix, sources in word.sources.items():
                self._sources.pop(prefix, None)
                self._sources[prefix] = sources
            while len(self._sources) > SOURCES_MAX:
                del self._sources[next(iter(self._sources))]
        if told_status is not None:
            self._status, self._heard_s = told_status, time.monotonic()
        if told_hosts is not None:
            self._hosts, self._hosts_s = told_hosts, time.monotonic()
        return {"learn": visits is not None}

    def _get(self, _: Params) -> Json:
        visits = self._daemon.engine.visits
        prefixes: list[Json] = []
        if visits is not None:
            numbers, now_s = visits.told(LIMIT), time.time()
            for number, state in zip(numbers.tolist(), visits.of(numbers, now_s), strict=True):
                prefixes.append({
                    "prefix": state.prefix,
                    "hosts": int(visits.learner.site.hosts[number]),
                    "from": list(self._sources.get(state.prefix, [])),
                    "age_s": round(max(now_s - float(visits.learner.site.told_s[number]), 0.0), 3),
                    "visits": state.visits,
                    "effects": effects_json(state, self._daemon.names),
                })  # fmt: skip
        # The age of the report grows while the service is silent.
        since_s = time.monotonic() - self._hosts_s
        hosts: list[Json] = [
            {**host, "age_s": round(cast("float", host["age_s"]) + since_s, 3)} for host in self._hosts
        ]
        return {**self._summary(), "hosts": hosts, "prefixes": prefixes}

    def _summary(self) -> dict[str, Json]:
        silent_s = time.monotonic() - self._heard_s
        running = silent_s < SILENT_S
        visits = self._daemon.engine.visits
        lag_s = cast("float", self._status["lag_s"]) + silent_s if np.isfinite(silent_s) else 0.0
        return {
            **self._status,
            "share": self._daemon.config.fleet.share == "on",
            "running": running,
            "reachable": running and self._status["reachable"],
            "lag_s": round(lag_s, 3),
            "told": 0 if visits is None else int(visits.learner.site.knows(visits.prefixes.numbers()).sum()),
            "without_room": self._without_room,
        }

    def _model(self) -> int:
        """A number that identifies the decision, which is the base of all effects. It depends on the policy,
        the policy's settings, the pool, the default arm and the encoder.

        A new release has the same number, although its rule may differ somewhat. So knowledge outlives
        upgrades.
        """
        config, chooser = self._daemon.config, self._daemon.engine.chooser
        settings = config.rule if config.daemon.policy == "rule" else config.learning
        pool = sorted(self._daemon.names[arm] for arm in chooser.pool)
        # With an encoder LinUCB decides, over the rule or alone.
        learned = (chooser.encoder, config.rule) if chooser.encoder else ()
        return model_version(config.daemon.policy, settings, pool, config.kernel.default_arm, *learned)


class _Word:
    """The knowledge of other hosts, after a check."""

    def __init__(self, keys: np.ndarray, effects: Effects, hosts: np.ndarray) -> None:
        self.keys, self.effects, self.hosts = keys, effects, hosts
        self.sources: dict[str, list[Json]] = {}

    @classmethod
    def of(cls, lessons: Json, places: Mapping[str, int]) -> _Word:
        """Check the lessons of a request. Raises `InvalidValueError`. `places` has the index of each arm that
        counts, by name.
        """
        if not isinstance(lessons, list):
            raise InvalidValueError("lessons", lessons, "a list")
        size, arms = len(lessons), max(places.values(), default=0) + 1
        made = cls(
            np.zeros(size, PREFIX_KEY),
            Effects(np.zeros((size, arms)), np.full((size, arms), np.inf)),
            np.zeros(size, np.int64),
        )
        for row, lesson in enumerate(lessons):
            field = f"lessons[{row}]"
            if not isinstance(lesson, dict) or set(lesson) != {"prefix", "from", "arms"}:
                raise InvalidValueError(field, lesson, "an object with prefix, from and arms")
            prefix, sources, told = lesson["prefix"], lesson["from"], lesson["arms"]
            if not isinstance(prefix, str) or prefix in made.sources:
                raise InvalidValueError(f"{field}.prefix", prefix, "a prefix, each once")
            key = prefix_key(prefix)
            if prefix_text(key) != prefix:
                raise InvalidValueError(f"{field}.prefix", prefix, f"the text {prefix_text(key)}")
            if not isinstance(sources, list) or not all(_is_name(name) for name in sources):
                raise InvalidValueError(f"{field}.from", sources, "a list of hosts' names")
            if not isinstance(told, dict):
                raise InvalidValueError(f"{field}.arms", told, "an object")
            made.keys[row], made.hosts[row] = key, len(sources)
            made.sources[prefix] = sources
            for name, pair in told.items():
                mean, variance = _pair(pair, f"{field}.arms.{name}")
                if name in places:
                    made.effects.mean[row, places[name]] = mean
                    made.effects.variance[row, places[name]] = variance
        return made


def _each_lesson(
    visits: LiveLearner, numbers: Sequence[int], effects: Effects, names: Mapping[int, str]
) -> Iterator[Json]:
    arms = [names[arm] for arm in visits.arms[1:].tolist()]
    texts = [visits.prefixes.texts[number] for number in numbers]
    seen = visits.learner.posteriors.visits[np.array(numbers, np.int64)].tolist()
    for row, (text, count) in enumerate(zip(texts, seen, strict=True)):
        pairs = zip(arms, effects.mean[row, 1:].tolist(), effects.variance[row, 1:].tolist(), strict=True)
        told: dict[str, Json] = {arm: [mean, spread] for arm, mean, spread in pairs if np.isfinite(spread)}
        yield {"prefix": text, "visits": count, "arms": told}


def _cursor(text: Json, epoch: int) -> int:
    """The number of the lesson after which the answer begins. It is -1 for all lessons, also if the daemon
    has been restarted since.
    """
    if text is None:
        return -1
    if not isinstance(text, str) or len(text) > 64:
        raise InvalidValueError("since", text, "the cursor of an earlier answer")
    of, _, number = text.partition(":")
    return int(number) if of == str(epoch) and number.isascii() and number.isdigit() else -1


def _pair(pair: Json, field: str) -> tuple[float, float]:
    allowed = f"a list of mean and variance, at most {EFFECT_MAX:g} from 0 and above 0 to {VARIANCE_MAX:g}"
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidValueError(field, pair, allowed)
    mean, variance = pair
    if not (_is_number(mean) and _is_number(variance)):
        raise InvalidValueError(field, pair, allowed)
    found = float(cast("float", mean)), float(cast("float", variance))
    if not (abs(found[0]) <= EFFECT_MAX and 0 < found[1] <= VARIANCE_MAX):
        raise InvalidValueError(field, pair, allowed)
    return found


def _hosts(hosts: Json) -> list[dict[str, Json]]:
    if not isinstance(hosts, list) or len(hosts) > HOSTS_MAX:
        raise InvalidValueError("hosts", hosts, f"a list of at most {HOSTS_MAX} hosts")
    found = [_like(host, _HOST, f"hosts[{place}]") for place, host in enumerate(hosts)]
    names = [host["name"] for host in found]
    if not all(_is_name(name) for name in names) or len(set(map(str, names))) < len(names):
        raise InvalidValueError("hosts", names, "hosts with names, each once")
    return found


def _like(told: Json, pattern: Mapping[str, Json], field: str) -> dict[str, Json]:
    """An object with the members of `pattern`, of the same types. Raises `InvalidValueError`."""
    if not isinstance(told, dict) or told.keys() != pattern.keys():
        raise InvalidValueError(field, told, f"an object with {', '.join(pattern)}")
    for name, like in pattern.items():
        value = told[name]
        fits = (
            (_is_number(value) and cast("float", value) >= 0)
            if _is_number(like)
            else type(value) is type(like)
        )
        if not fits or (isinstance(value, str) and len(value) > 256):
            kind = "a number of at least 0" if _is_number(like) else f"a {type(like).__name__}"
            raise InvalidValueError(f"{field}.{name}", value, kind)
    return told


def _is_name(value: Json) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
