-- What is handed to clients sealed is opened by this database alone.

CREATE TABLE seal (
    -- One row.
    key    INTEGER PRIMARY KEY CHECK (key = 1),
    -- Random, and the same for as long as the database is there: 32 bytes of SQLite's generator, which is ChaCha20 with
    -- a seed of the operating system's.
    secret BLOB    NOT NULL CHECK (length(secret) = 32)
) STRICT;

INSERT INTO seal VALUES (1, randomblob(32));
