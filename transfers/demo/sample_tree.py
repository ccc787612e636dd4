"""Makes the sample tree that the demonstration brings home: one of each kind of thing the product is for.

The tree is the same on every machine (fixed seed), and is made once: a marker file written last says it is whole.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

MEBIBYTE = 2**20
PARAMETER_BYTES = 136 * MEBIBYTE  # three chunks of 64 MiB: two whole ones and a short one
PART_BYTES = 8 * MEBIBYTE
IMAGE_BYTES = 19 * MEBIBYTE  # three parts, the last one short
TEXT_FILES = 1_200
MARKER = ".sample-tree-is-whole"
_EPOCH = 1_767_225_600  # 2026-01-01 00:00 UTC: every file's time, so that the tree is the same everywhere

_WORDS = [
    "buffer",
    "chip",
    "command",
    "decode",
    "driver",
    "graph",
    "kernel",
    "layer",
    "layout",
    "memory",
    "model",
    "operator",
    "prefill",
    "profile",
    "queue",
    "register",
    "runtime",
    "schedule",
    "shape",
    "stream",
    "tensor",
    "token",
    "trace",
    "transfer",
    "weight",
]


def make_sample_tree(root: Path) -> None:
    """Make the tree below `root` unless it is whole already. About 200 MB; takes a few seconds."""
    if (root / MARKER).exists():
        return
    if root.exists():
        shutil.rmtree(root)
    root.mkdir(parents=True)
    chance = random.Random(20260801)  # noqa: S311 - a sample, not a secret
    _make_sdk(root / "opt/sdk", chance)
    _make_workspace(root / "home/user2", chance)
    _make_container_store(root / "home/user2/.local/share/containers/storage", root / "opt/sdk")
    _make_repository(root / "srv/llm-runtime", chance)
    _make_baseline_archive(root / "srv/archive/baseline-analysis.tar.gz", chance)
    _make_image_parts(root / "srv/parts", chance)
    _make_parameters(root / "srv/model", chance)
    for path in sorted(root.rglob("*")):
        if not path.is_symlink() and ".git" not in path.parts:
            os.utime(path, (_EPOCH, _EPOCH))
    (root / MARKER).touch()


def _sentences(chance: random.Random, count: int) -> str:
    return "".join(" ".join(chance.choices(_WORDS, k=11)).capitalize() + ".\n" for _ in range(count))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _make_sdk(folder: Path, chance: random.Random) -> None:
    for number in range(60):
        _write(folder / f"include/unit_{number:02}.h", f"#pragma once\n/* {_sentences(chance, 12)} */\n".encode())
    for name in ("libcalrt.so.0.7.6", "libcalgraph.so.0.7.6"):
        _write(folder / "lib" / name, b"\x7fELF" + chance.randbytes(2 * MEBIBYTE))
    (folder / "lib/libcalrt.so").symlink_to("libcalrt.so.0.7.6")
    _write(folder / "cmake/CalRTConfig.cmake", b"set(CALRT_VERSION 0.7.6)\n")
    (folder / "empty-folder-is-kept").mkdir()


def _make_workspace(folder: Path, chance: random.Random) -> None:
    for number in range(TEXT_FILES):
        area = ("prompts", "cases", "results", "scripts")[number % 4]
        _write(folder / f"llm/{area}/{number // 100:02}/case-{number:04}.txt", _sentences(chance, 40).encode())
    _write(folder / "llm/performance.csv", b"run,tokens\n" + b"".join(b"%d,%d\n" % (n, n * 37) for n in range(4000)))
    _write(folder / "llm/notes with spaces and “quotes”.md", _sentences(chance, 30).encode())
    _write(Path(os.fsdecode(bytes(folder / "llm") + b"/caf\xe9-latin1.txt")), b"A name that is not UTF-8.\n")
    _write(folder / "llm/-starts-with-a-dash", b"A name that a careless command takes for an option.\n")
    _write(folder / ".bashrc", b"export CALRT_HOME=/opt/sdk\n")
    _write(folder / ".cache/thumbnails/blob", chance.randbytes(MEBIBYTE))


def _make_container_store(folder: Path, repeated: Path) -> None:
    """A store whose one layer repeats another folder's files, as a container's store repeats its image."""
    layer = folder / "overlay/5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef/diff"
    shutil.copytree(repeated, layer / "opt/sdk", symlinks=True)
    _write(layer / "etc/os-release", b'PRETTY_NAME="Sample Linux"\n')


def _make_repository(folder: Path, chance: random.Random) -> None:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Sample",
        "GIT_AUTHOR_EMAIL": "sample@example.invalid",
        "GIT_COMMITTER_NAME": "Sample",
        "GIT_COMMITTER_EMAIL": "sample@example.invalid",
        "GIT_AUTHOR_DATE": f"{_EPOCH} +0000",
        "GIT_COMMITTER_DATE": f"{_EPOCH} +0000",
    }

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)

    folder.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=main")
    for commit in range(6):
        for number in range(8):
            _write(folder / f"src/part_{number}.cpp", f"// {commit}\n// {_sentences(chance, 60)}".encode())
        git("add", "--all")
        git("commit", "--quiet", "--message", f"Sample commit {commit + 1}")


def _tar_of(names_and_contents: dict[str, bytes]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in names_and_contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), _EPOCH, 0o644
            archive.addfile(member, BytesIO(content))
    return buffer.getvalue()


def _make_baseline_archive(path: Path, chance: random.Random) -> None:
    content = {f"baseline/source-{number:02}.txt": _sentences(chance, 400).encode() for number in range(40)}
    content["baseline/build.bin"] = chance.randbytes(7 * MEBIBYTE)
    _write(path, gzip.compress(_tar_of(content), compresslevel=6, mtime=_EPOCH))


def _make_image_parts(folder: Path, chance: random.Random) -> None:
    image = _tar_of({"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "blobs/layer": chance.randbytes(IMAGE_BYTES)})
    for number, start in enumerate(range(0, len(image), PART_BYTES)):
        _write(folder / f"runtime-image.tar.part-a{'abcdefgh'[number]}", image[start : start + PART_BYTES])


def _make_parameters(folder: Path, chance: random.Random) -> None:
    folder.mkdir(parents=True)
    with (folder / "param_blk0.bin").open("wb") as file:
        for _ in range(PARAMETER_BYTES // MEBIBYTE):
            file.write(chance.randbytes(MEBIBYTE))
    _write(folder / "model.yaml", b"name: sample\nblocks: 1\n")
