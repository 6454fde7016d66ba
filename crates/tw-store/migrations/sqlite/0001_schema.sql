-- Organizations, their keys, and the record of turns. `../postgres/` has the same for the other engine.
--
-- Times are integer microseconds UTC (`…_us`), money is integer micro-dollars. Yes and no are 1 and 0.
-- Keys inside are integers; ids that leave the process are text.
-- JSON columns are text, so that it comes back byte for byte.

-- The servers that use the database. Whoever's lease is over drives nothing any more.
CREATE TABLE instance (
    -- The first part of the owner of a turn that it drives.
    id             TEXT    PRIMARY KEY,
    lease_until_us INTEGER NOT NULL,
    created_us     INTEGER NOT NULL,
    updated_us     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE organization (
    key            INTEGER PRIMARY KEY,
    slug           TEXT    NOT NULL UNIQUE,
    name           TEXT    NOT NULL,
    -- Rises with each change to a tool of the organization, so that whoever keeps its tools sees when to read them
    -- again.
    tools_revision INTEGER NOT NULL DEFAULT 0,
    created_us     INTEGER NOT NULL,
    updated_us     INTEGER NOT NULL
) STRICT;

CREATE TABLE api_key (
    key                 INTEGER PRIMARY KEY,
    organization        INTEGER NOT NULL REFERENCES organization (key),
    id                  TEXT    NOT NULL,
    -- The key that made it over HTTP.
    created_by          INTEGER REFERENCES api_key (key),
    name                TEXT    NOT NULL,
    -- SHA-256 of the key; the key itself is kept nowhere.
    hash                BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    shown               TEXT    NOT NULL,
    -- Words with a space between them.
    scopes              TEXT    NOT NULL,
    tool_grant          TEXT    NOT NULL CHECK (tool_grant IN ('none', 'all', 'named')),
    -- What becomes of the key's tools where a request brings a list of its own.
    tools_mode          TEXT    NOT NULL CHECK (tools_mode IN ('replace', 'add')),
    record              TEXT    NOT NULL CHECK (record IN ('full', 'minimal')),
    memory              TEXT    NOT NULL CHECK (memory IN ('off', 'key')),
    -- Limits of its own. Null leaves it to the server's configuration, 0 is no limit.
    requests_per_minute INTEGER CHECK (requests_per_minute BETWEEN 0 AND 4294967295),
    concurrency_max     INTEGER CHECK (concurrency_max BETWEEN 0 AND 4294967295),
    streams_max         INTEGER CHECK (streams_max BETWEEN 0 AND 4294967295),
    expires_us          INTEGER,
    last_used_us        INTEGER,
    created_us          INTEGER NOT NULL,
    updated_us          INTEGER NOT NULL,
    -- The target of the turn's reference, which keeps a turn and its key in one organization.
    UNIQUE (organization, key),
    UNIQUE (organization, id)
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
    -- Set while the turns of a person who is to be forgotten are being deleted. Its name is another by then.
    erasing_us   INTEGER,
    UNIQUE (organization, name)
) STRICT;

CREATE INDEX end_user_erasing ON end_user (key) WHERE erasing_us IS NOT NULL;

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
    -- What SQL shows of the definition, as JSON; null of one that cannot be read.
    shown      TEXT,
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
    head_turn    INTEGER REFERENCES turn_start (key),
    -- The key that made the conversation by itself; null for one that its turns made by naming it.
    api_key      INTEGER REFERENCES api_key (key),
    -- JSON of an object.
    metadata     TEXT    NOT NULL DEFAULT '{}',
    -- The newest turn that was accepted to add items. While it runs, no other is.
    busy_turn    INTEGER REFERENCES turn_start (key),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, id)
) STRICT;

-- Those that have no turn yet are listed, too.
CREATE INDEX conversation_made ON conversation (organization, api_key) WHERE api_key IS NOT NULL;
CREATE INDEX conversation_made_for_user ON conversation (organization, end_user)
    WHERE api_key IS NOT NULL AND end_user IS NOT NULL;
CREATE INDEX conversation_made_of_all ON conversation (organization) WHERE api_key IS NOT NULL;

