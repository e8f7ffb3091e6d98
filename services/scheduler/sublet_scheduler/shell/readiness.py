"""Whether the API server may send us pods. The bus is no part of it: without it pods are held."""

from collections.abc import Callable


class Readiness:
    def __init__(self) -> None:
        self._needs: dict[str, Callable[[], bool]] = {}
        self._serving: str = "the webhook does not listen yet"

    def need(self, otherwise: str, met: Callable[[], bool]) -> None:
        """One more thing that must hold; `otherwise` says what is wrong while it does not."""
        self._needs[otherwise] = met

    def begin(self) -> None:
        self._serving = ""

    def end(self) -> None:
        self._serving = "stopping"

    def against(self) -> list[str]:
        """What stands against being ready; empty = ready."""
        serving = [self._serving] if self._serving else []
        return serving + [otherwise for otherwise, met in self._needs.items() if not met()]
