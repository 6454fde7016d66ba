-- The turns of a conversation that lead to its head are known by a mark, so that a part of them is read without a walk.

-- Set by the write that ends the turn, and kept right by the trigger when the head moves elsewhere.
ALTER TABLE turn ADD COLUMN on_head_path INTEGER NOT NULL DEFAULT 0 CHECK (on_head_path = 0 OR on_head_path = 1);

UPDATE turn SET on_head_path = 1
WHERE key IN (
    WITH RECURSIVE path (key, parent, conversation) AS (
        SELECT t.key, t.parent, t.conversation FROM conversation c JOIN turn t ON t.key = c.head_turn
        UNION
        SELECT t.key, t.parent, t.conversation
        FROM path p JOIN turn t ON t.key = p.parent AND t.conversation = p.conversation
    )
    SELECT key FROM path
);

-- Nothing is to do where the new head continues the one before it: that is marked, and so is the path to it.
-- Otherwise the turns between the old head and where the paths part are not on the path any more, and those between
-- there and the new head are.
CREATE TRIGGER conversation_head_moved AFTER UPDATE OF head_turn ON conversation
WHEN new.head_turn IS NOT old.head_turn
    AND NOT EXISTS (SELECT 1 FROM turn t
                    WHERE t.key = new.head_turn AND t.parent IS old.head_turn AND t.on_head_path = 1)
BEGIN
    UPDATE turn SET on_head_path = 0
    WHERE key IN (
        WITH RECURSIVE coming (key, parent, is_known) AS (
            SELECT t.key, t.parent, 0 FROM turn t WHERE t.key = new.head_turn
            UNION
            SELECT t.key, t.parent, t.on_head_path
            FROM coming p JOIN turn t ON t.key = p.parent AND t.conversation = new.key
            WHERE p.is_known = 0
        ), going (key, parent) AS (
            SELECT t.key, t.parent FROM turn t
            WHERE t.key = old.head_turn AND t.key NOT IN (SELECT key FROM coming WHERE is_known = 1)
            UNION
            SELECT t.key, t.parent
            FROM going p JOIN turn t ON t.key = p.parent AND t.conversation = new.key
            WHERE t.key NOT IN (SELECT key FROM coming WHERE is_known = 1)
        )
        SELECT key FROM going
    );
    UPDATE turn SET on_head_path = 1
    WHERE on_head_path = 0 AND key IN (
        WITH RECURSIVE coming (key, parent, is_known) AS (
            SELECT t.key, t.parent, 0 FROM turn t WHERE t.key = new.head_turn
            UNION
            SELECT t.key, t.parent, t.on_head_path
            FROM coming p JOIN turn t ON t.key = p.parent AND t.conversation = new.key
            WHERE p.is_known = 0
        )
        SELECT key FROM coming
    );
END;

-- Calls are found by their upstream's id, whoever ran them, and those that failed without a look at the others.
DROP INDEX tool_call_upstream;
CREATE INDEX tool_call_upstream ON tool_call (organization, tool_call_id);
CREATE INDEX tool_call_failed ON tool_call (organization, turn, round, position) WHERE is_error = 1;
