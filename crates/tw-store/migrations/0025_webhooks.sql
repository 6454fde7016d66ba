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
    turn         INTEGER REFERENCES turn (key),
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
