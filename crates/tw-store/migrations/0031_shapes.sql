-- What the views of shapes need beside the record.

-- A result that a client brought is a block of a message. Here it is found by its call, as a call's row is.
CREATE TABLE brought_result (
    turn         INTEGER NOT NULL REFERENCES turn (key),
    round        INTEGER NOT NULL CHECK (round >= 0),
    seq          INTEGER NOT NULL CHECK (seq >= 0),
    -- Its place among the blocks of the message.
    block        INTEGER NOT NULL CHECK (block >= 0),
    -- The turn's.
    organization INTEGER NOT NULL,
    -- The id that the upstream gave the call, by which it is found, whichever the client named.
    tool_call_id TEXT    NOT NULL,
    is_error     INTEGER NOT NULL CHECK (is_error = 0 OR is_error = 1),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    PRIMARY KEY (turn, round, seq, block)
) STRICT, WITHOUT ROWID;

CREATE INDEX brought_result_call ON brought_result (tool_call_id, organization);
CREATE INDEX brought_result_failed ON brought_result (organization, turn) WHERE is_error = 1;

-- The results that are there. A client names a call by the upstream's id or, where it was handed one, by ours.
INSERT INTO brought_result (turn, round, seq, block, organization, tool_call_id, is_error, created_us, updated_us)
SELECT r.turn, r.round, r.seq, r.block, r.organization, coalesce(c.tool_call_id, r.named),
       r.is_error OR coalesce(c.is_error, 0), r.created_us, r.created_us
FROM (
    SELECT m.turn, m.round, m.seq, e.key - (json_type(m.blocks, '$[0].origin') IS NOT NULL) AS block, t.organization,
           json_extract(e.value, '$.result.id') AS named, coalesce(json_extract(e.value, '$.result.e'), 0) AS is_error,
           m.created_us
    FROM message m JOIN turn t ON t.key = m.turn JOIN json_each(m.blocks) e
    WHERE m.role IN ('user', 'tool') AND m.blocks LIKE '%"result"%' AND json_type(e.value, '$.result') IS NOT NULL
) r LEFT JOIN tool_call c ON c.organization = r.organization AND length(r.named) = 37 AND c.id =
    substr(r.named, 6, 8) || '-' || substr(r.named, 14, 4) || '-' || substr(r.named, 18, 4) || '-'
    || substr(r.named, 22, 4) || '-' || substr(r.named, 26, 12);

-- By the call first, which tells more than the organization: so that a view over all of an organization's calls is
-- never read by that half of the index.
DROP INDEX tool_call_upstream;
CREATE INDEX tool_call_upstream ON tool_call (tool_call_id, organization);

-- Rows that applications insert into a view, until a server has appended them. One that cannot be appended stays for a
-- while, with the reason.
CREATE TABLE queued_row (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    -- The key whose rows they are.
    api_key      INTEGER NOT NULL REFERENCES api_key (key),
    shape        TEXT    NOT NULL CHECK (shape = 'langchain'),
    conversation TEXT    NOT NULL,
    -- The row as JSON.
    body         TEXT    NOT NULL,
    -- Why it was refused.
    fault        TEXT,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL
) STRICT;

CREATE INDEX queued_row_waiting ON queued_row (key) WHERE fault IS NULL;
CREATE INDEX queued_row_refused ON queued_row (updated_us) WHERE fault IS NOT NULL;
CREATE INDEX queued_row_of ON queued_row (organization, conversation);
