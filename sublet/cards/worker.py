"""Runs blocking driver calls in one thread of their own, each with a time limit.

A wedged driver blocks inside the kernel, where nothing can cancel it. A thread that holds such a call is
left behind, never joined, and another takes its place; nothing is asked again about the same thing before
its stuck call has returned, so that one bad card costs one thread.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from sublet.model.errors import Unavailable

Result = TypeVar("Result")
Job = Callable[[], None]

STUCK_THREADS = 4

log = structlog.get_logger()


class Stuck(Unavailable):
    """The driver did not answer in time; the call may still be under way."""


class Worker:
    """At most one call is under way, besides at most `STUCK_THREADS` that do not return."""

    def __init__(self, *, limit_s: float) -> None:
        self._limit_s = limit_s
        self._one_at_a_time = asyncio.Lock()
        self._inbox: queue.SimpleQueue[Job | None] | None = None
        self._stuck: set[str] = set()
        self._closed = False

    @property
    def stuck(self) -> frozenset[str]:
        """What calls that have not returned are about."""
        return frozenset(self._stuck)

    async def call(self, work: Callable[[], Result], *, about: str, within_s: float | None = None) -> Result:
        """Run `work` in the thread; `about` names what it touches, `within_s` is another limit than usual.

        Raises:
            Stuck: no answer within the limit, or the last call about the same has not returned yet.
        """
        async with self._one_at_a_time:
            if self._closed:
                raise Stuck("the driver is closed")
            if about in self._stuck or len(self._stuck) >= STUCK_THREADS:
                raise Stuck(f"the driver still holds a call about {about}")
            limit_s = self._limit_s if within_s is None else within_s
            answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            self._thread().put(self._job(work, about, answer))
            try:
                async with asyncio.timeout(limit_s):
                    return await answer
            except TimeoutError:
                self._abandon(about, limit_s)
                raise Stuck(f"no answer about {about} within {limit_s} s") from None

    def _thread(self) -> queue.SimpleQueue[Job | None]:
        if self._inbox is None:
            self._inbox = queue.SimpleQueue()
            threading.Thread(target=_work_off, args=(self._inbox,), name="nvml-calls", daemon=True).start()
        return self._inbox

    def _job(self, work: Callable[[], Result], about: str, answer: asyncio.Future[Result]) -> Job:
        loop = asyncio.get_running_loop()

        def settle(result: Result | None, error: Exception | None) -> None:
            if about in self._stuck:
                self._stuck.discard(about)
                log.info("nvml.call_returned", about=about)
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]  # None only with an error

        def job() -> None:
            result, failure = None, None
            try:
                result = work()
            except Exception as error:  # noqa: BLE001  # the caller gets it
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop may be gone when a stuck call returns
                loop.call_soon_threadsafe(settle, result, failure)

        return job

    def _abandon(self, about: str, limit_s: float) -> None:
        self._stuck.add(about)
        self._end_thread()
        log.warning("nvml.call_stuck", about=about, limit_s=limit_s, stuck=len(self._stuck))

    def _end_thread(self) -> None:
        if self._inbox is not None:
            self._inbox.put(None)
            self._inbox = None

    def close(self) -> None:
        """Let the thread end after what it is doing; every further call is `Stuck`."""
        self._closed = True
        self._end_thread()


def _work_off(inbox: queue.SimpleQueue[Job | None]) -> None:
    while (job := inbox.get()) is not None:
        job()