-- A turn: what is known when it is accepted, which is written once, and below how it stands. `turn` is both.
CREATE TABLE turn_start (
    key                INTEGER PRIMARY KEY,
    organization       INTEGER NOT NULL,
    id                 TEXT    NOT NULL,
    api_key            INTEGER NOT NULL,
    end_user           INTEGER REFERENCES end_user (key),
    conversation       INTEGER NOT NULL REFERENCES conversation (key),
    conversation_named INTEGER NOT NULL CHECK (conversation_named = 0 OR conversation_named = 1),
    parent             INTEGER REFERENCES turn_start (key),
    -- What became of looking for the turn that this one continues.
    memory             TEXT
        CHECK (memory IS NULL OR memory = 'attached' OR memory = 'new' OR memory = 'ambiguous'
            OR memory = 'mismatch' OR memory = 'off'),
    memory_turn        INTEGER REFERENCES turn_start (key),
    surface            TEXT    NOT NULL
        CHECK (surface = 'chat_completions' OR surface = 'messages' OR surface = 'responses'),
    streamed           INTEGER NOT NULL CHECK (streamed = 0 OR streamed = 1),
    on_leave           TEXT    NOT NULL CHECK (on_leave = 'stop' OR on_leave = 'finish'),
    record             TEXT    NOT NULL CHECK (record = 'full' OR record = 'minimal'),
    model              TEXT    NOT NULL,
    request_id         TEXT    NOT NULL,
    projector_version  INTEGER NOT NULL,
    deadline_us        INTEGER NOT NULL,
    -- Who the items are from that the turn adds to its conversation; null for a turn that adds none.
    item_source        TEXT
        CHECK (item_source IS NULL OR item_source = 'answer' OR item_source = 'client'),
    -- Nobody sees the turn any more; null for nearly all.
    deleted_us         INTEGER,
    created_us         INTEGER NOT NULL,
    updated_us         INTEGER NOT NULL,
    UNIQUE (organization, id),
    FOREIGN KEY (organization, api_key) REFERENCES api_key (organization, key)
) STRICT;

-- For all of an organization, for one key, and for one end user: which conversations there are, newest first, and the
-- turns of one in order, which is that of their keys.
CREATE INDEX turn_conversation ON turn_start (organization, conversation) WHERE deleted_us IS NULL;
CREATE INDEX turn_conversation_of_key ON turn_start (organization, api_key, conversation) WHERE deleted_us IS NULL;
CREATE INDEX turn_conversation_of_user ON turn_start (organization, end_user, conversation)
    WHERE deleted_us IS NULL AND end_user IS NOT NULL;

CREATE TABLE turn_state (
    turn              INTEGER PRIMARY KEY REFERENCES turn_start (key),
    -- The turn's, repeated for the looks by the hashes below.
    organization      INTEGER NOT NULL,
    api_key           INTEGER NOT NULL,
    -- The request names an end user or a conversation.
    names_somebody    INTEGER NOT NULL CHECK (names_somebody = 0 OR names_somebody = 1),
    -- SHA-256 of the request's body.
    body_hash         BLOB    NOT NULL CHECK (length(body_hash) = 32),
    -- Who drives the turn, and under which claim; each claim raises the fence.
    owner             TEXT    NOT NULL,
    fence             INTEGER NOT NULL CHECK (fence >= 1),
    -- Claims since the last one whose driver went on with the turn.
    claims_open       INTEGER NOT NULL DEFAULT 0 CHECK (claims_open >= 0),
    status            TEXT    NOT NULL
        CHECK (status = 'running' OR status = 'completed' OR status = 'incomplete' OR status = 'failed'
            OR status = 'cancelled'),
    reason            TEXT
        CHECK (reason IS NULL OR reason = 'length' OR reason = 'rounds' OR reason = 'calls'
            OR reason = 'cost' OR reason = 'deadline' OR reason = 'interrupted' OR reason = 'upstream'
            OR reason = 'internal' OR reason = 'client_left' OR reason = 'requested'),
    -- Set while the turn is being stopped: it ends when what runs has ended.
    stop_reason       TEXT
        CHECK (stop_reason IS NULL OR stop_reason = 'length' OR stop_reason = 'rounds'
            OR stop_reason = 'calls' OR stop_reason = 'cost' OR stop_reason = 'deadline'
            OR stop_reason = 'interrupted' OR stop_reason = 'upstream' OR stop_reason = 'internal'
            OR stop_reason = 'client_left' OR stop_reason = 'requested'),
    usage             TEXT,
    cost_microusd     INTEGER,
    has_tool_calls    INTEGER NOT NULL DEFAULT 0 CHECK (has_tool_calls = 0 OR has_tool_calls = 1),
    tool_count        INTEGER NOT NULL DEFAULT 0 CHECK (tool_count >= 0),
    -- Set by the write that ends the turn: a call of ours that is not `read` may have changed the world.
    had_effects       INTEGER NOT NULL DEFAULT 0 CHECK (had_effects = 0 OR had_effects = 1),
    -- It leads to its conversation's head: set by the write that ends the turn, and kept right by the trigger when the
    -- head moves elsewhere.
    on_head_path      INTEGER NOT NULL DEFAULT 0 CHECK (on_head_path = 0 OR on_head_path = 1),
    -- Begins with whom the history is of, so that two people never have one in common. Set by the write that ends the
    -- turn, and only for a turn that may be continued.
    history_hash      BLOB    CHECK (length(history_hash) = 32),
    -- Of all calls that the client never saw, in this turn and in those that it continues.
    hidden_hash       BLOB    CHECK (length(hidden_hash) = 32),
    -- The whole answer was handed to the client's connection.
    answered_us       INTEGER,
    ended_us          INTEGER,
    -- The contents of a turn that was deleted are due at once or with its end.
    erase_after_us    INTEGER,
    erased_us         INTEGER,
    events_expired_us INTEGER,
    created_us        INTEGER NOT NULL,
    updated_us        INTEGER NOT NULL,
    CHECK ((status = 'running') = (ended_us IS NULL))
) STRICT;

