"""Opens what the settings say knows the cards. A vendor's code is imported on demand: a simulated node never
loads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sublet.cards.port import CardReader, CardSource
from sublet.cards.together import Together
from sublet.model.ids import NodeName
from sublet_agent.settings import Settings, Source


@dataclass(frozen=True, slots=True)
class Origins:
    """`reader` shows all cards of the node; each of `sources` tells how its own are."""

    reader: CardReader
    sources: tuple[CardSource, ...]

    @classmethod
    def of(cls, source: CardSource) -> Origins:
        return cls(source, (source,))


@asynccontextmanager
async def open_origins(settings: Settings) -> AsyncIterator[Origins]:
    async with AsyncExitStack() as held:
        sources = tuple(_sources(settings))
        for source in sources:
            held.push_async_callback(source.close)
        if len(sources) == 1:
            yield Origins.of(sources[0])
        else:
            yield Origins(Together(sources, poll_s=settings.poll_s), sources)


def _sources(settings: Settings) -> list[CardSource]:
    match settings.cards:
        case Source.FILE:
            return [_file(settings)]
        case Source.NVML:
            return [_nvidia(settings)]
        case Source.AMD:
            return [_amd(settings)]
        case Source.AUTO:
            return [_nvidia(settings), _amd(settings)]


def _file(settings: Settings) -> CardSource:
    from sublet.cards.file import FileCards

    return FileCards(
        node=NodeName(settings.node),
        inventory=Path(settings.inventory),
        signals=Path(settings.signals) if settings.signals else None,
        dev_root=Path(settings.dev_root),
        capabilities=Path(settings.mig_capabilities),
        probe_s=settings.poll_s,
    )


def _nvidia(settings: Settings) -> CardSource:
    from sublet.cards.nvml import NvmlCards

    return NvmlCards(
        library=settings.nvml_library,
        driver_root=Path(settings.driver_root),
        dev_root=Path(settings.dev_root),
        sysfs_root=Path(settings.sysfs_root),
        capabilities=Path(settings.mig_capabilities),
        call_limit_s=settings.nvml_call_limit_s,
        poll_s=settings.poll_s,
    )


def _amd(settings: Settings) -> CardSource:
    from sublet.cards.amd import AmdCards

    return AmdCards(
        sysfs_root=Path(settings.sysfs_root),
        dev_root=Path(settings.dev_root),
        exporter=Path(settings.amd_exporter),
        call_limit_s=settings.nvml_call_limit_s,
        poll_s=settings.poll_s,
    )
