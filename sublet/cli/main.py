"""`sublet`, also `kubectl sublet`: one module a command; what a command needs is imported when it runs."""

import argparse
import io
import sys
from collections.abc import Sequence

from sublet import __version__
from sublet.cli import cards, claims, demo, events, explain, place, release, replay
from sublet.cli.errors import Unreadable
from sublet.cli.health import command as health
from sublet.cli.migrate import command as migrate
from sublet.model.errors import SubletError

COMMANDS = (cards, explain, events, claims, place, replay, migrate, health, release, demo)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit 0 when the work was done, 1 when it could not be, 2 for wrong usage or unreadable input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # manifests may name what no terminal can show
            stream.reconfigure(errors="backslashreplace")
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except Unreadable as error:
        return _fail(str(error), 2)
    except SubletError as error:
        return _fail(str(error), 1)
    except ModuleNotFoundError as error:
        return _fail(_missing(arguments, error), 1)
    except BrokenPipeError:  # `sublet ... | head`
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sublet", description="Lets part of a GPU card.")
    parser.add_argument("--version", action="version", version=f"sublet {__version__}")
    parser.set_defaults(extra="")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.register(commands)
    return parser


def _missing(arguments: argparse.Namespace, error: ModuleNotFoundError) -> str:
    if not arguments.extra or (error.name or "").startswith("sublet"):
        raise error
    return (
        f"this command needs an extra that is not installed (there is no module {error.name!r}). "
        f"Install it with: pip install 'sublet[{arguments.extra}]'"
    )


def _fail(message: str, code: int) -> int:
    print(f"sublet: {message}", file=sys.stderr)
    return code
