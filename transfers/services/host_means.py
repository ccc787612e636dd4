"""What a host must have before anything is planned to be packed there."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from inventory.models import Host
from inventory.selectors import has_no_shell, known_report
from transfers.models import Mode


def need_means(host: Host, mode: str) -> None:
    """See that a pack of this mode can be made there, as far as the last probe knows. Raises ValidationError."""
    need_shell(host)
    report = known_report(host)
    if report is None:
        return
    if not report.has_sha256 or not report.has_stat_format:
        raise ValidationError(
            _(
                "%(host)s has no sha256sum or no usable stat, so no pack of it can be proven. Nothing was planned. "
                "Install coreutils or BusyBox there, and probe the host again."
            )
            % {"host": host.name}
        )
    if mode == Mode.ARCHIVE and not report.has_tar_list:
        raise ValidationError(
            _(
                "No archive can be made on %(host)s: its tar takes no exact lists of names. Choose the mode “files”, "
                "or install GNU tar there and probe the host again."
            )
            % {"host": host.name}
        )


def need_shell(host: Host) -> None:
    """See that the host gives a shell, as far as the last probe knows. Raises ValidationError."""
    if has_no_shell(host):
        raise ValidationError(
            _(
                "The account on %(host)s has SFTP only. No pack of it can be proven: its digests must be taken on the "
                "host, before anything is fetched, and that takes a shell. Nothing was planned. Give the account "
                "/bin/sh without a forced command, and probe the host again."
            )
            % {"host": host.name}
        )
