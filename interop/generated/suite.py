"""`/openapi.json` is valid, and clients generated from it make a tool and read a turn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator
from server import Server, create_key

HERE = Path(__file__).parent
NODE_MODULES = Path(os.environ["INTEROP_NODE_MODULES"])
SAID = "Here you are."


def do(*command: str, cwd: Path, **environment: str) -> str:
    ran = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def definition(name: str) -> str:
    parameters = {"city": {"mode": "ai", "prompt": "Where", "schema": {"type": "string"}}}
    return json.dumps(
        {
            "name": name,
            "description": "Says the weather.",
            "type": "api_request",
            "url": "https://api.example.com/weather",
            "parameters": parameters,
            "policy": {"effect": "read", "timeout_ms": 1000},
        }
    )


def python(folder: Path, document: Path, arguments: list[str]) -> dict[str, Any]:
    programs = Path(sys.executable).parent
    # What is generated is formatted by a program that stands beside it.
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    output = folder / "turnwright_client"
    generate = ["generate", "--path", str(document), "--meta", "none", "--output-path", str(output), "--fail-on-warning"]
    do(str(programs / "openapi-python-client"), *generate, cwd=folder, PATH=path)
    read = do(sys.executable, str(HERE / "use.py"), *arguments, cwd=folder, PYTHONPATH=str(folder))
    return json.loads(read)


def typescript(folder: Path, document: Path, arguments: list[str]) -> dict[str, Any]:
    programs = NODE_MODULES / ".bin"
    (folder / "node_modules").symlink_to(NODE_MODULES)
    do(str(programs / "openapi-typescript"), str(document), "--output", "api.d.ts", cwd=folder)
    shutil.copy(HERE / "use.mts", folder)
    flags = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--noUncheckedIndexedAccess"]
    (folder / "process.d.ts").write_text("declare const process: { argv: string[] };\n")
    do(str(programs / "tsc"), *flags, "use.mts", "process.d.ts", cwd=folder)
    return json.loads(do("node", "use.mjs", *arguments, cwd=folder))


def main() -> int:
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="turnwright-generated-"))
    (root / "script.toml").write_text(f'[[rule]]\ntext = "{SAID}"\n')
    server = Server(root, f'[[upstream]]\nname = "model"\nkind = "scripted"\nscript = "{root / "script.toml"}"\n')
    key = create_key(server.data, "--scope", "chat,tools:read,tools:write")
    failed = 0
    try:
        server.start()
        with urllib.request.urlopen(f"{server.url}/openapi.json", timeout=5) as answer:
            document = json.load(answer)
        wrong = [str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()]
        failed += bool(wrong)
        print("\n".join(["FAILED  the document", *wrong]) if wrong else "ok      the document is valid")
        (root / "openapi.json").write_text(json.dumps(document))
        body = {"model": "any", "messages": [{"role": "user", "content": "Please."}]}
        _, answered = server.call("POST", "/v1/chat/completions", key, body)
        turn = answered["id"].removeprefix("chatcmpl-")
        for client in (python, typescript):
            name = client.__name__
            folder = root / name
            folder.mkdir()
            wanted = {"tool": name, "version": 1, "refused": "name_taken", "status": "completed", "said": SAID}
            try:
                got: Any = client(folder, root / "openapi.json", [server.url, key, definition(name), turn])
            except RuntimeError as error:
                got = str(error)
            if got == wanted:
                print(f"ok      {name}")
            else:
                failed += 1
                print(f"FAILED  {name}\n    {got}")
    finally:
        server.kill()
    if failed == 0:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{3 - failed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
