"""structlog as every service writes it: events with keys, JSON unless a person watches."""

import logging
import sys
from functools import partial
from json import JSONEncoder

import structlog
from structlog.typing import EventDict


def configure(service: str, *, level: str = "info", json: bool | None = None) -> None:
    """Set up structlog and route foreign loggers (aiohttp, nats) through it.

    `json` None means: JSON unless standard error is a terminal.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        partial(_of, service),
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(_encoded) if as_json else structlog.dev.ConsoleRenderer()
    )
    errors: list[structlog.typing.Processor] = [structlog.processors.format_exc_info] if as_json else []
    structlog.configure(
        processors=[*shared, *errors, render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *errors, render],
        )
    )
    root = logging.getLogger()
    root.handlers = [foreign]
    root.setLevel(max(number, logging.WARNING))


def warn_only() -> None:
    """In a program that did not set structlog up, log warnings alone, and on standard error."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            cache_logger_on_first_use=False,
        )


_encode = JSONEncoder(default=repr).encode
"""One for all lines: json.dumps makes a new encoder for each."""


def _encoded(event: EventDict, **_: object) -> str:
    return _encode(event)


def _of(service: str, _logger: object, _method: str, event: EventDict) -> EventDict:
    """Not bound as a context variable, which a thread that is not asyncio's own would not have."""
    return {"service": service, **event}
