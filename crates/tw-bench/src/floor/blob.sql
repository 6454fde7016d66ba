-- The hot tables of the store's schema, keyed by ids of 16 bytes instead of integers, for the floor bench.
-- The id is the key, so there is no second index to find it by; a table that is keyed so needs no row number.

CREATE TABLE organization (
    key        INTEGER PRIMARY KEY,
    slug       TEXT    NOT NULL UNIQUE,
    name       TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT;

CREATE TABLE api_key (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    name         TEXT    NOT NULL,
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    shown        TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    tool_grant   TEXT    NOT NULL CHECK (tool_grant IN ('none', 'all', 'named')),
    record       TEXT    NOT NULL CHECK (record IN ('full', 'minimal')),
    memory       TEXT    NOT NULL CHECK (memory IN ('off', 'key')),
    expires_us   INTEGER,
    last_used_us INTEGER,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, key)
) STRICT;

CREATE TABLE end_user (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    name         TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, name)
) STRICT;

CREATE TABLE conversation (
    key          BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 16),
    organization INTEGER NOT NULL REFERENCES organization (key),
    end_user     INTEGER REFERENCES end_user (key),
    head_turn    BLOB    REFERENCES turn (key),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turn (
    key                BLOB    NOT NULL PRIMARY KEY CHECK (length(key) = 16),
    organization       INTEGER NOT NULL,
    api_key            INTEGER NOT NULL,
    end_user           INTEGER REFERENCES end_user (key),
    conversation       BLOB    NOT NULL REFERENCES conversation (key),
    conversation_named INTEGER NOT NULL CHECK (conversation_named IN (0, 1)),
    parent             BLOB    REFERENCES turn (key),
    memory_turn        BLOB    REFERENCES turn (key),
    history_hash       BLOB    CHECK (length(history_hash) = 32),
    surface            TEXT    NOT NULL CHECK (surface IN ('chat_completions')),
    streamed           INTEGER NOT NULL CHECK (streamed IN (0, 1)),
    on_leave           TEXT    NOT NULL CHECK (on_leave IN ('stop', 'finish')),
    record             TEXT    NOT NULL CHECK (record IN ('full', 'minimal')),
    model              TEXT    NOT NULL,
    request_id         TEXT    NOT NULL,
    body_hash          BLOB    NOT NULL CHECK (length(body_hash) = 32),
    projector_version  INTEGER NOT NULL,
    owner              TEXT    NOT NULL,
    fence              INTEGER NOT NULL CHECK (fence >= 1),
    status             TEXT    NOT NULL
        CHECK (status IN ('running', 'completed', 'incomplete', 'failed', 'cancelled')),
    reason             TEXT
        CHECK (reason IN ('length', 'rounds', 'calls', 'cost', 'deadline', 'interrupted',
                          'upstream', 'internal', 'client_left', 'requested')),
    stop_reason        TEXT
        CHECK (stop_reason IN ('length', 'rounds', 'calls', 'cost', 'deadline', 'interrupted',
                               'upstream', 'internal', 'client_left', 'requested')),
    usage              TEXT,
    cost_microusd      INTEGER,
    has_tool_calls     INTEGER NOT NULL DEFAULT 0 CHECK (has_tool_calls IN (0, 1)),
    tool_count         INTEGER NOT NULL DEFAULT 0 CHECK (tool_count >= 0),
    deadline_us        INTEGER NOT NULL,
    answered_us        INTEGER,
    ended_us           INTEGER,
    erase_after_us     INTEGER,
    erased_us          INTEGER,
    events_expired_us  INTEGER,
    created_us         INTEGER NOT NULL,
    updated_us         INTEGER NOT NULL,
    FOREIGN KEY (organization, api_key) REFERENCES api_key (organization, key),
    CHECK ((status = 'running') = (ended_us IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX turn_by_time ON turn (organization, created_us);
CREATE INDEX turn_repeat ON turn (organization, api_key, body_hash, created_us);
CREATE INDEX turn_unfinished ON turn (created_us) WHERE status = 'running';
CREATE INDEX turn_erase_due ON turn (erase_after_us)
    WHERE erase_after_us IS NOT NULL AND erased_us IS NULL;
CREATE INDEX turn_events_kept ON turn (ended_us)
    WHERE ended_us IS NOT NULL AND events_expired_us IS NULL;

CREATE TRIGGER turn_final_is_final BEFORE UPDATE OF status ON turn
WHEN old.status <> 'running' AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final turn does not change its status');
END;

CREATE TABLE turn_input (
    turn       BLOB    NOT NULL PRIMARY KEY REFERENCES turn (key),
    body       BLOB    NOT NULL,
    context    TEXT    NOT NULL,
    parent     BLOB    REFERENCES turn (key),
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    turn       BLOB    NOT NULL REFERENCES turn (key),
    round      INTEGER NOT NULL CHECK (round >= 0),
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    role       TEXT    NOT NULL CHECK (role IN ('system', 'developer', 'user', 'assistant', 'tool')),
    blocks     TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (turn, round, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_call (
    turn            BLOB    NOT NULL REFERENCES turn (key),
    round           INTEGER NOT NULL CHECK (round >= 1),
    position        INTEGER NOT NULL CHECK (position >= 0),
    organization    INTEGER NOT NULL,
    id              BLOB    NOT NULL,
    runs            TEXT    NOT NULL CHECK (runs IN ('server', 'client', 'outside')),
    effect          TEXT    CHECK (effect IN ('read', 'idempotent', 'queryable', 'once')),
    tool_version    INTEGER,
    tool_name       TEXT    NOT NULL,
    tool_call_id    TEXT    NOT NULL,
    external_id     TEXT,
    callback_token  TEXT    NOT NULL UNIQUE,
    idempotency_key TEXT    NOT NULL,
    arguments       TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed')),
    reason          TEXT
        CHECK (reason IN ('invalid_arguments', 'unknown_tool', 'quota', 'denied', 'approval_expired',
                          'cancelled', 'interrupted', 'tool_error', 'not_sent', 'target_not_allowed',
                          'reset', 'timeout', 'deadline', 'panicked', 'outcome_unknown')),
    result          TEXT,
    shown           TEXT,
    is_error        INTEGER CHECK (is_error IN (0, 1)),
    cost_microusd   INTEGER,
    deadline_us     INTEGER,
    started_us      INTEGER,
    ended_us        INTEGER,
    created_us      INTEGER NOT NULL,
    updated_us      INTEGER NOT NULL,
    PRIMARY KEY (turn, round, position),
    UNIQUE (organization, id),
    CHECK ((status IN ('completed', 'failed')) = (ended_us IS NOT NULL)),
    CHECK ((status = 'failed') = (reason IS NOT NULL)),
    CHECK ((ended_us IS NULL) = (shown IS NULL) AND (ended_us IS NULL) = (is_error IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX tool_call_upstream ON tool_call (organization, tool_call_id) WHERE runs <> 'server';
CREATE INDEX tool_call_open ON tool_call (status, updated_us) WHERE status IN ('pending', 'processing');
CREATE UNIQUE INDEX tool_call_external ON tool_call (tool_version, external_id)
    WHERE external_id IS NOT NULL;

CREATE TRIGGER tool_call_final_is_final BEFORE UPDATE OF status ON tool_call
WHEN old.status IN ('completed', 'failed') AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final tool call does not change its status');
END;

CREATE TABLE attempt (
    turn        BLOB    NOT NULL REFERENCES turn (key),
    round       INTEGER NOT NULL CHECK (round >= 1),
    position    INTEGER NOT NULL CHECK (position >= -1),
    n           INTEGER NOT NULL CHECK (n >= 1),
    upstream    TEXT,
    outcome     TEXT,
    http_status INTEGER,
    usage       TEXT,
    ended_us    INTEGER,
    created_us  INTEGER NOT NULL,
    updated_us  INTEGER NOT NULL,
    PRIMARY KEY (turn, round, position, n),
    CHECK ((outcome IS NULL) = (ended_us IS NULL))
) STRICT, WITHOUT ROWID;
