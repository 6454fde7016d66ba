-- Turns that a request may be a repetition of, found by less.
--
-- Hashes of bodies come in no order, so each turn wrote to a page of the index of its own, the dearest write of
-- a relayed request. Of turns that name nobody only those whose answer was not handed over are looked for, which
-- are those that run and a few more.

DROP INDEX turn_repeat;
CREATE INDEX turn_unanswered ON turn (organization, api_key, body_hash, created_us)
    WHERE answered_us IS NULL AND end_user IS NULL AND conversation_named = 0;
CREATE INDEX turn_named ON turn (organization, api_key, body_hash, created_us)
    WHERE end_user IS NOT NULL OR conversation_named = 1;
