"""`python -m sublet.demo.apiserver --port 0 --kubeconfig FILE`: the embedded server as its own process.

It writes the kubeconfig once it answers, then prints its address and serves until SIGTERM or SIGINT.
"""

import argparse
import asyncio
import signal
from pathlib import Path

from sublet.demo.apiserver.server import serve_api


async def serve(port: int, kubeconfig: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve_api(port=port) as server:
        server.write_kubeconfig(kubeconfig)
        print(server.url, flush=True)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sublet.demo.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="where to write how to reach it")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.port, arguments.kubeconfig))


if __name__ == "__main__":
    main()
