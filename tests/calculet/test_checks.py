"""What refuses a start, each with its id and a sentence that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.checks import CheckMessage, Error
from pytest_django.fixtures import Settings

from calculet import checks
from tests.settings import BASE_DIR


def ids(found: list[CheckMessage]) -> list[str]:
    assert all(isinstance(message, Error) and message.hint for message in found), "a refusal says what to do"
    return [str(message.id) for message in found]


@pytest.mark.parametrize(
    ("debug", "hosts", "expected"),
    [
        (True, ["localhost", "127.0.0.1", "[::1]"], []),
        (False, ["transfers.example"], []),
        (True, ["localhost", "transfers.example"], ["calculet.E001"]),
        (True, ["*"], ["calculet.E001"]),
    ],
)
def test_debug_is_refused_where_others_may_look(
    settings: Settings, debug: bool, hosts: list[str], expected: list[str]
) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS = debug, hosts
    assert ids(checks.debug_stays_at_home()) == expected


def test_a_data_folder_that_takes_no_files_is_refused(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    assert ids(checks.data_folder_takes_files()) == []
    assert not list(tmp_path.iterdir()), "the trial leaves nothing behind"
    settings.DATA_DIR = Path("/proc")  # takes no files from anybody, root included
    found = checks.data_folder_takes_files()
    assert ids(found) == ["calculet.E002"]
    assert "“/proc” takes no files" in found[0].msg


def test_a_landing_that_is_gone_is_refused_and_not_made(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR, settings.LANDING_DIR = tmp_path / "data", tmp_path / "disk" / "landing"
    assert ids(checks.landing_takes_files()) == ["calculet.E003"]
    assert not settings.LANDING_DIR.exists()
    settings.LANDING_DIR.mkdir(parents=True)
    assert ids(checks.landing_takes_files()) == []


def test_a_landing_inside_the_data_folder_is_made_later(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR, settings.LANDING_DIR = tmp_path, tmp_path / "landing"
    assert ids(checks.landing_takes_files()) == []
    settings.LANDING_DIR.write_text("a file, not a folder")
    assert ids(checks.landing_takes_files()) == ["calculet.E003"]


def test_a_landing_that_takes_no_files_is_refused(settings: Settings) -> None:
    settings.LANDING_DIR = Path("/proc")
    assert ids(checks.landing_takes_files()) == ["calculet.E004"]


def test_keys_that_others_can_read_are_refused_one_by_one(settings: Settings, tmp_path: Path) -> None:
    settings.KEY_DIR = tmp_path / "keys"
    assert ids(checks.keys_are_private()) == []
    settings.KEY_DIR.mkdir()
    for name, mode in (("good", 0o600), ("group", 0o640), ("world", 0o604), ("good.pub", 0o644)):
        key = settings.KEY_DIR / name
        key.write_text("key")
        key.chmod(mode)
    (settings.KEY_DIR / "gone").symlink_to("nowhere")
    found = checks.keys_are_private()
    assert ids(found) == ["calculet.E005", "calculet.E005"]
    assert [Path(message.msg.split("“")[1].split("”")[0]).name for message in found] == ["group", "world"]


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /srv rw,relatime - nfs4 server:/srv rw
31 30 8:2 / /srv/local rw,relatime shared:2 master:1 - xfs /dev/sdb1 rw
32 22 0:26 / /mnt/with\\040blank rw - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/a", "ext4"),
        ("/srv/a", "nfs4"),
        ("/srv/local/a", "xfs"),
        ("/srvice/a", "ext4"),
        ("/mnt/with blank/a", "cifs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert checks.file_system_of(Path(path), MOUNTS) == kind


def test_sqlite_on_a_network_file_system_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/a/calculet.sqlite3"}
    monkeypatch.setitem(settings.DATABASES, "default", sqlite)
    assert ids(checks.sqlite_is_on_a_local_disk()) == []
    monkeypatch.setattr(checks, "file_system_of", lambda path, mounts: "nfs4")
    found = checks.sqlite_is_on_a_local_disk()
    assert ids(found) == ["calculet.E006"]
    assert "(nfs4)" in found[0].msg
    monkeypatch.setitem(settings.DATABASES, "default", {"ENGINE": "django.db.backends.postgresql", "NAME": "a"})
    assert ids(checks.sqlite_is_on_a_local_disk()) == []


def manage(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
    environment |= {"DJANGO_SETTINGS_MODULE": "calculet.settings", "CALCULET_DATA_DIR": str(folder), **variables}
    return subprocess.run(
        [sys.executable, str(BASE_DIR / "manage.py"), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"CALCULET_DEBUGG": "yes"}, "CALCULET_DEBUGG: no such setting. Nothing was started."),
        ({"CALCULET_DEBUG": "maybe"}, "CALCULET_DEBUG is “maybe”, but it takes yes or no."),
        ({"CALCULET_HTTPS": "ja"}, "CALCULET_HTTPS is “ja”, but it takes yes or no."),
        ({"CALCULET_SESSION_HOURS": "0"}, "CALCULET_SESSION_HOURS is “0”, but it takes a whole number from 1 on."),
        ({"CALCULET_TIME_ZONE": "Mars/North"}, "CALCULET_TIME_ZONE is “Mars/North”, but it takes the name of a time"),
        ({"CALCULET_LOG_LEVEL": "loud"}, "CALCULET_LOG_LEVEL is “loud”, but it takes DEBUG or INFO"),
        ({"CALCULET_DATA_DIR": "/proc/nowhere"}, "The folder “/proc/nowhere” cannot be made"),
    ],
)
def test_a_setting_that_is_wrong_stops_every_command_with_one_sentence(
    tmp_path: Path, variables: dict[str, str], sentence: str
) -> None:
    folder = Path(variables.pop("CALCULET_DATA_DIR", str(tmp_path)))
    done = manage(folder, "check", **variables)
    assert done.returncode == 1
    assert done.stderr.startswith(sentence)
    assert "Traceback" not in done.stderr


def test_a_secret_key_that_others_can_read_stops_every_command(tmp_path: Path) -> None:
    assert manage(tmp_path, "check").returncode == 0
    secret = tmp_path / "secret_key"
    assert secret.stat().st_mode & 0o777 == 0o600
    secret.chmod(0o640)
    done = manage(tmp_path, "check")
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"The secret key file “{secret}” can be read by other accounts. Nothing was started. Run: chmod 600 {secret}"
    )


def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", CALCULET_DEBUG="", CALCULET_SESSION_HOURS="", CALCULET_ALLOWED_HOSTS="")
    assert done.returncode == 0, done.stderr
