"""What the tests would fetch comes from here, and nothing is tested twice."""

import base64

import httpx
import pytest

# One pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def pytest_collection_modifyitems(config, items):
    """The second class is about structured output alone."""
    twice = [it for it in items if it.cls.__name__ == "TestByCalls" and "structured" not in it.name]
    config.hook.pytest_deselected(items=twice)
    items[:] = [it for it in items if it not in twice]


@pytest.fixture(autouse=True)
def files(monkeypatch):
    """The tests are about what is sent on, not about what is in it."""

    def get(url, **_):
        return httpx.Response(200, content=PNG, request=httpx.Request("GET", url))

    monkeypatch.setattr(httpx, "get", get)
