-- Organizations, their keys, and the record of turns.
--
-- Times are integer microseconds UTC (`…_us`), money is integer micro-dollars.
-- Keys inside are integers; ids that leave the process are text.
-- JSON columns are text, so that it comes back byte for byte.

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
    -- SHA-256 of the key; the key itself is kept nowhere.
    hash         BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    shown        TEXT    NOT NULL,
    -- Words with a space between them.
    scopes       TEXT    NOT NULL,
    tool_grant   TEXT    NOT NULL CHECK (tool_grant IN ('none', 'all', 'named')),
    record       TEXT    NOT NULL CHECK (record IN ('full', 'minimal')),
    memory       TEXT    NOT NULL CHECK (memory IN ('off', 'key')),
    expires_us   INTEGER,
    last_used_us INTEGER,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    -- The target of the turn's reference, which keeps a turn and its key in one organization.
    UNIQUE (organization, key)
) STRICT;

-- Tools by name, of a key whose grant is 'named', in the order given.
CREATE TABLE api_key_tool (
    api_key    INTEGER NOT NULL REFERENCES api_key (key) ON DELETE CASCADE,
    place      INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (api_key, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE end_user (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    name         TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, name)
) STRICT;

CREATE TABLE tool (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    name         TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, name)
) STRICT;

-- A running call keeps the version that it started with.
CREATE TABLE tool_version (
    key        INTEGER PRIMARY KEY,
    tool       INTEGER NOT NULL REFERENCES tool (key),
    version    INTEGER NOT NULL CHECK (version >= 1),
    definition TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    UNIQUE (tool, version)
) STRICT;

CREATE TABLE conversation (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    id           TEXT    NOT NULL,
    end_user     INTEGER REFERENCES end_user (key),
    -- The turn at the end of the path that flat shapes show.
    head_turn    INTEGER REFERENCES turn (key),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, id)
) STRICT;

CREATE TABLE turn (
    key                INTEGER PRIMARY KEY,
    organization       INTEGER NOT NULL,
    id                 TEXT    NOT NULL,
    api_key            INTEGER NOT NULL,
    end_user           INTEGER REFERENCES end_user (key),
    conversation       INTEGER NOT NULL REFERENCES conversation (key),
    conversation_named INTEGER NOT NULL CHECK (conversation_named IN (0, 1)),
    parent             INTEGER REFERENCES turn (key),
    memory_turn        INTEGER REFERENCES turn (key),
    history_hash       BLOB    CHECK (length(history_hash) = 32),
    surface            TEXT    NOT NULL CHECK (surface IN ('chat_completions')),
    streamed           INTEGER NOT NULL CHECK (streamed IN (0, 1)),
    on_leave           TEXT    NOT NULL CHECK (on_leave IN ('stop', 'finish')),
    record             TEXT    NOT NULL CHECK (record IN ('full', 'minimal')),
    model              TEXT    NOT NULL,
    request_id         TEXT    NOT NULL,
    body_hash          BLOB    NOT NULL CHECK (length(body_hash) = 32),
    projector_version  INTEGER NOT NULL,
    -- Who drives the turn, and under which claim; each claim raises the fence.
    owner              TEXT    NOT NULL,
    fence              INTEGER NOT NULL CHECK (fence >= 1),
    status             TEXT    NOT NULL
        CHECK (status IN ('running', 'completed', 'incomplete', 'failed', 'cancelled')),
    reason             TEXT
        CHECK (reason IN ('length', 'rounds', 'calls', 'cost', 'deadline', 'interrupted',
                          'upstream', 'internal', 'client_left', 'requested')),
    -- Set while the turn is being stopped: it ends when what runs has ended.
    stop_reason        TEXT
        CHECK (stop_reason IN ('length', 'rounds', 'calls', 'cost', 'deadline', 'interrupted',
                               'upstream', 'internal', 'client_left', 'requested')),
    usage              TEXT,
    cost_microusd      INTEGER,
    has_tool_calls     INTEGER NOT NULL DEFAULT 0 CHECK (has_tool_calls IN (0, 1)),
    tool_count         INTEGER NOT NULL DEFAULT 0 CHECK (tool_count >= 0),
    deadline_us        INTEGER NOT NULL,
    -- The whole answer was handed to the client's connection.
    answered_us        INTEGER,
    ended_us           INTEGER,
    erase_after_us     INTEGER,
    erased_us          INTEGER,
    events_expired_us  INTEGER,
    created_us         INTEGER NOT NULL,
    updated_us         INTEGER NOT NULL,
    UNIQUE (organization, id),
    FOREIGN KEY (organization, api_key) REFERENCES api_key (organization, key),
    CHECK ((status = 'running') = (ended_us IS NULL))
) STRICT;

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
    turn       INTEGER PRIMARY KEY REFERENCES turn (key),
    -- The request as it came; empty once erased.
    body       BLOB    NOT NULL,
    -- What recovery needs beside the body, encoded.
    context    TEXT    NOT NULL,
    -- Where the messages that were cut out of the body stand.
    parent     INTEGER REFERENCES turn (key),
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT;