CREATE INDEX turn_unfinished ON turn_state (created_us) WHERE status = 'running';
CREATE INDEX turn_erase_due ON turn_state (erase_after_us) WHERE erase_after_us IS NOT NULL AND erased_us IS NULL;
-- Turns whose contents an organization keeps for so long and no longer.
CREATE INDEX turn_contents_kept ON turn_state (organization, ended_us)
    WHERE ended_us IS NOT NULL AND erased_us IS NULL;
CREATE INDEX turn_events_kept ON turn_state (ended_us) WHERE ended_us IS NOT NULL AND events_expired_us IS NULL;
-- The hidden half stands in it, so that whether all turns of one history have the same one costs two looks.
CREATE INDEX turn_memory ON turn_state (organization, api_key, history_hash, hidden_hash)
    WHERE history_hash IS NOT NULL;
-- Turns that a request may be a repetition of: of those that name nobody only those whose answer was not handed over,
-- and those that had effects.
CREATE INDEX turn_unanswered ON turn_state (organization, api_key, body_hash, created_us)
    WHERE answered_us IS NULL AND names_somebody = 0;
CREATE INDEX turn_named ON turn_state (organization, api_key, body_hash, created_us) WHERE names_somebody = 1;
CREATE INDEX turn_effects ON turn_state (organization, api_key, body_hash, created_us) WHERE had_effects = 1;

CREATE VIEW turn AS
SELECT t.key, t.organization, t.id, t.api_key, t.end_user, t.conversation, t.conversation_named, t.parent, t.memory,
    t.memory_turn, t.surface, t.streamed, t.on_leave, t.record, t.model, t.request_id, t.projector_version, t.deadline_us,
    t.item_source, t.deleted_us, t.created_us,
    s.body_hash, s.owner, s.fence, s.claims_open, s.status, s.reason, s.stop_reason, s.usage, s.cost_microusd,
    s.has_tool_calls, s.tool_count, s.had_effects, s.on_head_path, s.history_hash, s.hidden_hash, s.answered_us,
    s.ended_us, s.erase_after_us, s.erased_us, s.events_expired_us, s.updated_us
FROM turn_start t JOIN turn_state s ON s.turn = t.key;

CREATE TRIGGER turn_final_is_final AFTER UPDATE OF status ON turn_state
WHEN old.status <> 'running' AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final turn does not change its status');
END;

-- Nothing is to do where the new head continues the one before it: that is marked, and so is the path to it.
-- Otherwise the turns between the old head and where the paths part are not on the path any more, and those between
-- there and the new head are. The conversation's row is locked by the update.
CREATE TRIGGER conversation_head_moved AFTER UPDATE OF head_turn ON conversation
WHEN new.head_turn IS NOT old.head_turn
    AND NOT EXISTS (SELECT 1 FROM turn t
                    WHERE t.key = new.head_turn AND t.parent IS old.head_turn AND t.on_head_path = 1)
