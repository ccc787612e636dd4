"""The landing follows its setting; what landed before is still known where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from transfers.models import Landing
from transfers.services.landings import landing_default

pytestmark = pytest.mark.django_db


def test_the_landing_is_made_from_the_settings_once() -> None:
    assert landing_default() == landing_default()
    assert Landing.objects.count() == 1


def test_a_changed_setting_makes_another_landing_and_keeps_the_first(settings: Settings, tmp_path: Path) -> None:
    first = landing_default()
    settings.LANDING_DIR = tmp_path / "other disk"
    second = landing_default()
    assert (second.path, second.is_default) == (str(tmp_path / "other disk"), True)
    first.refresh_from_db()
    assert not first.is_default
    settings.LANDING_DIR = Path(first.path)
    assert landing_default() == first


def test_a_landing_that_a_person_chose_is_left(settings: Settings, tmp_path: Path) -> None:
    chosen = Landing.objects.create(name="raid", path="/srv/raid", is_default=True)
    settings.LANDING_DIR = tmp_path
    assert landing_default() == chosen
