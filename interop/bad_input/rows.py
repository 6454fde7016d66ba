"""The rows of testdata/bad_input.toml as requests; the table itself says what its fields mean."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[2] / "testdata" / "bad_input.toml"
# Deeper values than this cannot be written by the clients' own JSON writers.
DEPTH_WRITABLE = 500

Row = dict[str, Any]


def read(words: list[str]) -> list[Row]:
    rows = tomllib.loads(TABLE.read_text())["row"]
    return [row for row in rows if not words or any(word in row["name"] for word in words)]


def why_left_out(row: Row) -> str | None:
    """Why no official client can send this row."""
    if "raw" in row or "hex" in row:
        return "a body that is no JSON"
    if row.get("make", {}).get("deep", 0) > DEPTH_WRITABLE:
        return "a body too deep to be written"
    if "client" in row:
        return "nothing is raised when the client itself misbehaves"
    return None


def body(row: Row) -> Any:
    if row.get("method") == "GET":
        return None
    if "json" in row:
        return json.loads(row["json"])
    fields = _asking(row) | _made(row.get("make", {})) | row.get("set", {})
    return {name: value for name, value in fields.items() if name not in row.get("without", [])}


def body_before(row: Row) -> Any:
    return _asking(row) | row["before"] if "before" in row else None


def _asking(row: Row) -> dict[str, Any]:
    asking: dict[str, Any] = {"model": "m", "messages": [_message("Hi")]}
    return asking | ({"stream": True} if row.get("stream") else {})


def _made(make: dict[str, int]) -> dict[str, Any]:
    match make:
        case {"deep": levels}:
            value: list[Any] = []
            for _ in range(1, levels):
                value = [value]
            return {"deep": value}
        case {"megabytes": megabytes}:
            return {"messages": [_message("x" * (megabytes << 20))]}
        case {"messages": count}:
            return {"messages": [_message("Hi")] * count}
        case {"tools": count}:
            return {"tools": [_tool(f"f{at}", {}) for at in range(count)]}
        case {"schema_bytes": size}:
            around = len(json.dumps({"description": ""}, separators=(",", ":")))
            return {"tools": [_tool("f", {"description": "x" * (size - around)})]}
        case {"schema_depth": levels}:
            schema: dict[str, Any] = {}
            for _ in range(1, levels):
                schema = {"items": schema}
            return {"tools": [_tool("f", schema)]}
    return {}


def _message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _tool(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}
