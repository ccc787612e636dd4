"""Anchors by webhook and mail: what arrives, and what is said when it does not."""

from __future__ import annotations

import http.server
import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from calculet.audit.anchoring import anchor_run, anchors_due, line_of
from calculet.audit.anchors import anchors_read
from calculet.audit.models import Anchor
from tests.calculet.audit.conftest import today

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


class _Taker(http.server.BaseHTTPRequestHandler):
    status = 204
    taken: list[tuple[str, str | None, dict[str, Any]]]

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.append((self.path, self.headers["Authorization"], said))
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        """Tests are quiet."""


class _Mailbox(socketserver.StreamRequestHandler):
    mails: list[str]

    def handle(self) -> None:
        """As much of SMTP as one mail needs."""
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            if line.upper().startswith(b"DATA"):
                self.wfile.write(b"354 go on\r\n")
                text = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    text += part
                self.mails.append(text.decode())
            self.wfile.write(b"250 good\r\n" if not line.upper().startswith(b"QUIT") else b"221 bye\r\n")


@pytest.fixture
def serve() -> Iterator[Callable[[type[socketserver.BaseRequestHandler]], int]]:
    """Serve a handler in a thread; returns the port."""
    servers = []

    def start(handler: type[socketserver.BaseRequestHandler]) -> int:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def private(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_an_anchor_is_posted_and_mailed(
    chain: None, settings: Settings, tmp_path: Path, serve: Callable[..., int]
) -> None:
    taker = type("Taker", (_Taker,), {"taken": []})
    mailbox = type("Mailbox", (_Mailbox,), {"mails": []})
    address = f"http://127.0.0.1:{serve(taker)}/hook?secret=1\nBearer word\n"
    settings.ANCHOR_WEBHOOK_FILE = private(tmp_path / "webhook", address)
    settings.ANCHOR_MAIL_FILE = private(tmp_path / "mail", f"smtp://127.0.0.1:{serve(mailbox)}")
    settings.ANCHOR_MAIL_TO = ["audit@example.org"]
    anchor_run(today())
    anchor = Anchor.objects.get()
    assert anchor.problem == "" and anchor.posted_at is not None and anchor.mailed_at is not None
    [(path, word, said)] = taker.taken  # type: ignore[attr-defined]
    assert (path, word) == ("/hook?secret=1", "Bearer word")
    assert (said["sequence"], said["hash"], said["line"]) == (5, anchor.hash, str(line_of(anchor)))
    [text] = mailbox.mails  # type: ignore[attr-defined]
    assert anchor.hash in text.replace("=\r\n", "") and "audit@example.org" in text


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_refuses_is_told_without_its_secret_and_tried_again_alone(
    chain: None, settings: Settings, tmp_path: Path, serve: Callable[..., int], file: Path, status: int
) -> None:
    taker = type("Taker", (_Taker,), {"taken": [], "status": status})
    settings.ANCHOR_WEBHOOK_FILE = private(tmp_path / "webhook", f"http://127.0.0.1:{serve(taker)}/hook?secret=1")
    anchor_run(today())
    anchor = Anchor.objects.get()
    assert "the webhook: 127.0.0.1 did not take it" in anchor.problem and "secret" not in anchor.problem
    assert anchor.written_at is not None and anchor.not_before is not None and anchors_due() == []
    taker.status = 200  # type: ignore[attr-defined]
    Anchor.objects.update(not_before=timezone.now())
    anchor_run(today())
    assert Anchor.objects.get().problem == "" and len(taker.taken) == 2  # type: ignore[attr-defined]
    assert len(anchors_read(file)) == 1


@pytest.mark.parametrize("content", ["", "file:///etc/passwd", "ftp://example.org/"])
def test_a_webhook_goes_over_http_alone(chain: None, settings: Settings, tmp_path: Path, content: str) -> None:
    settings.ANCHOR_WEBHOOK_FILE = private(tmp_path / "webhook", content)
    anchor_run(today())
    assert "does not begin with an https:// address" in Anchor.objects.get().problem


def test_a_private_file_that_is_a_pipe_does_not_hang(chain: None, settings: Settings, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    settings.ANCHOR_WEBHOOK_FILE = str(tmp_path / "pipe")
    anchor_run(today())
    assert "it is no plain file" in Anchor.objects.get().problem
