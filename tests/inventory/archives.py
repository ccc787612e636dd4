"""Archives for tests: tar files of every kind, images as `docker save` and as OCI layouts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import zstandard

Layer = Mapping[str, bytes | None]  # None: a folder


def tar_of(members: Layer | Iterable[tuple[str, bytes | None]], **options: int) -> bytes:
    """A tar of these files, in this order."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", **options) as archive:  # type: ignore[call-overload]
        for name, content in members.items() if isinstance(members, Mapping) else members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))
    return held.getvalue()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def docker_save(layers: Iterable[bytes], tag: str = "box:latest") -> bytes:
    """What `docker save` of former versions writes: layers in folders of their own, the description last."""
    names = {f"{number:064x}/layer.tar": layer for number, layer in enumerate(layers)}
    saved = [{"Config": "c.json", "RepoTags": [tag], "Layers": list(names)}]
    return tar_of({**names, "c.json": b"{}", "manifest.json": json.dumps(saved).encode()})


def oci_layout(folder: Path, layers: Iterable[bytes]) -> Path:
    """An OCI layout as a folder, its layers gzip, zstd and plain by turns."""
    (folder / "blobs" / "sha256").mkdir(parents=True)
    packers = (gzip.compress, zstandard.compress, bytes)

    def put(content: bytes) -> dict[str, object]:
        (folder / "blobs" / "sha256" / digest(content)).write_bytes(content)
        return {"digest": f"sha256:{digest(content)}", "size": len(content)}

    described = [put(packers[number % 3](layer)) for number, layer in enumerate(layers)]
    image = put(json.dumps({"schemaVersion": 2, "config": put(b'{"os":"linux"}'), "layers": described}).encode())
    index = put(json.dumps({"schemaVersion": 2, "manifests": [image]}).encode())
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder
