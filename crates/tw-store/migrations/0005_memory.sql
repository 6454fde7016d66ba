-- What a turn is found by when a request continues it.
--
-- `history_hash` begins with whom the history is of, so that two people never have one in common. It is set by
-- the write that ends the turn, and only for a turn that may be continued.

-- What became of looking for the turn that this one continues; null for turns older than this column.
ALTER TABLE turn ADD COLUMN memory TEXT
    CHECK (memory IS NULL OR memory = 'attached' OR memory = 'new' OR memory = 'ambiguous'
           OR memory = 'mismatch' OR memory = 'off');
-- Of all calls that the client never saw, in this turn and in those that it continues.
ALTER TABLE turn ADD COLUMN hidden_hash BLOB CHECK (length(hidden_hash) = 32);

-- The hidden half stands in it, so that whether all turns of one history have the same one costs two looks.
CREATE INDEX turn_memory ON turn (organization, api_key, history_hash, hidden_hash)
    WHERE history_hash IS NOT NULL;
