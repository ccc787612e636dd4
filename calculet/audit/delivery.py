"""Brings an anchor out of the installation: to the file, to a webhook, by mail. No transaction is open meanwhile."""

from __future__ import annotations

import json
import smtplib
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import environ
from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from calculet.audit.anchors import AnchorFileWrong, AnchorLine, anchor_append
from calculet.audit.chain import time_text
from calculet.audit.walks import anchor_file
from calculet.private_files import PrivateFileWrong, private_lines

PATIENCE_SECONDS = 20


class NotDelivered(Exception):
    """An anchor did not get somewhere. `where` says where, `reason` why."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would carry the Authorization header to whoever it names."""

    def redirect_request(self, *_request: Any) -> None:
        return None


def write(anchor: AnchorLine) -> None:
    """Add the anchor to the file, once. Raises NotDelivered."""
    path = anchor_file()
    folder = path.parent
    try:
        if folder.is_relative_to(settings.DATA_DIR):
            folder.mkdir(mode=0o755, exist_ok=True)
        if not folder.is_dir():
            raise NotDelivered("the file", f"the folder “{folder}” is not there; mount its disk, or make it")
        anchor_append(path, str(anchor))
    except (AnchorFileWrong, OSError) as error:
        raise NotDelivered("the file", str(error)) from error


def post(anchor: AnchorLine) -> None:
    """Post the anchor as JSON. Raises NotDelivered."""
    try:
        lines = private_lines(Path(settings.ANCHOR_WEBHOOK_FILE), what="the webhook's address")
    except PrivateFileWrong as error:
        raise NotDelivered("the webhook", str(error)) from error
    if not lines or urlsplit(lines[0]).scheme not in {"http", "https"}:
        raise NotDelivered("the webhook", f"“{settings.ANCHOR_WEBHOOK_FILE}” does not begin with an https:// address.")
    said = {"at": time_text(anchor.at), "sequence": anchor.sequence, "hash": anchor.hash, "line": str(anchor)}
    headers = {"Content-Type": "application/json", **({"Authorization": lines[1]} if len(lines) > 1 else {})}
    try:
        # The scheme was looked at above: no file: or other scheme gets here.
        request = Request(lines[0], data=json.dumps(said).encode(), headers=headers)  # noqa: S310
        with build_opener(_NoRedirects).open(request, timeout=PATIENCE_SECONDS):
            pass  # any answer of 200 to 299; others are raised
    except (URLError, HTTPException, OSError, ValueError) as error:
        host = urlsplit(lines[0]).hostname  # the rest of the address may be a secret
        raise NotDelivered("the webhook", f"{host} did not take it ({_reason(error)}).") from error


def mail(anchor: AnchorLine) -> None:
    """Mail the anchor. Raises NotDelivered."""
    try:
        lines = private_lines(Path(settings.ANCHOR_MAIL_FILE), what="the mail server")
    except PrivateFileWrong as error:
        raise NotDelivered("mail", str(error)) from error
    if len(lines) != 1 or urlsplit(lines[0]).scheme not in {"smtp", "smtp+tls", "smtp+ssl"}:
        raise NotDelivered("mail", f"“{settings.ANCHOR_MAIL_FILE}” does not hold one line such as smtp+tls://…")
    server = environ.Env.email_url_config(lines[0])
    text = (
        f"{anchor}\n\nThis is the head of the audit log at that time. Keep this mail: with it, "
        "`manage.py verify_audit --anchors FILE` tells whether any event up to it was changed or removed since.\n"
    )
    subject = f"Audit anchor of {anchor.at:%Y-%m-%d}: event {anchor.sequence}"
    try:
        connection = get_connection(
            "django.core.mail.backends.smtp.EmailBackend",
            host=server["EMAIL_HOST"],
            port=server["EMAIL_PORT"] or 25,
            username=server["EMAIL_HOST_USER"] or "",
            password=server["EMAIL_HOST_PASSWORD"] or "",
            use_tls=server.get("EMAIL_USE_TLS", False),
            use_ssl=server.get("EMAIL_USE_SSL", False),
            timeout=PATIENCE_SECONDS,
        )
        EmailMessage(subject, text, settings.ANCHOR_MAIL_FROM, settings.ANCHOR_MAIL_TO, connection=connection).send()
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise NotDelivered("mail", f"the mail server did not take it ({_reason(error)}).") from error


def _reason(error: Exception) -> str:
    """Why, without an address that may hold a secret."""
    found = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(found or type(error).__name__)
