-- Tools by id and in versions, and which calls were answered from the cache.
--
-- Nothing has ever written to the first `tool` and `tool_version`, so they are replaced.

DROP TABLE tool_version;
DROP TABLE tool;

CREATE TABLE tool (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    id           TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    -- The newest.
    version      INTEGER NOT NULL CHECK (version >= 1),
    deleted_us   INTEGER,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, id)
) STRICT;

-- The name of a deleted tool is free again.
CREATE UNIQUE INDEX tool_name ON tool (organization, name) WHERE deleted_us IS NULL;

-- A running call keeps the version that it started with. Rows are never changed.
CREATE TABLE tool_version (
    key        INTEGER PRIMARY KEY,
    tool       INTEGER NOT NULL REFERENCES tool (key),
    version    INTEGER NOT NULL CHECK (version >= 1),
    name       TEXT    NOT NULL,
    definition TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    UNIQUE (tool, version)
) STRICT;

-- Rises with each change to a tool of the organization, so that whoever keeps its tools sees when to read them again.
ALTER TABLE organization ADD COLUMN tools_revision INTEGER NOT NULL DEFAULT 0;

-- The answer of an earlier call was given; nothing was sent.
ALTER TABLE tool_call ADD COLUMN cached INTEGER NOT NULL DEFAULT 0 CHECK (cached IN (0, 1));
