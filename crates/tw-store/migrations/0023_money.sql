-- What turns cost, what was used by day, and what was spent in a month.
--
-- Turns that ended before this have no cost, and are in no sum.

-- By the prices of its time; null where none was set.
ALTER TABLE attempt ADD COLUMN cost_microusd INTEGER CHECK (cost_microusd >= 0);

-- Uses of models and tools by day, written with the end of a turn.
CREATE TABLE usage_day (
    organization     INTEGER NOT NULL REFERENCES organization (key),
    -- Days since 1970-01-01 UTC, by the end of the turn.
    day              INTEGER NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind = 'model' OR kind = 'tool'),
    -- The model as the client named it, or the tool.
    name             TEXT    NOT NULL,
    api_key          INTEGER NOT NULL,
    -- 0 for nobody, since a key column holds no null.
    end_user         INTEGER NOT NULL,
    -- Turns of a model, calls of a tool; and those of them that failed.
    uses             INTEGER NOT NULL,
    failed           INTEGER NOT NULL,
    -- Calls that were answered from the cache.
    cached           INTEGER NOT NULL,
    input_tokens     INTEGER NOT NULL,
    cached_tokens    INTEGER NOT NULL,
    output_tokens    INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost_microusd    INTEGER NOT NULL,
    created_us       INTEGER NOT NULL,
    updated_us       INTEGER NOT NULL,
    PRIMARY KEY (organization, day, kind, name, api_key, end_user),
    FOREIGN KEY (organization, api_key) REFERENCES api_key (organization, key)
) STRICT, WITHOUT ROWID;

-- What was spent in a month, written with each cost: also of turns that still run.
CREATE TABLE spend_month (
    organization  INTEGER NOT NULL REFERENCES organization (key),
    -- Months since January 1970 UTC.
    month         INTEGER NOT NULL,
    spender       TEXT    NOT NULL CHECK (spender = 'organization' OR spender = 'key' OR spender = 'end_user'),
    -- The row of the key or the end user; 0 for the organization.
    spender_key   INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    updated_us    INTEGER NOT NULL,
    PRIMARY KEY (organization, month, spender, spender_key)
) STRICT, WITHOUT ROWID;
