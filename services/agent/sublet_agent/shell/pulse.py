"""Whether the agent's loops still turn; a heartbeat that says so though they do not would be a lie."""

from collections.abc import Callable


class Pulse:
    def __init__(self, names: tuple[str, ...], *, clock: Callable[[], float], limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._last = dict.fromkeys(names, clock())

    def of(self, name: str) -> Callable[[], None]:
        def beat() -> None:
            self._last[name] = self._clock()

        return beat

    def still(self) -> list[str]:
        """The loops that have not turned for longer than they may."""
        now = self._clock()
        return [name for name, at in self._last.items() if now - at > self._limit_s]
