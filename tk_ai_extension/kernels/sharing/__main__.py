"""The relay process that the kernelspec's argv starts.

``python -P -m tk_ai_extension.kernels.sharing --share .nb/shared/kernel.json -f CONNECTION_FILE``
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from tk_ai_extension.kernels.sharing.relay import GRACE, Relay
from tk_ai_extension.kernels.sharing.share import LOG, Connection, NoConnection, Share

LONGEST_LOG = 1_000_000
"""Bytes of the log above which a starting relay overwrites it."""

log = logging.getLogger(__name__)


def main() -> int:
    """Relay until the relay is stopped or the kernel is gone; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tk_ai_extension.kernels.sharing")
    parser.add_argument("--share", type=Path, required=True, help="link in .nb/shared")
    parser.add_argument("-f", type=Path, required=True, help="connection file to serve")
    parser.add_argument(
        "--grace", type=float, default=GRACE, help="seconds to wait for a restarted kernel"
    )
    arguments = parser.parse_args()
    share = Share(arguments.share.absolute().parents[1])
    path = share.folder / LOG
    is_long = path.exists() and path.stat().st_size > LONGEST_LOG
    logging.basicConfig(
        filename=path,
        filemode="w" if is_long else "a",
        level=logging.INFO,
        format=f"%(asctime)s relay {os.getpid()}: %(message)s",
    )
    path.chmod(0o600)
    try:
        return asyncio.run(_relay(arguments.f, share, arguments.grace))
    except NoConnection as problem:
        log.error("%s", problem)  # noqa: TRY400 - the message is complete
        sys.stderr.write(f"{problem}\n")
        return 1
    except Exception:
        log.exception("The relay failed")
        raise


async def _relay(front: Path, share: Share, grace: float) -> int:
    connection = Connection.read(front)
    share.read()  # fail at once if there is no kernel
    relay = Relay(connection, share, grace=grace)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, relay.interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, relay.stop, f"Received {number.name}.")
    ending = asyncio.ensure_future(_launcher_ends())
    ending.add_done_callback(
        lambda task: None if task.cancelled() else relay.stop("The launching program has ended.")
    )
    try:
        reason, code = await relay.run()
    finally:
        ending.cancel()
    if code:
        sys.stderr.write(f"{reason}\n")
    return code


async def _launcher_ends() -> None:
    """Wait until the launching program (``JPY_PARENT_PID``, set by jupyter_client) has ended."""
    parent = os.getppid()
    if os.environ.get("JPY_PARENT_PID") != str(parent):
        await asyncio.get_running_loop().create_future()
    # Poll: there is no event to wait for.
    while os.getppid() == parent:  # noqa: ASYNC110
        await asyncio.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
