-- Calls that end by a callback, and the callbacks.

-- What the model was told in place of a result when the turn went on without the call's end. It stays, whatever the end is.
-- `deadline_us` is the time until which a callback must have ended the call.
ALTER TABLE tool_call ADD COLUMN told TEXT;

-- A tool may name the same job twice, for two calls of which each has a callback.
DROP INDEX tool_call_external;
CREATE INDEX tool_call_awaited ON tool_call (deadline_us)
    WHERE deadline_us IS NOT NULL AND approval IS NULL AND ended_us IS NULL;

-- Everything that came to the address of a callback, refused or not.
CREATE TABLE callback_delivery (
    key          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    -- Null for one that names no call.
    organization INTEGER REFERENCES organization (key),
    turn         INTEGER REFERENCES turn (key),
    round        INTEGER,
    position     INTEGER,
    -- As the address says.
    tool         TEXT    NOT NULL,
    -- The sender's own id, or the body's hash: of two that are equal, the second is a duplicate.
    sender_id    TEXT,
    -- The address of the sender.
    source       TEXT    NOT NULL,
    verdict      TEXT    NOT NULL CHECK (verdict IN ('genuine', 'forged', 'unknown')),
    -- Why it is no genuine one.
    fault        TEXT,
    outcome      TEXT    NOT NULL
        CHECK (outcome IN ('completed', 'failed', 'progress', 'duplicate', 'late', 'malformed', 'refused')),
    -- It came before the answer to the request that started the job was written.
    early        INTEGER NOT NULL CHECK (early IN (0, 1)),
    body_bytes   INTEGER NOT NULL,
    body_hash    BLOB    NOT NULL CHECK (length(body_hash) = 32),
    -- Of a genuine one only, until the contents of its turn are erased.
    body         BLOB,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    CHECK ((organization IS NULL) = (turn IS NULL)),
    CHECK ((turn IS NULL) = (round IS NULL)),
    CHECK ((round IS NULL) = (position IS NULL))
) STRICT;

CREATE INDEX callback_delivery_of ON callback_delivery (turn, round, position) WHERE turn IS NOT NULL;
CREATE INDEX callback_delivery_old ON callback_delivery (created_us);
