"""A server of another origin that records the requests of pages."""

from __future__ import annotations

import base64
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


class OtherOrigin:
    """It has a picture at every path.

    Attributes:
        host: Its name and port.
        url: Its address, without a slash at the end.
        asked: The paths that were asked for, in order.
    """

    def __init__(self) -> None:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "image/png")
                self.send_header("Content-Length", str(len(_DOT)))
                self.end_headers()
                self.wfile.write(_DOT)

            def log_message(self, *_: object) -> None:  # pyrefly: ignore[bad-override]
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.asked = asked
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    @contextmanager
    def running(self) -> Generator[OtherOrigin]:
        """Answers until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
