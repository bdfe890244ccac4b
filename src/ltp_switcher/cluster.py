# SPDX-License-Identifier: Apache-2.0
"""Runs pure functions on the workers of a Dask cluster. Each task is named by a hash of all that its result
depends on.

Dask schedules the tasks, notices dead workers and gives their tasks to other workers. The package is imported
only when a cluster is entered. A worker hashes a task's inputs again on its own machine. If this hash differs
from the caller's, the result would differ too. So the worker refuses the task, and the error names both
hashes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from ltp_switcher.errors import ClusterError, ConfigError, LtpSwitcherError, reason

if TYPE_CHECKING:
    from distributed import Future

RETRIES: Final = 2
"""Number of times that a failed task is tried again."""
CONNECT_S: Final = 30
_NEWS_S: Final = 0.5
"""Least time in seconds between two reports of a task's progress."""
_STEALING: Final = "distributed.scheduler.work-stealing"
_TLS: Final = "distributed.comm.tls"

News = TypeVar("News")
NewsGiven = TypeVar("NewsGiven", covariant=True)
Made = TypeVar("Made")
MadeFrom = TypeVar("MadeFrom", covariant=True)
OnNews = Callable[[News], None]


class Task(Protocol[NewsGiven, MadeFrom]):
    """A pure function with its inputs. Tasks, their progress reports and their results are pickled."""

    def fingerprint(self) -> str:
        """The hash of everything that the result depends on, such as inputs and code, as found on this
        machine.
        """

    def make(self, on_news: Callable[[NewsGiven], None], /) -> MadeFrom:
        """Compute the result, and report the progress to `on_news` meanwhile."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The reason why a worker did not begin with a task."""

    reason: str


class Cluster:
    """A connection to a Dask scheduler, used as a context manager. Several threads may share it.

    Attributes:
        slots: number of tasks that the workers could run at once when the connection was made.
    """

    def __init__(self, address: str) -> None:
        """Take the scheduler's address: `tls://HOST:PORT`, or `tcp://HOST:PORT` for a scheduler on this host.

        Raises:
            ConfigError: the address has neither form.
        """
        self.slots = 0
        self._futures: set[Future[object]] = set()
        self._address = address if "://" in address else f"tcp://{address}"
        parts = urlsplit(self._address)
        with contextlib.suppress(ValueError):
            if parts.hostname and parts.port and _is_private(self._address):
                return
        raise ConfigError(
            "--cluster", address, "tls://HOST:PORT, or tcp://127.0.0.1:PORT for a scheduler on this host"
        )

    def __enter__(self) -> Cluster:
        """Connect to the scheduler.

        Raises:
            ConfigError: Dask, or the files for TLS, are not there.
            ClusterError: the scheduler cannot be reached, moves tasks between workers, or has no worker.
        """
        try:
            import dask
            import distributed
        except ModuleNotFoundError as error:
            allowed = "with Dask installed: `pip install 'ltp-switcher[cluster]'`"
            raise ConfigError("--cluster", self._address, allowed) from error
        encrypted = self._address.startswith("tls:")
        if encrypted and not dask.config.get(f"{_TLS}.ca-file", None):
            allowed = f"with Dask's settings {_TLS}.ca-file, {_TLS}.client.cert and {_TLS}.client.key"
            raise ConfigError("--cluster", self._address, allowed)
        try:
            self._client = distributed.Client(
                self._address,
                security=distributed.Security(require_encryption=encrypted),
                timeout=CONNECT_S,
                set_as_default=False,
            )
        except (OSError, TypeError, RuntimeError) as error:
            raise ClusterError(
                f"no scheduler of Dask answers at {self._address}: {reason(error)}. "
                "`dask scheduler` starts one."
            ) from error
        try:
            if self._client.run_on_scheduler(dask.config.get, _STEALING):
                raise ClusterError(
                    f"the scheduler at {self._address} moves tasks between workers. Start it with "
                    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING=False."
                )
            workers = self._client.scheduler_info()["workers"].values()
            self.slots = sum(worker["nthreads"] for worker in workers)
            if not self.slots:
                raise ClusterError(
                    f"no worker has joined {self._address}. Start some: "
                    f"`dask worker {self._address} --nthreads 1`."
                )
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def make(self, task: Task[News, Made], on_begin: Callable[[], None], on_news: OnNews[News]) -> Made:
        """Return the result of a task, which one of the workers computes.

        If other threads ask for the same task meanwhile, they get the same result.

        Args:
            task: the task.
            on_begin: function that is called in another thread each time a worker begins with the task.
            on_news: function that is called in another thread with each progress report of the task.

        Raises:
            ClusterError: a worker refuses the task, the task failed, or it took several workers down.
            LtpSwitcherError: the hash of the task's inputs cannot be computed; see `Task.fingerprint`.
        """
        import distributed

        fingerprint = task.fingerprint()
        topic = f"ltp-{fingerprint}"

        def tell(event: tuple[float, bytes]) -> None:
            news = distributed.protocol.pickle.loads(event[1])
            if news is None:
                on_begin()
            else:
                on_news(news)

        self._client.subscribe_topic(topic, tell)
        future = self._client.submit(_work, task, fingerprint, topic, key=topic, retries=RETRIES, pure=False)
        self._futures.add(future)
        try:
            made = cast("Made | _Refusal", future.result())
        except LtpSwitcherError:
            raise
        except Exception as error:
            # This error is Dask's own: the workers died, the scheduler was lost, or the function could not be
            # sent.
            raise ClusterError(f"the cluster at {self._address} did not make it: {error}") from error
        finally:
            self._futures.discard(future)
            # The traceback of an error would hold the future, and then nobody could ask for the task again.
            future.release()
            self._client.unsubscribe_topic(topic)
        if isinstance(made, _Refusal):
            raise ClusterError(made.reason)
        return made

    def stop(self) -> None:
        """Give up all tasks. Threads that wait in `make` get an error, and the workers stop soon."""
        self._client.cancel(list(self._futures), force=True)


def _work(task: Task[News, Made], fingerprint: str, topic: str) -> Made | _Refusal:
    """Make a task's result on a worker."""
    import distributed

    worker = distributed.get_worker()
    where = f"the worker {worker.address} on {socket.gethostname()}"
    if not _is_private(worker.address):
        return _Refusal(f"{where} is reached without TLS from other hosts; start it with tls://")
    key = worker.get_current_task()
    told_s = -_NEWS_S

    def tell(news: News | None) -> None:
        nonlocal told_s
        state = worker.state.tasks.get(key)
        if state is None or state.state == "cancelled":
            raise ClusterError("stopped")
        if time.monotonic() - told_s >= _NEWS_S:
            told_s = time.monotonic()
            worker.log_event(topic, distributed.protocol.pickle.dumps(news))

    try:
        own = task.fingerprint()
        if own != fingerprint:
            return _Refusal(
                f"{where} gives this task the fingerprint {own}, this machine {fingerprint}: checkout, "
                "kernel or tools differ. Bring both to the same state, and stop the worker until then."
            )
        tell(None)
        return task.make(tell)
    except LtpSwitcherError as error:
        # Other exceptions of this project cannot be pickled.
        raise ClusterError(f"{where}: {error}") from error


def _is_private(address: str) -> bool:
    """Whether traffic to this address stays private: the address has TLS, or is on this host."""
    parts = urlsplit(address)
    if parts.scheme == "tls":
        return True
    with contextlib.suppress(ValueError):
        of_host = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
        return parts.scheme == "tcp" and of_host
    return False
