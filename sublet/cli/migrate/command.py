"""`sublet migrate`: how workloads of a cluster or of manifests would be read, and what must go first."""

import argparse
import asyncio
from collections.abc import Sequence

from sublet.cli import asking, reaching
from sublet.cli.commands import Commands
from sublet.cli.manifest import read_objects
from sublet.cli.migrate.report import (
    COMPONENTS,
    WORKLOADS,
    closing,
    component_rows,
    document,
    report,
    workload_rows,
)
from sublet.cli.output import add_output, print_json, print_table
from sublet.contract.dialects.interface import IN_A_CLUSTER
from sublet.contract.podspec import Json

AGAINST = 1


def register(commands: Commands) -> None:
    parser = commands.add_parser("migrate", help="what coming to Sublet would mean", description=__doc__)
    asking.add_arguments(parser, required=False, default=IN_A_CLUSTER)
    reaching.add_kube(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    objects = read_objects(arguments.files) if arguments.files else asyncio.run(_read(arguments))
    told = report(objects, asking.options_of(arguments))
    if arguments.output == "json":
        print_json(document(told))
    else:
        if told.readings:
            print_table(WORKLOADS, workload_rows(told))
            print()
        if told.components:
            print_table(COMPONENTS, component_rows(told))
            print()
        print("\n".join(closing(told, of_files=bool(arguments.files))))
    return AGAINST if told.against else 0


async def _read(arguments: argparse.Namespace) -> Sequence[Json]:
    from sublet.cli.migrate.live import read_cluster

    reaching.quiet_log()
    async with reaching.open_kube(arguments) as kube:
        return await read_cluster(kube)
