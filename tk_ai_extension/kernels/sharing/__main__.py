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

from tk_ai_extension.kernels.sharing.kernelspec import LOG
from tk_ai_extension.kernels.sharing.relay import GRACE, Relay
from tk_ai_extension.kernels.sharing.share import Connection, NoConnection, Share

LONGEST_LOG = 1_000_000
"""Bytes of the log above which a starting relay overwrites it."""

PARENT_INTERVAL = 1.0
"""Seconds between checks of the launching process if its end cannot be awaited."""

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
    share = Share.at(arguments.share)
    _log_to(share.folder / LOG)
    try:
        return asyncio.run(_relay(Connection.read(arguments.f), share, arguments.grace))
    except NoConnection as problem:
        log.error("%s", problem)  # noqa: TRY400 - the message is complete
        sys.stderr.write(f"{problem}\n")
        return 1
    except Exception:
        log.exception("The relay failed")
        raise


async def _relay(front: Connection, share: Share, grace: float) -> int:
    share.read()  # fail at once if there is no kernel
    relay = Relay(front, share, grace=grace)
    relay.open()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, relay.interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, relay.stop, f"Received {number.name}.")
    launcher = asyncio.ensure_future(_launcher_ends())
    launcher.add_done_callback(
        lambda task: None if task.cancelled() else relay.stop("The launching program has ended.")
    )
    try:
        ended = await relay.run()
    finally:
        launcher.cancel()
    if ended.code:
        sys.stderr.write(f"{ended.reason}\n")
    return ended.code


async def _launcher_ends() -> None:
    """Wait until the launching program (``JPY_PARENT_PID``, set by jupyter_client) has ended."""
    parent = int(os.environ.get("JPY_PARENT_PID", "0"))
    if parent <= 1 or parent != os.getppid():
        await asyncio.get_running_loop().create_future()
    if hasattr(os, "pidfd_open"):
        ended = asyncio.Event()
        try:
            descriptor = os.pidfd_open(parent)
        except ProcessLookupError:
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    else:
        # Poll: there is no event to wait for.
        while os.getppid() == parent:  # noqa: ASYNC110
            await asyncio.sleep(PARENT_INTERVAL)


def _log_to(path: Path) -> None:
    too_long = path.exists() and path.stat().st_size > LONGEST_LOG
    logging.basicConfig(
        filename=path,
        filemode="w" if too_long else "a",
        level=logging.INFO,
        format=f"%(asctime)s relay {os.getpid()}: %(message)s",
    )
    path.chmod(0o600)


if __name__ == "__main__":
    sys.exit(main())