CREATE TABLE message (
    turn       INTEGER NOT NULL REFERENCES turn (key),
    -- 0 for what the request brought.
    round      INTEGER NOT NULL CHECK (round >= 0),
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    role       TEXT    NOT NULL CHECK (role IN ('system', 'developer', 'user', 'assistant', 'tool')),
    blocks     TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (turn, round, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_call (
    turn            INTEGER NOT NULL REFERENCES turn (key),
    round           INTEGER NOT NULL CHECK (round >= 1),
    position        INTEGER NOT NULL CHECK (position >= 0),
    -- The turn's, repeated so that look-ups by the ids below stay within it.
    organization    INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    runs            TEXT    NOT NULL CHECK (runs IN ('server', 'client', 'outside')),
    effect          TEXT    CHECK (effect IN ('read', 'idempotent', 'queryable', 'once')),
    tool_version    INTEGER REFERENCES tool_version (key),
    tool_name       TEXT    NOT NULL,
    -- The upstream's own id, which need not be unique.
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
    -- What the model is given.
    shown           TEXT,
    is_error        INTEGER CHECK (is_error IN (0, 1)),
    cost_microusd   INTEGER,
    deadline_us     INTEGER,
    -- Set by the write that comes before the first dispatch.
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

-- Only results that come from outside are looked up so; for our own calls a fourth index by a random id
-- would cost a tenth of the whole write.
CREATE INDEX tool_call_upstream ON tool_call (organization, tool_call_id) WHERE runs <> 'server';
CREATE INDEX tool_call_open ON tool_call (status, updated_us) WHERE status IN ('pending', 'processing');
CREATE UNIQUE INDEX tool_call_external ON tool_call (tool_version, external_id)
    WHERE external_id IS NOT NULL;

CREATE TRIGGER tool_call_final_is_final BEFORE UPDATE OF status ON tool_call
WHEN old.status IN ('completed', 'failed') AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final tool call does not change its status');
END;

-- One try of a round's model request, or of a call. Open while `outcome` is null.
CREATE TABLE attempt (
    turn        INTEGER NOT NULL REFERENCES turn (key),
    round       INTEGER NOT NULL CHECK (round >= 1),
    -- The call's; -1 for the model request, since a key column holds no null.
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

-- Flushes of a turn's log; each event keeps its own line.
CREATE TABLE turn_event (
    turn       INTEGER NOT NULL REFERENCES turn (key),
    first      INTEGER NOT NULL CHECK (first >= 1),
    count      INTEGER NOT NULL CHECK (count >= 1),
    -- The claim under which these were written: another driver may have shown other events
    -- under these numbers before it was cut off.
    fence      INTEGER NOT NULL CHECK (fence >= 1),
    payload    TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (turn, first)
) STRICT, WITHOUT ROWID;

CREATE TABLE request_key (
    organization INTEGER NOT NULL,
    api_key      INTEGER NOT NULL,
    -- 0 for nobody, since a key column holds no null.
    end_user     INTEGER NOT NULL,
    route        TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    body_hash    BLOB    NOT NULL CHECK (length(body_hash) = 32),
    turn         INTEGER NOT NULL REFERENCES turn (key),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    PRIMARY KEY (organization, api_key, end_user, route, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_key_age ON request_key (created_us);
