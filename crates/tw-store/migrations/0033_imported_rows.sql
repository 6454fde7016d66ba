-- Rows of other applications that are of no turn, and what their tables are: kept so that they can go back.
CREATE TABLE imported_row (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    -- The layout that they are of.
    shape        TEXT    NOT NULL,
    source_table TEXT    NOT NULL,
    -- What names the row there, or its hash; the same each time.
    id           TEXT    NOT NULL,
    -- Of whom it tells: erased with them.
    end_user     TEXT,
    -- The JSON object of its columns.
    row          BLOB    NOT NULL,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, shape, source_table, id)
) STRICT;

CREATE INDEX imported_row_of ON imported_row (organization, end_user) WHERE end_user IS NOT NULL;
