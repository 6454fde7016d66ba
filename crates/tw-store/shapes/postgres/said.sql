-- What the views of a shape are made of. Nobody but their owner reads these.

-- A stored text as JSON. What `jsonb` has no place for, which are NUL and halves of surrogate pairs, is U+FFFD.
CREATE OR REPLACE FUNCTION stored_json(stored text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF strpos(stored, '\u') > 0 THEN
        stored := regexp_replace(stored, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
        stored := regexp_replace(stored,
            '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])', '\1\\ufffd', 'g');
        stored := regexp_replace(stored,
            '(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)((?:\\\\)*)\\u[dD][c-fC-F][0-9a-fA-F]{2}', '\1\\ufffd', 'g');
    END IF;
    RETURN stored::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

-- Functions are bound to what they call when they are made, so that nobody needs the schema on their path.

-- A text that somebody else wrote: the JSON that it is, or itself as a JSON string.
CREATE OR REPLACE FUNCTION json_or_text(written text) RETURNS jsonb LANGUAGE sql IMMUTABLE
    RETURN coalesce(stored_json(written), to_jsonb(written));

CREATE OR REPLACE FUNCTION time_of(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE
    RETURN timestamptz 'epoch' + us * interval '1 microsecond';

-- The organization whose rows whoever asks is shown.
CREATE OR REPLACE VIEW whose WITH (security_barrier) AS
SELECT organization, api_key FROM reader WHERE role = current_user;

-- The turns that lead to the heads of conversations.
CREATE OR REPLACE VIEW path_turn AS
SELECT t.key, t.id, t.organization, t.conversation, t.model, t.item_source, t.created_us, s.ended_us,
       c.id AS conversation_id
FROM conversation c JOIN turn_start t ON t.organization = c.organization AND t.conversation = c.key
     JOIN turn_state s ON s.turn = t.key
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND t.organization = (SELECT w.organization FROM whose w)
  AND s.on_head_path = 1 AND s.status IN ('completed', 'incomplete')
  AND t.deleted_us IS NULL AND s.erased_us IS NULL
  -- Of which something was taken out of the conversation.
  AND NOT EXISTS (SELECT 1 FROM deleted_item d WHERE d.turn = t.key);

-- Messages with their large contents, which are stored apart, in their places.
CREATE OR REPLACE VIEW stored_message AS
SELECT m.turn, m.round, m.seq, m.role, m.created_us,
       CASE WHEN m.blob_bytes = 0 THEN m.blocks ELSE (
           SELECT convert_from(
               string_agg(substring(convert_to(m.blocks, 'UTF8') FROM g.since + 1 FOR g.until - g.since) || g.content,
                          ''::bytea ORDER BY g.at)
               || substring(convert_to(m.blocks, 'UTF8') FROM max(g.until) + 1), 'UTF8')
           FROM (
               SELECT p.at, p.content, (p.at - p.before)::integer AS until,
                      (lag(p.at - p.before, 1, 0::bigint) OVER (ORDER BY p.at))::integer AS since
               FROM (
                   SELECT u.at, b.content, (sum(octet_length(b.content)) OVER (ORDER BY u.at)
                          - octet_length(b.content))::bigint AS before
                   FROM blob_use u JOIN blob b ON b.key = u.blob
                   WHERE u.turn = m.turn AND u.holder = 'message' AND u.round = m.round AND u.place = m.seq
               ) p
           ) g
       ) END AS blocks
FROM message m;

-- A text with `***` for each of these texts, one after another.
CREATE OR REPLACE FUNCTION masked_text(shown text, hidden jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    place integer;
BEGIN
    IF hidden IS NULL THEN
        RETURN '***';
    END IF;
    FOR place IN 0 .. jsonb_array_length(hidden) - 1 LOOP
        shown := replace(shown, hidden ->> place, '***');
    END LOOP;
    RETURN shown;
END $$;

-- The same in the blocks of a result.
CREATE OR REPLACE FUNCTION masked_blocks(blocks jsonb, hidden jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE
    RETURN (SELECT jsonb_agg(jsonb_build_object('text', CASE WHEN e.block ? 'text' THEN masked_text(e.block ->> 'text', hidden)
                                                             ELSE '***' END) ORDER BY e.place)
            FROM jsonb_array_elements(blocks) WITH ORDINALITY AS e (block, place));

-- The id of the call that a client was handed by this name.
CREATE OR REPLACE FUNCTION handed_call(name text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN name LIKE 'call\_%' AND length(name) = 37
                THEN concat_ws('-', substring(name FROM 6 FOR 8), substring(name FROM 14 FOR 4), substring(name FROM 18 FOR 4),
                               substring(name FROM 22 FOR 4), substring(name FROM 26)) END;

-- Messages with `***` for what tools call sensitive, also where a client brings it back.
CREATE OR REPLACE VIEW whole_message AS
SELECT m.turn, m.round, m.seq, m.role, m.created_us,
       CASE WHEN m.round > 0 AND m.role = 'assistant' AND EXISTS (
                SELECT 1 FROM tool_call c WHERE c.turn = m.turn AND c.round = m.round AND c.sensitive IS NOT NULL)
       THEN (
           SELECT jsonb_agg(coalesce(
               (SELECT jsonb_set(e.block, '{call,a}', stored_json(c.sensitive) -> 'arguments')
                FROM tool_call c
                WHERE c.turn = m.turn AND c.round = m.round AND c.sensitive IS NOT NULL
                  AND c.tool_call_id = e.block #>> '{call,id}' LIMIT 1), e.block) ORDER BY e.place)::text
           FROM jsonb_array_elements(stored_json(m.blocks)) WITH ORDINALITY AS e (block, place)
       )
       WHEN m.round = 0 AND strpos(m.blocks, '"call_') > 0 AND EXISTS (
                SELECT 1 FROM tool_call c WHERE c.sensitive IS NOT NULL)
       THEN (
           SELECT jsonb_agg(coalesce(
               (SELECT CASE WHEN e.block ? 'call'
                            THEN jsonb_set(e.block, '{call,a}', stored_json(c.sensitive) -> 'arguments')
                            ELSE jsonb_set(e.block, '{result,b}', masked_blocks(
                                     e.block #> '{result,b}', stored_json(c.sensitive) -> 'hidden')) END
                FROM tool_call c
                WHERE c.organization = (SELECT w.organization FROM whose w) AND c.sensitive IS NOT NULL
                  AND c.id = handed_call(coalesce(e.block #>> '{call,id}', e.block #>> '{result,id}'))),
               e.block) ORDER BY e.place)::text
           FROM jsonb_array_elements(stored_json(m.blocks)) WITH ORDINALITY AS e (block, place)
       ) ELSE m.blocks END AS blocks
FROM stored_message m;

-- What was said, in the order of (turn, round, seq). What an assistant said in pieces, as a client brought it, is the
-- message of the first one.
CREATE OR REPLACE VIEW said_message AS
SELECT t.key AS turn, t.id AS turn_id, t.conversation_id, t.model, m.round, m.seq, m.role, m.created_us + m.seq AS at_us,
       stored_json(CASE
           WHEN m.round = 0 AND m.role = 'assistant' AND EXISTS (
               SELECT 1 FROM message n
               WHERE n.turn = m.turn AND n.round = 0 AND n.seq = m.seq + 1 AND n.role = 'assistant')
           THEN (
               SELECT '[' || string_agg(substring(p.blocks FROM 2 FOR length(p.blocks) - 2), ',' ORDER BY p.seq) || ']'
               FROM whole_message p
               WHERE p.turn = m.turn AND p.round = 0 AND p.seq >= m.seq AND p.blocks <> '[]'
                 AND NOT EXISTS (SELECT 1 FROM message o
                                 WHERE o.turn = m.turn AND o.round = 0 AND o.seq > m.seq AND o.seq <= p.seq
                                   AND o.role <> 'assistant')
           )
           ELSE m.blocks END) AS blocks
FROM path_turn t JOIN whole_message m ON m.turn = t.key
WHERE NOT (m.round = 0 AND m.role = 'assistant' AND EXISTS (
    SELECT 1 FROM message b
    WHERE b.turn = m.turn AND b.round = 0 AND b.seq = m.seq - 1 AND b.role = 'assistant'));

-- Calls with all of their results.
CREATE OR REPLACE VIEW stored_call AS
SELECT c.turn, c.round, c.position, c.organization, c.id, c.runs, c.tool_name, c.tool_call_id, c.external_id, c.arguments,
       c.sensitive, c.status, c.reason, c.shown, c.is_error, c.approval, c.approves, c.cost_microusd, c.started_us, c.ended_us,
       c.created_us,
       CASE WHEN c.result IS NULL THEN c.shown WHEN c.blob_bytes = 0 THEN c.result ELSE (
           SELECT convert_from(
               string_agg(substring(convert_to(c.result, 'UTF8') FROM g.since + 1 FOR g.until - g.since) || g.content,
                          ''::bytea ORDER BY g.at)
               || substring(convert_to(c.result, 'UTF8') FROM max(g.until) + 1), 'UTF8')
           FROM (
               SELECT p.at, p.content, (p.at - p.before)::integer AS until,
                      (lag(p.at - p.before, 1, 0::bigint) OVER (ORDER BY p.at))::integer AS since
               FROM (
                   SELECT u.at, b.content, (sum(octet_length(b.content)) OVER (ORDER BY u.at)
                          - octet_length(b.content))::bigint AS before
                   FROM blob_use u JOIN blob b ON b.key = u.blob
                   WHERE u.turn = c.turn AND u.holder = 'result' AND u.round = c.round AND u.place = c.position
               ) p
           ) g
       ) END AS result
FROM tool_call c;

-- The same, with `***` for what tools call sensitive, also where results repeat it.
CREATE OR REPLACE VIEW whole_call AS
SELECT c.turn, c.round, c.position, c.organization, c.id, c.runs, c.tool_name, c.tool_call_id, c.external_id,
       CASE WHEN c.sensitive IS NULL THEN c.arguments ELSE stored_json(c.sensitive) ->> 'arguments' END AS arguments,
       c.status, c.reason,
       CASE WHEN c.sensitive IS NULL THEN c.shown
            ELSE masked_text(c.shown, stored_json(c.sensitive) -> 'hidden') END AS shown,
       c.is_error, c.approval, c.approves, c.cost_microusd, c.started_us, c.ended_us, c.created_us,
       CASE WHEN c.sensitive IS NULL THEN c.result
            ELSE masked_text(c.result, stored_json(c.sensitive) -> 'hidden') END AS result
FROM stored_call c;

-- Calls whose results are in their rows: those that this server ran, and imported ones. What became of a question is told
-- once: by the turn that acts on the answer, or where it was asked if nobody answered in time.
CREATE OR REPLACE VIEW told_call AS
SELECT t.id AS turn_id, t.conversation_id, t.id || '.' || c.round || '.c' || c.position AS id, c.round, c.position,
       c.turn, c.tool_call_id, c.tool_name, c.shown, c.result, c.is_error, c.ended_us,
       coalesce(c.ended_us, c.started_us, c.created_us) + 1 + c.position AS at_us
FROM whole_call c JOIN path_turn t ON t.key = c.turn
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND ((c.runs = 'server' AND CASE WHEN c.approval IN ('approved', 'denied') THEN c.approves IS NOT NULL
                                   ELSE c.approves IS NULL OR c.reason IS DISTINCT FROM 'approval_expired' END)
    OR (c.runs = 'outside' AND c.shown <> '')
    OR (c.runs = 'outside' AND c.shown = '' AND c.round > 0 AND NOT EXISTS (
        SELECT 1 FROM brought_result b JOIN turn_start bt ON bt.key = b.turn
        WHERE b.organization = c.organization AND b.tool_call_id = c.tool_call_id AND b.turn > c.turn
          AND bt.conversation = t.conversation)));

-- Results that clients brought, each a block of a message.
CREATE OR REPLACE VIEW told_result AS
SELECT t.id AS turn_id, t.conversation_id, t.id || '.' || b.round || '.' || b.seq || '.' || b.block AS id,
       b.round, b.seq, b.turn, b.tool_call_id, b.is_error, m.created_us + b.seq + b.block AS at_us,
       coalesce(
           (SELECT c.tool_name FROM tool_call c JOIN turn_start ct ON ct.key = c.turn
            WHERE ct.conversation = t.conversation AND c.organization = b.organization AND c.tool_call_id = b.tool_call_id AND c.turn <= b.turn
              AND c.runs <> 'server'
            ORDER BY c.turn DESC, c.round DESC, c.position DESC LIMIT 1),
           (SELECT e.block #>> '{call,n}'
            FROM message p, jsonb_array_elements(stored_json(p.blocks)) AS e (block)
            WHERE p.turn = b.turn AND e.block #>> '{call,id}' = b.tool_call_id LIMIT 1)) AS tool_name,
       s.content, s.parts, s.has_parts
FROM brought_result b JOIN path_turn t ON t.key = b.turn
     JOIN whole_message m ON m.turn = b.turn AND m.round = b.round AND m.seq = b.seq
     CROSS JOIN LATERAL (
         SELECT coalesce(string_agg(coalesce(e.block ->> 'text', e.block ->> 'refusal'), '' ORDER BY e.place), '') AS content,
                jsonb_agg(coalesce(e.block -> 'part', e.block #> '{part_of,1}', jsonb_build_object(
                              'type', 'text', 'text', coalesce(e.block -> 'text', e.block -> 'refusal')))
                          ORDER BY e.place) FILTER (WHERE e.block ?| ARRAY['part', 'part_of', 'text', 'refusal']) AS parts,
                coalesce(bool_or(e.block ?| ARRAY['part', 'part_of']), false) AS has_parts
         -- An answer says where it is from before its first block.
         FROM jsonb_array_elements(stored_json(m.blocks) -> (b.block + (m.blocks LIKE '[{"origin"%')::integer)::integer
                                   #> '{result,b}') WITH ORDINALITY AS e (block, place)
     ) s
WHERE b.organization = (SELECT w.organization FROM whose w);
