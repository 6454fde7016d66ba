"""Makes a tool and reads a turn with the client that openapi-python-client generated."""

from __future__ import annotations

import json
import sys

from turnwright_client import AuthenticatedClient
from turnwright_client.api.default import create_tool, get_turn
from turnwright_client.models import Error, Tool, ToolDefinition, Turn

base_url, key, wanted, turn_id = sys.argv[1:]
client = AuthenticatedClient(base_url=base_url, token=key)
definition = json.loads(wanted)
made = create_tool.sync("default", client=client, body=ToolDefinition.from_dict(definition))
assert isinstance(made, Tool), made
again = create_tool.sync("default", client=client, body=ToolDefinition.from_dict(definition))
assert isinstance(again, Error), again
turn = get_turn.sync(turn_id, client=client)
assert isinstance(turn, Turn), turn
print(
    json.dumps(
        {
            "tool": made.name,
            "version": made.version,
            "refused": again.error.code,
            "status": turn.status,
            "said": turn.rounds[0].messages[0].blocks[0].additional_properties["text"],
        }
    )
)
