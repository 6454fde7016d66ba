-- Conversations hold items, and clients make them by themselves.
--
-- Nothing is stored twice for it: the items of a conversation are those of the turns on the path to its head. What a
-- client adds is a turn of its own, which asked no model.

-- The key that made the conversation by itself; null for one that its turns made by naming it.
ALTER TABLE conversation ADD COLUMN api_key INTEGER REFERENCES api_key (key);
-- JSON of an object.
ALTER TABLE conversation ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
-- The newest turn that was accepted to add items. While it runs, no other is.
ALTER TABLE conversation ADD COLUMN busy_turn INTEGER REFERENCES turn (key);

-- Those that have no turn yet are listed, too.
CREATE INDEX conversation_made ON conversation (organization, api_key) WHERE api_key IS NOT NULL;
CREATE INDEX conversation_made_for_user ON conversation (organization, end_user)
    WHERE api_key IS NOT NULL AND end_user IS NOT NULL;
CREATE INDEX conversation_made_of_all ON conversation (organization) WHERE api_key IS NOT NULL;

-- Who the items are from that the turn adds to its conversation; null for a turn that adds none.
ALTER TABLE turn ADD COLUMN item_source TEXT
    CHECK (item_source IS NULL OR item_source = 'answer' OR item_source = 'client');

-- Items that were taken out of their conversation.
CREATE TABLE deleted_item (
    turn       INTEGER NOT NULL REFERENCES turn (key),
    id         TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (turn, id)
) STRICT, WITHOUT ROWID;
