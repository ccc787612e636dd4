"""Quoting and framing: every byte reaches a real shell as itself, and no login shell gets between."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from inventory.remote.base import CommandFailed, ConnectionLost, ShellUnusable
from inventory.remote.pool import SshRemote
from inventory.remote.shell import Frame, FrameReader, quote
from tests.parts import find, need
from tests.sshd import Sshd

_words = st.lists(st.binary(max_size=40).filter(lambda raw: b"\0" not in raw), min_size=1, max_size=6)
_tricky = st.lists(st.sampled_from(list(b"'\"\\$`!*?[]{}();&|<>#~= \t\n\r-a\x80\xff%")), max_size=30).map(bytes)


def shells() -> list[list[str]]:
    """The shells of this machine that scripts may meet."""
    found = [["/bin/sh"]]
    for name, *arguments in (("busybox", "sh"), ("bash", "--posix")):
        if path := find(name):
            found.append([path, *arguments])
    return found


@given(st.lists(_tricky, min_size=1, max_size=4) | _words)
@example([bytes(range(1, 256))])
@example([b"", b"'", b"''", b"-n", b"--", b"\n", b"\\"])
@settings(max_examples=60, deadline=None)
def test_every_byte_reaches_the_shell_as_itself(words: list[bytes]) -> None:
    need("busybox")
    script = b"printf '%s\\0' " + b" ".join(map(quote, words))
    for shell in shells():
        done = subprocess.run([*shell, "-s"], input=script, capture_output=True, timeout=20, check=True)
        assert done.stdout.split(b"\0")[:-1] == words
        assert done.stderr == b""


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote(b"a\0b")


@given(st.binary(max_size=200), st.binary(max_size=60), st.integers(0, 255), st.data())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.large_base_example])
def test_a_frame_is_found_however_its_bytes_arrive(
    greeting: bytes, output: bytes, status: int, data: st.DataObject
) -> None:
    frame = Frame()
    whole = greeting + frame.start + b"\n" + output + frame.end + b":%d;\nrest" % status
    reader = FrameReader(frame)
    got = b""
    while whole:
        cut = data.draw(st.integers(1, len(whole)))
        got += reader.output(whole[:cut])
        whole = whole[cut:]
    assert (got, reader.status, reader.greeting_bytes) == (output, status, len(greeting))


def test_what_cannot_be_a_markers_beginning_is_not_held_back() -> None:
    frame = Frame()
    reader = FrameReader(frame)
    assert reader.output(frame.start + b"\nfirst\n") == b"first\n"
    assert reader.output(b"second" + frame.end[:7]) == b"second"
    assert reader.output(b"!") == frame.end[:7] + b"!"


@pytest.fixture
def reach(make_sshd: Callable[..., Sshd]) -> Iterator[Callable[[str], SshRemote]]:
    """A host whose login shell is what a forced command makes of it: `reach(COMMAND)`."""
    remotes: list[SshRemote] = []

    def connect(command: str) -> SshRemote:
        server = make_sshd(config=[f"ForceCommand {command}"])
        remotes.append(SshRemote(server.endpoint(), no_data_timeout_seconds=10, connect_timeout_seconds=10))
        return remotes[-1]

    yield connect
    for remote in remotes:
        remote.close()


class TestLoginShells:
    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            ("/bin/false", "status 1 before it ran our script"),
            ("/bin/true", "before it"),
            ("echo This service allows sftp connections only.", "before it"),
            ("exit 127", "before it"),
        ],
    )
    def test_a_host_without_a_shell_says_so(self, reach: Callable[[str], SshRemote], command: str, reason: str) -> None:
        remote = reach(command)
        with pytest.raises(ShellUnusable, match=reason):
            remote.run(b"echo x", step="try", timeout_seconds=10)
        with pytest.raises((ShellUnusable, ConnectionLost)):
            remote.open_shell(timeout_seconds=10).receive(1, timeout_seconds=10)

    def test_a_shell_that_prints_without_end_is_given_up(self, reach: Callable[[str], SshRemote]) -> None:
        remote = reach("while :; do echo welcome welcome welcome welcome welcome welcome welcome; done")
        with pytest.raises(ShellUnusable, match="prints without end"):
            remote.run(b"echo x", step="try", timeout_seconds=10)
        with pytest.raises(ShellUnusable, match="prints without end"):
            remote.open_shell(timeout_seconds=10).receive(1, timeout_seconds=10)

    @pytest.mark.parametrize("shell", ["fish", "bash", "busybox"])
    def test_other_login_shells_hand_our_script_to_sh(self, reach: Callable[[str], SshRemote], shell: str) -> None:
        need(shell)
        applet = " sh" if shell == "busybox" else ""
        remote = reach(f'echo hello; {find(shell)}{applet} -c "$SSH_ORIGINAL_COMMAND"')
        assert remote.check(b"echo $0; printf '%s' 'a\xff'", step="try") == b"/bin/sh\na\xff"
        lane = remote.open_shell()
        lane.send(b"echo lane\n")
        assert lane.receive(20, timeout_seconds=10) == b"lane\n"
        lane.close()

    def test_a_script_with_a_syntax_error_is_a_failed_step(self, ssh_remote: SshRemote) -> None:
        for script in (b"if then", b"echo 'open", b")"):
            with pytest.raises((CommandFailed, ShellUnusable)):
                ssh_remote.check(script, step="try", timeout_seconds=10)
        assert ssh_remote.check(b"echo well", step="try") == b"well\n"

    def test_a_script_that_exits_returns_its_status(self, ssh_remote: SshRemote) -> None:
        assert ssh_remote.run(b"echo a; exit 5; echo b", step="try").status == 5

    def test_a_shell_that_is_killed_is_a_lost_connection_and_the_next_works(self, ssh_remote: SshRemote) -> None:
        with pytest.raises(ConnectionLost, match="during “try”"):
            ssh_remote.run(b"kill -9 $$", step="try")
        assert ssh_remote.check(b"echo well", step="try") == b"well\n"
