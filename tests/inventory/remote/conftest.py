"""What the tests of the remote side share: BusyBox's applets, laid out once."""

from __future__ import annotations

import pytest

from tests.parts import need
from tests.sshd import busybox_folder


@pytest.fixture(scope="session")
def busybox_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with nothing but BusyBox."""
    need("busybox")
    return str(busybox_folder(tmp_path_factory.mktemp("busybox") / "applets"))