BEGIN
    UPDATE turn_state SET on_head_path = 0
    WHERE turn IN (
        WITH RECURSIVE coming (key, parent, is_known) AS (
            SELECT t.key, t.parent, 0 FROM turn t WHERE t.key = new.head_turn
            UNION
            SELECT t.key, t.parent, t.on_head_path
            FROM coming p JOIN turn t ON t.key = p.parent AND t.conversation = new.key
            WHERE p.is_known = 0
        ), going (key, parent) AS (
            SELECT t.key, t.parent FROM turn t
            WHERE t.key = old.head_turn AND t.key NOT IN (SELECT key FROM coming WHERE is_known = 1)
            UNION
            SELECT t.key, t.parent
            FROM going p JOIN turn t ON t.key = p.parent AND t.conversation = new.key
            WHERE t.key NOT IN (SELECT key FROM coming WHERE is_known = 1)
        )
        SELECT key FROM going
    );
    UPDATE turn_state SET on_head_path = 1
    WHERE on_head_path = 0 AND turn IN (
        WITH RECURSIVE coming (key, parent, is_known) AS (
            SELECT t.key, t.parent, 0 FROM turn t WHERE t.key = new.head_turn
            UNION
            SELECT t.key, t.parent, t.on_head_path
            FROM coming p JOIN turn t ON t.key = p.parent AND t.conversation = new.key
            WHERE p.is_known = 0
        )
        SELECT key FROM coming
    );
END;

CREATE TABLE turn_input (
    turn             INTEGER PRIMARY KEY REFERENCES turn_start (key),
    -- The request as it came, or what it does not have in common with that of `parent`; empty once erased.
    body             BLOB    NOT NULL,
    -- What recovery needs beside the body, encoded.
    context          TEXT    NOT NULL,
    -- The body is so much of the start of the body of `parent`, then `body`, then so much of that one's end; null for
    -- one that is stored whole.
    parent           INTEGER REFERENCES turn_start (key),
    kept_start_bytes INTEGER CHECK (kept_start_bytes >= 0),
    kept_end_bytes   INTEGER CHECK (kept_end_bytes >= 0),
    -- At most how many other bodies this one is made of.
    depth            INTEGER NOT NULL DEFAULT 0 CHECK (depth >= 0),
    -- What the body of the turn behind is compared with: how long the whole body is up to and with its last message,
    -- the SHA-256 of that, and that of the rest. Null for turns that are not continued, and once erased.
    start_bytes      INTEGER CHECK (start_bytes >= 0),
    start_hash       BLOB    CHECK (length(start_hash) = 32),
    end_hash         BLOB    CHECK (length(end_hash) = 32),
    -- Bytes of the text that stand in contents of their own; the text is whole with 0.
    blob_bytes       INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0),
    created_us       INTEGER NOT NULL,
    updated_us       INTEGER NOT NULL
) STRICT;

CREATE INDEX turn_input_parent ON turn_input (parent) WHERE parent IS NOT NULL;

