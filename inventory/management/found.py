"""For the inventory's commands: rows by the names that were typed."""

from __future__ import annotations

from django.core.management.base import CommandError

from inventory.models import Host, Resource


def host_named(name: str) -> Host:
    """The host of that name. Raises CommandError with a sentence that lists the names there are."""
    host = Host.objects.filter(name=name).first()
    if host is None:
        names = ", ".join(Host.objects.values_list("name", flat=True)) or "none yet; add one with add_host"
        raise CommandError(f"There is no host called “{name}”. Nothing was changed. Hosts: {names}.")
    return host


def resource_named(host: Host, name: str) -> Resource:
    """The host's resource of that name. Raises CommandError with a sentence that lists the names there are."""
    resource = Resource.objects.filter(host=host, name=name).first()
    if resource is None:
        known = Resource.objects.filter(host=host).values_list("name", flat=True)
        names = ", ".join(f"“{found}”" for found in known) or "none yet; load a plan file or add one in the browser"
        raise CommandError(
            f"The host “{host}” has no resource called “{name}”. Nothing was changed. Resources: {names}."
        )
    return resource
