-- Turns whose effects a repeated request must not have again, whether or not their answer was handed over.

-- Set by the write that ends the turn: a call of ours that is not `read` may have changed the world.
ALTER TABLE turn ADD COLUMN had_effects INTEGER NOT NULL DEFAULT 0 CHECK (had_effects IN (0, 1));

-- Of the turns that ended under the schema before, those that a client may still repeat: the newest hour.
UPDATE turn SET had_effects = 1
    WHERE status <> 'running' AND has_tool_calls = 1
      AND created_us >= (SELECT max(created_us) FROM turn) - 3600000000
      AND EXISTS (SELECT 1 FROM tool_call c WHERE c.turn = turn.key AND c.runs = 'server'
                  AND c.effect IS NOT 'read' AND c.started_us IS NOT NULL
                  AND coalesce(c.reason, '') NOT IN ('not_sent', 'target_not_allowed'));

-- Most turns have none, and write nothing to it.
CREATE INDEX turn_effects ON turn (organization, api_key, body_hash, created_us) WHERE had_effects = 1;
