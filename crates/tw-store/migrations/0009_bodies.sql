-- A body that begins as that of the turn before, which a client that keeps the history sends again each time, is
-- stored without what both have in common.

-- The body is so much of the start of the body of `parent`, then `body`, then so much of that one's end; null for one
-- that is stored whole.
ALTER TABLE turn_input ADD COLUMN kept_start_bytes INTEGER CHECK (kept_start_bytes >= 0);
ALTER TABLE turn_input ADD COLUMN kept_end_bytes INTEGER CHECK (kept_end_bytes >= 0);
-- At most how many other bodies this one is made of.
ALTER TABLE turn_input ADD COLUMN depth INTEGER NOT NULL DEFAULT 0 CHECK (depth >= 0);
-- What the body of the turn behind is compared with: how long the whole body is up to and with its last message, the
-- SHA-256 of that, and that of the rest. Null for turns that are not continued, and once erased.
ALTER TABLE turn_input ADD COLUMN start_bytes INTEGER CHECK (start_bytes >= 0);
ALTER TABLE turn_input ADD COLUMN start_hash BLOB CHECK (length(start_hash) = 32);
ALTER TABLE turn_input ADD COLUMN end_hash BLOB CHECK (length(end_hash) = 32);

CREATE INDEX turn_input_parent ON turn_input (parent) WHERE parent IS NOT NULL;
