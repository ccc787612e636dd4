"""What a host must have before anything is planned to be packed there."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from inventory.models import Host
from inventory.selectors import has_no_shell


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
