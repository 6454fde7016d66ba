-- Requests that were answered by an upstream without a turn: embeddings, images, sound and the like.
--
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
