"""A file server on this machine that can be set to misbehave."""

import hashlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `bodies` by path; requests are recorded in `requests`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []  # path, Range
        self.ranges = True
        self.commit = ""  # of the repositories on a hub; "" for a plain server
        self.cut_after: list[int] = []  # bytes of each coming answer, before the line drops
        self.answers: list[int] = []  # codes of the coming answers, before any file
        self.before_body: Callable[[], None] = lambda: None
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left early is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """As the hub tells of a file: its commit, its size, and a tag that changes with it."""
        body = self.server.bodies.get(self.path)
        if body is None or self.server.answers:
            return self._only(self.server.answers.pop(0) if self.server.answers else 404)
        self.send_response(200)
        tag = hashlib.sha256(body).hexdigest()
        for name, value in (
            ("X-Repo-Commit", self.server.commit), ("ETag", f'"{tag}"'),
            ("Content-Length", str(len(body))),
        ):  # fmt: skip
            self.send_header(name, value)
        return self.end_headers()

    def do_GET(self) -> None:
        byte_range = self.headers.get("Range")
        self.server.requests.append((self.path, byte_range))
        if self.server.answers:
            return self._only(self.server.answers.pop(0))
        if self.path in self.server.redirects:
            return self._only(302, ("Location", self.server.redirects[self.path]))
        if (body := self.server.bodies.get(self.path)) is None:
            return self._only(404)
        start = 0
        if byte_range and self.server.ranges:
            start = int(byte_range.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                return self._only(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.server.before_body()
        rest = body[start:]
        if self.server.cut_after:
            rest = rest[: self.server.cut_after.pop(0)]
            self.close_connection = True
        self.wfile.write(rest)
        return None

    def _only(self, code: int, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for header in (*headers, ("Content-Length", "0")):
            self.send_header(*header)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass
