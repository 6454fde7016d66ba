-- Large contents (images, files, sounds) are stored once for an organization, and the texts that hold them without them.
--
-- What was stored before stays where it is.

CREATE TABLE blob (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    -- SHA-256 of the content.
    hash         BLOB    NOT NULL CHECK (length(hash) = 32),
    -- As it stood in the texts: what is there as base64 is here as base64.
    content      BLOB    NOT NULL,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    -- Another organization's content is another row, equal or not.
    UNIQUE (organization, hash),
    -- The target of the reference below, which keeps a content and what refers to it in one organization.
    UNIQUE (organization, key)
) STRICT;

-- The places of contents in the texts of a turn.
CREATE TABLE blob_use (
    turn         INTEGER NOT NULL REFERENCES turn (key),
    holder       TEXT    NOT NULL
        CHECK (holder = 'body' OR holder = 'message' OR holder = 'result' OR holder = 'events'),
    -- The row that holds the text, among those of its kind and turn: (round, seq) of a message, (round, position) of a
    -- call, (0, first) of events; of a body (0, 0), and (0, 1) once it was made whole.
    round        INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    -- The content begins at this byte of the text.
    at           INTEGER NOT NULL CHECK (at >= 0),
    organization INTEGER NOT NULL,
    blob         INTEGER NOT NULL,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    PRIMARY KEY (turn, holder, round, place, at),
    FOREIGN KEY (organization, blob) REFERENCES blob (organization, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_use_of ON blob_use (organization, blob);

-- A content goes with the last text that held it, whatever removed that.
CREATE TRIGGER blob_is_unused AFTER DELETE ON blob_use
WHEN NOT EXISTS (SELECT 1 FROM blob_use WHERE organization = old.organization AND blob = old.blob)
BEGIN
    DELETE FROM blob WHERE key = old.blob;
END;

-- Bytes of the text that stand in contents of their own; the text is whole with 0.
ALTER TABLE turn_input ADD COLUMN blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0);
ALTER TABLE message ADD COLUMN blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0);
-- Of its result.
ALTER TABLE tool_call ADD COLUMN blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0);
ALTER TABLE turn_event ADD COLUMN blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0);
