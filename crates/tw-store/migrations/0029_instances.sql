-- The servers that use the database, on PostgreSQL: this one has but one server, and the table stays empty.
CREATE TABLE instance (
    -- The first part of the owner of a turn that it drives.
    id             TEXT    PRIMARY KEY,
    lease_until_us INTEGER NOT NULL,
    created_us     INTEGER NOT NULL,
    updated_us     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
