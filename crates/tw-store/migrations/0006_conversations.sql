-- Conversations are listed, read turn by turn, and deleted.
--
-- A conversation is what somebody sees of it: several keys and end users may use one name. So turns are deleted,
-- and a conversation is there for whoever sees a turn of it.

-- Nobody sees the turn any more. Its contents are erased when they are due, which is at once or with its end.
ALTER TABLE turn ADD COLUMN deleted_us INTEGER;

-- For all of an organization, for one key, and for one end user: which conversations there are, newest first,
-- and the turns of one in order, which is that of their keys.
CREATE INDEX turn_conversation ON turn (organization, conversation) WHERE deleted_us IS NULL;
CREATE INDEX turn_conversation_of_key ON turn (organization, api_key, conversation) WHERE deleted_us IS NULL;
CREATE INDEX turn_conversation_of_user ON turn (organization, end_user, conversation)
    WHERE deleted_us IS NULL AND end_user IS NOT NULL;