CREATE TABLE message (
    turn       INTEGER NOT NULL REFERENCES turn_start (key),
    -- 0 for what the request brought.
    round      INTEGER NOT NULL CHECK (round >= 0),
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    role       TEXT    NOT NULL
        CHECK (role = 'system' OR role = 'developer' OR role = 'user' OR role = 'assistant'
            OR role = 'tool'),
    blocks     TEXT    NOT NULL,
    blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0),
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (turn, round, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_call (
    turn            INTEGER NOT NULL REFERENCES turn_start (key),
    -- 0 for calls that no round of the model made: those that a turn runs because they were approved.
    round           INTEGER NOT NULL CHECK (round >= 0),
    position        INTEGER NOT NULL CHECK (position >= 0),
    -- The turn's, repeated so that look-ups by the ids below stay within it.
    organization    INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    runs            TEXT    NOT NULL CHECK (runs = 'server' OR runs = 'client' OR runs = 'outside'),
    effect          TEXT
        CHECK (effect IS NULL OR effect = 'read' OR effect = 'idempotent' OR effect = 'queryable'
            OR effect = 'once'),
    tool_version    INTEGER REFERENCES tool_version (key),
    tool_name       TEXT    NOT NULL,
    -- The upstream's own id, which need not be unique.
    tool_call_id    TEXT    NOT NULL,
    external_id     TEXT,
    -- The guard of the callback that may end a job.
    callback_token  TEXT,
    idempotency_key TEXT    NOT NULL,
    arguments       TEXT    NOT NULL,
    -- What of the call may not be shown, as JSON; null of one whose tool calls nothing sensitive.
    sensitive       TEXT,
    status          TEXT    NOT NULL
        CHECK (status = 'pending' OR status = 'processing' OR status = 'completed' OR status = 'failed'),
    reason          TEXT
        CHECK (reason IS NULL OR reason = 'invalid_arguments' OR reason = 'unknown_tool'
            OR reason = 'quota' OR reason = 'denied' OR reason = 'approval_expired'
            OR reason = 'cancelled' OR reason = 'interrupted' OR reason = 'tool_error'
            OR reason = 'not_sent' OR reason = 'target_not_allowed' OR reason = 'reset'
            OR reason = 'timeout' OR reason = 'deadline' OR reason = 'panicked'
            OR reason = 'outcome_unknown'),
    result          TEXT,
    -- What the model is given.
    shown           TEXT,
    is_error        INTEGER CHECK (is_error IS NULL OR is_error = 0 OR is_error = 1),
    -- The answer of an earlier call was given; nothing was sent.
    cached          INTEGER NOT NULL DEFAULT 0 CHECK (cached = 0 OR cached = 1),
    -- Bytes of the result that stand in contents of their own.
    blob_bytes      INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0),
    cost_microusd   INTEGER,
    deadline_us     INTEGER,
    -- How it stands with the approval of a call that needs one. The question is open until `deadline_us` while it is
    -- 'asked'.
    approval        TEXT
        CHECK (approval IS NULL OR approval = 'needed' OR approval = 'asked' OR approval = 'approved'
            OR approval = 'denied' OR approval = 'expired'),
    -- The id of the call that was asked about and that this one acts on, in round 0 of the turn that brought the answer.
    approves        TEXT,
    -- What the model was told in place of a result when the turn went on without the call's end. It stays, whatever the
    -- end is. `deadline_us` is the time until which a callback must have ended the call.
    told            TEXT,
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

CREATE UNIQUE INDEX tool_call_callback ON tool_call (callback_token) WHERE callback_token IS NOT NULL;
-- Calls are found by their upstream's id, whoever ran them, and those that failed without a look at the others.
CREATE INDEX tool_call_upstream ON tool_call (tool_call_id, organization);
CREATE INDEX tool_call_sensitive ON tool_call (turn, round) WHERE sensitive IS NOT NULL;
CREATE INDEX tool_call_failed ON tool_call (organization, turn, round, position) WHERE is_error = 1;
-- A version that no call ran goes when newer ones have come.
CREATE INDEX tool_call_version ON tool_call (tool_version) WHERE tool_version IS NOT NULL;
CREATE INDEX tool_call_open ON tool_call (organization, created_us, id) WHERE ended_us IS NULL;
CREATE INDEX tool_call_awaited ON tool_call (deadline_us)
    WHERE deadline_us IS NOT NULL AND approval IS NULL AND ended_us IS NULL;
-- A question is answered once, whoever answers.
CREATE UNIQUE INDEX tool_call_approves ON tool_call (organization, approves) WHERE approves IS NOT NULL;
CREATE INDEX tool_call_asked ON tool_call (deadline_us) WHERE approval = 'asked';

CREATE TRIGGER tool_call_final_is_final AFTER UPDATE OF status ON tool_call
WHEN old.ended_us IS NOT NULL AND new.status <> old.status
BEGIN
    SELECT RAISE(ABORT, 'a final tool call does not change its status');
END;

-- A result that a client brought is a block of a message. Here it is found by its call, as a call's row is.
CREATE TABLE brought_result (
    turn         INTEGER NOT NULL REFERENCES turn_start (key),
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

-- One try of a round's model request, or of a call. Open while `outcome` is null.
CREATE TABLE attempt (
    turn          INTEGER NOT NULL REFERENCES turn_start (key),
    round         INTEGER NOT NULL CHECK (round >= 0),
    -- The call's; -1 for the model request, since a key column holds no null.
    position      INTEGER NOT NULL CHECK (position >= -1),
    n             INTEGER NOT NULL CHECK (n >= 1),
    upstream      TEXT,
    outcome       TEXT,
    http_status   INTEGER,
    usage         TEXT,
    -- By the prices of its time; null where none was set.
    cost_microusd INTEGER CHECK (cost_microusd >= 0),
    ended_us      INTEGER,
    created_us    INTEGER NOT NULL,
    updated_us    INTEGER NOT NULL,
    PRIMARY KEY (turn, round, position, n),
    CHECK ((outcome IS NULL) = (ended_us IS NULL))
) STRICT, WITHOUT ROWID;

-- Flushes of a turn's log; each event keeps its own line.
CREATE TABLE turn_event (
    turn       INTEGER NOT NULL REFERENCES turn_start (key),
    first      INTEGER NOT NULL CHECK (first >= 1),
    count      INTEGER NOT NULL CHECK (count >= 1),
    -- The claim under which these were written: another driver may have shown other events under these numbers before
    -- it was cut off.
    fence      INTEGER NOT NULL CHECK (fence >= 1),
    payload    TEXT    NOT NULL,
    blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0),
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
    turn         INTEGER NOT NULL REFERENCES turn_start (key),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    PRIMARY KEY (organization, api_key, end_user, route, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_key_age ON request_key (created_us);

-- Whoever keeps something of turns sees here when to read it again: how often turns were deleted or erased.
CREATE TABLE forgotten (
    times INTEGER NOT NULL
) STRICT;

INSERT INTO forgotten VALUES (0);

CREATE TRIGGER turn_is_erased AFTER UPDATE OF erased_us ON turn_state
BEGIN
    UPDATE forgotten SET times = times + 1;
END;

-- Requests that were answered by an upstream without a turn: embeddings, images, sound and the like.
-- A row is written when the request is over. Nothing of what was said is kept.
CREATE TABLE relayed_request (
    key            INTEGER PRIMARY KEY,
    organization   INTEGER NOT NULL REFERENCES organization (key),
    api_key        INTEGER NOT NULL,
    end_user       INTEGER REFERENCES end_user (key),
    -- The route, without its query.
    path           TEXT    NOT NULL,
    -- As the client wrote it, or the API's default where it wrote none.
    model          TEXT    NOT NULL,
    -- The upstream that was asked last, and how many requests upstreams were sent.
    upstream       TEXT    NOT NULL,
    attempts       INTEGER NOT NULL CHECK (attempts >= 1),
    outcome        TEXT    NOT NULL CHECK (outcome IN ('completed', 'failed', 'cancelled')),
    -- What the client was answered, if anything.
    http_status    INTEGER,
    -- From the answer's `usage`, where it has one.
    input_tokens   INTEGER,
    output_tokens  INTEGER,
    request_bytes  INTEGER NOT NULL,
    response_bytes INTEGER NOT NULL,
    request_id     TEXT    NOT NULL,
    created_us     INTEGER NOT NULL,
    ended_us       INTEGER NOT NULL,
    updated_us     INTEGER NOT NULL,
    FOREIGN KEY (organization, api_key) REFERENCES api_key (organization, key)
) STRICT;

-- For what is asked of one organization, and for the sweep.
CREATE INDEX relayed_request_of ON relayed_request (organization, created_us);
CREATE INDEX relayed_request_old ON relayed_request (ended_us);

-- What is handed to clients sealed is opened by this database alone.
CREATE TABLE seal (
    -- One row.
    key    INTEGER PRIMARY KEY CHECK (key = 1),
    -- Random, and the same for as long as the database is there.
    secret BLOB    NOT NULL CHECK (length(secret) = 32)
) STRICT;

INSERT INTO seal VALUES (1, randomblob(32));

-- Items that were taken out of their conversation.
CREATE TABLE deleted_item (
    turn       INTEGER NOT NULL REFERENCES turn_start (key),
    id         TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (turn, id)
) STRICT, WITHOUT ROWID;

-- Large contents (images, files, sounds) are stored once for an organization, and the texts that hold them without them.
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
    turn         INTEGER NOT NULL REFERENCES turn_start (key),
    holder       TEXT    NOT NULL
        CHECK (holder = 'body' OR holder = 'message' OR holder = 'result' OR holder = 'events' OR holder = 'file'),
    -- The row that holds the text, among those of its kind and turn: (round, seq) of a message, (round, position) of a
    -- call, (0, first) of events; of a body (0, 0), and (0, 1) once it was made whole. A file that a call made is a
    -- content by itself, by (round, position) of the call, and `at` is its place among them.
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

-- A content goes with the last text that held it, whatever removed that. The lock comes first, so that whoever refers to
-- it or removes another use of it is seen or waits; each statement sees what was committed before it.
CREATE TRIGGER blob_is_unused AFTER DELETE ON blob_use
WHEN NOT EXISTS (SELECT 1 FROM blob_use WHERE organization = old.organization AND blob = old.blob)
BEGIN
    DELETE FROM blob WHERE key = old.blob;
END;

-- The files that a call made. They go with the contents of its turn.
CREATE TABLE call_file (
    turn         INTEGER NOT NULL REFERENCES turn_start (key),
    round        INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    n            INTEGER NOT NULL CHECK (n >= 0),
    organization INTEGER NOT NULL REFERENCES organization (key),
    id           TEXT    NOT NULL UNIQUE,
    -- Null for one that is not in our storage.
    content_type TEXT,
    -- SHA-256.
    hash         BLOB    CHECK (length(hash) = 32),
    bytes        INTEGER NOT NULL CHECK (bytes >= 0),
    -- Why it is not.
    fault        TEXT,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    PRIMARY KEY (turn, round, position, n),
    CHECK ((fault IS NULL) = (content_type IS NOT NULL AND hash IS NOT NULL))
) STRICT;

-- What the files of an organization take, each counted as often as it was made.
CREATE TABLE file_room (
    organization INTEGER PRIMARY KEY REFERENCES organization (key),
    bytes        INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    files        INTEGER NOT NULL DEFAULT 0 CHECK (files >= 0),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER call_file_is_gone AFTER DELETE ON call_file WHEN old.fault IS NULL
BEGIN
    UPDATE file_room SET bytes = bytes - old.bytes, files = files - 1 WHERE organization = old.organization;
END;

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
    spender       TEXT    NOT NULL
        CHECK (spender = 'organization' OR spender = 'key' OR spender = 'end_user'),
    -- The row of the key or the end user; 0 for the organization.
    spender_key   INTEGER NOT NULL,
    cost_microusd INTEGER NOT NULL,
    created_us    INTEGER NOT NULL,
    updated_us    INTEGER NOT NULL,
    PRIMARY KEY (organization, month, spender, spender_key)
) STRICT, WITHOUT ROWID;

-- What was used of quotas in an hour or a minute of the clock: calls that were started, tokens that models used.
CREATE TABLE quota_use (
    organization INTEGER NOT NULL REFERENCES organization (key),
    unit         TEXT    NOT NULL CHECK (unit = 'calls' OR unit = 'tokens'),
    -- Hours of calls, minutes of tokens, since 1970 UTC.
    period       INTEGER NOT NULL,
    holder       TEXT    NOT NULL CHECK (holder = 'organization' OR holder = 'key' OR holder = 'end_user'),
    -- The row of the key or the end user; 0 for the organization.
    holder_key   INTEGER NOT NULL,
    -- The tool's name, or nothing for all tools together.
    tool         TEXT    NOT NULL,
    used         INTEGER NOT NULL CHECK (used >= 0),
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    PRIMARY KEY (organization, unit, period, holder, holder_key, tool)
) STRICT, WITHOUT ROWID;

CREATE INDEX quota_use_old ON quota_use (updated_us);

-- Webhooks of organizations, and what they are told: the outbox, which also keeps what became of each delivery.
--
-- A delivery's row is written by the transaction of the change that it tells of. It holds no contents: what is sent is
-- made of the turn's rows, which are final by then.
CREATE TABLE webhook (
    key          INTEGER PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization (key),
    id           TEXT    NOT NULL,
    -- Empty once deleted.
    url          TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    -- Kinds of events, as bits.
    events       INTEGER NOT NULL,
    contents     TEXT    NOT NULL CHECK (contents IN ('none', 'full')),
    -- Null while it is told.
    disabled     TEXT    CHECK (disabled IN ('by_hand', 'gone', 'failing')),
    disabled_us  INTEGER,
    -- The first of the failures since something was delivered, and how many there were.
    failing_us   INTEGER,
    failures     INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    delivered_us INTEGER,
    -- Its deliveries go with the next sweeps, and then the row.
    deleted_us   INTEGER,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    UNIQUE (organization, id),
    CHECK ((disabled IS NULL) = (disabled_us IS NULL))
) STRICT;

-- What each end of a turn and of a call asks: whether somebody is to be told.
CREATE INDEX webhook_told ON webhook (organization) WHERE disabled IS NULL AND deleted_us IS NULL;

CREATE TABLE webhook_secret (
    key        INTEGER PRIMARY KEY,
    webhook    INTEGER NOT NULL REFERENCES webhook (key) ON DELETE CASCADE,
    secret     BLOB    NOT NULL CHECK (length(secret) BETWEEN 24 AND 64),
    -- Null for the newest.
    expires_us INTEGER,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL
) STRICT;

CREATE INDEX webhook_secret_of ON webhook_secret (webhook);

CREATE TABLE webhook_delivery (
    key          INTEGER PRIMARY KEY,
    webhook      INTEGER NOT NULL REFERENCES webhook (key),
    event        TEXT    NOT NULL
        CHECK (event IN ('turn.completed', 'turn.incomplete', 'turn.failed', 'turn.cancelled', 'call.completed',
                         'call.failed', 'webhook.test')),
    -- The `webhook-id`, the same in every attempt.
    event_id     TEXT    NOT NULL,
    -- Null for a test. With round and position the event is of a call.
    turn         INTEGER REFERENCES turn_start (key),
    round        INTEGER,
    position     INTEGER,
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'delivered', 'dead')),
    -- Attempts that were begun, and those of them since the last replay.
    attempts     INTEGER NOT NULL DEFAULT 0,
    tries        INTEGER NOT NULL DEFAULT 0,
    -- The process that is sending it; while it does, `due_us` is when others may.
    claimed_by   TEXT,
    due_us       INTEGER NOT NULL,
    http_status  INTEGER,
    fault        TEXT,
    delivered_us INTEGER,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    -- Nothing is told twice, whatever is written twice.
    UNIQUE (webhook, event_id),
    CHECK ((round IS NULL) = (position IS NULL))
) STRICT;

CREATE INDEX webhook_delivery_of ON webhook_delivery (webhook);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook, due_us) WHERE state = 'pending';
CREATE INDEX webhook_delivery_dead ON webhook_delivery (webhook) WHERE state = 'dead';
CREATE INDEX webhook_delivery_claimed ON webhook_delivery (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX webhook_delivery_over ON webhook_delivery (updated_us) WHERE state <> 'pending';

CREATE TABLE webhook_attempt (
    delivery    INTEGER NOT NULL REFERENCES webhook_delivery (key) ON DELETE CASCADE,
    n           INTEGER NOT NULL CHECK (n >= 1),
    http_status INTEGER,
    -- Null for one that was taken.
    fault       TEXT,
    ended_us    INTEGER NOT NULL,
    created_us  INTEGER NOT NULL,
    updated_us  INTEGER NOT NULL,
    PRIMARY KEY (delivery, n)
) STRICT, WITHOUT ROWID;

-- The jobs of calls that are open and that are asked about. A row goes with the end of its call.
CREATE TABLE job (
    key            INTEGER PRIMARY KEY,
    organization   INTEGER NOT NULL REFERENCES organization (key),
    turn           INTEGER NOT NULL REFERENCES turn_start (key),
    round          INTEGER NOT NULL,
    position       INTEGER NOT NULL,
    -- The id by which its tool knows it, once it is known. It stays when the contents of the turn are erased.
    external_id    TEXT,
    -- When it is asked about next; while somebody does, when others may.
    due_us         INTEGER NOT NULL,
    -- The process that is asking.
    claimed_by     TEXT,
    -- Polls that were settled, since a callback came if one has.
    polls          INTEGER NOT NULL DEFAULT 0 CHECK (polls >= 0),
    called_back_us INTEGER,
    -- A callback that is the answer; no poll is needed.
    answer         TEXT,
    -- How the last poll went, and for how many nothing was heard.
    polled_us      INTEGER,
    http_status    INTEGER,
    fault          TEXT,
    faults         INTEGER NOT NULL DEFAULT 0 CHECK (faults >= 0),
    created_us     INTEGER NOT NULL,
    updated_us     INTEGER NOT NULL,
    UNIQUE (turn, round, position)
) STRICT;

CREATE INDEX job_due ON job (organization, due_us);
CREATE INDEX job_claimed ON job (claimed_by) WHERE claimed_by IS NOT NULL;

-- Everything that came to the address of a callback, refused or not.
CREATE TABLE callback_delivery (
    key          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    -- Null for one that names no call.
    organization INTEGER REFERENCES organization (key),
    turn         INTEGER REFERENCES turn_start (key),
    round        INTEGER,
    position     INTEGER,
    -- As the address says.
    tool         TEXT    NOT NULL,
    -- The sender's own id, or the body's hash: of two that are equal, the second is a duplicate.
    sender_id    TEXT,
    -- The address of the sender.
    source       TEXT    NOT NULL,
    verdict      TEXT    NOT NULL CHECK (verdict IN ('genuine', 'forged', 'unknown')),
    -- Why it is no genuine one.
    fault        TEXT,
    outcome      TEXT    NOT NULL
        CHECK (outcome IN ('completed', 'failed', 'progress', 'kept', 'duplicate', 'late', 'malformed', 'refused')),
    -- It came before the answer to the request that started the job was written.
    early        INTEGER NOT NULL CHECK (early IN (0, 1)),
    body_bytes   INTEGER NOT NULL,
    body_hash    BLOB    NOT NULL CHECK (length(body_hash) = 32),
    -- Of a genuine one that did something or could not be read, until the contents of its turn are erased.
    body         BLOB,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    CHECK ((organization IS NULL) = (turn IS NULL)),
    CHECK ((turn IS NULL) = (round IS NULL)),
    CHECK ((round IS NULL) = (position IS NULL))
) STRICT;

CREATE INDEX callback_delivery_of ON callback_delivery (turn, round, position, sender_id) WHERE turn IS NOT NULL;
CREATE INDEX callback_delivery_old ON callback_delivery (created_us);

-- Rows that applications insert into a view, until a server has appended them. One that cannot be appended stays for a
-- while, with the reason. No key is given twice: who takes a row out knows it by its key, and another may have done so
-- meanwhile.
CREATE TABLE queued_row (
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
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
