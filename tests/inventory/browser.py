"""Sending the forms of a page as a browser does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.test import Client

from calculet.people.models import Person

SignedIn = Callable[[Person], Client]
HTMX = {"HX-Request": "true"}


def key_of(client: Client, address: str) -> str:
    """A fresh key of a form on a page."""
    found = re.search(r'name="act_key" value="([^"]+)"', client.get(address).text)
    assert found is not None, f"{address} has no form with a key"
    return found.group(1)


def act_of(client: Client, page: str, target: str, /, **values: Any) -> Any:
    """Send a form with the key of a page that has one; follows to the page after."""
    return client.post(target, {"act_key": key_of(client, page), **values}, follow=True)
