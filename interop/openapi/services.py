"""The services of services.json, and their own descriptions, out of the packages that ship them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonschema_path.loaders import JsonschemaSafeLoader

HERE = Path(__file__).parent
LIST = HERE / "services.json"


@dataclass(frozen=True)
class Service:
    name: str
    # What the description and the tools' files call the server by.
    origin: str
    # The package on npm, and the file in it that is the description.
    package: str
    version: str
    integrity: str
    file: str
    # Made up, in the form that the service uses; by the names that the tools know them by.
    secrets: dict[str, str]


def load() -> list[Service]:
    return [Service(**row) for row in json.loads(LIST.read_text())]


def description(service: Service, folder: Path) -> dict[str, Any]:
    """The description as it is, but for times, which stay texts also in YAML."""
    text = (folder / service.package / service.file).read_text()
    if service.file.endswith(".json"):
        return json.loads(text)
    return yaml.load(text, Loader=JsonschemaSafeLoader)


def install(services: list[Service]) -> Path:
    """The folder that holds every service's description, under its package's name."""
    folder = _home()
    ready = folder / "ready"
    if not ready.is_file() or ready.read_bytes() != LIST.read_bytes():
        print("openapi: fetching the services' descriptions", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        for service in services:
            _fetch(service, folder)
        shutil.copy(LIST, ready)
    return folder


def _home() -> Path:
    """Beside the clients, which `interop/run` installs by the same rule."""
    cache = Path(os.environ.get("TURNWRIGHT_CACHE") or Path.home() / ".cache" / "turnwright")
    if cache.is_dir():
        return cache / f"interop-openapi-{hashlib.sha256(LIST.read_bytes()).hexdigest()[:16]}"
    return HERE / "node_modules"


def _fetch(service: Service, folder: Path) -> None:
    """Takes the one file out of the package, without the package's dependencies and scripts."""
    with tempfile.TemporaryDirectory(prefix="turnwright-openapi-") as packed:
        subprocess.run(
            ["npm", "pack", "--silent", "--pack-destination", packed]
            + [f"{service.package}@{service.version}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (archive,) = Path(packed).iterdir()
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != service.integrity:
            raise RuntimeError(f"{service.package}@{service.version} is another one: {digest}")
        target = folder / service.package / service.file
        target.parent.mkdir(parents=True)
        with tarfile.open(archive) as tar:
            member = tar.extractfile(f"package/{service.file}")
            if member is None:
                raise RuntimeError(f"{service.package} has no file {service.file}")
            target.write_bytes(member.read())
