-- What the views of a shape are made of.
--
-- Few databases hold many organizations, so that a look by the organization alone is told to find most of a table.

-- The turns that lead to the heads of conversations.
DROP VIEW IF EXISTS temp.path_turn;
CREATE TEMP VIEW path_turn AS
SELECT t.key, t.id, t.organization, t.conversation, t.model, t.item_source, t.created_us, s.ended_us,
       c.id AS conversation_id
FROM conversation c JOIN turn_start t ON likelihood(t.conversation = c.key, 0.001) JOIN turn_state s ON s.turn = t.key
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND likelihood(t.organization = (SELECT w.organization FROM whose w), 0.99)
  AND s.on_head_path = 1 AND s.status IN ('completed', 'incomplete')
  AND t.deleted_us IS NULL AND s.erased_us IS NULL
  -- Of which something was taken out of the conversation.
  AND NOT EXISTS (SELECT 1 FROM deleted_item d WHERE d.turn = t.key);

-- Messages with their large contents, which are stored apart, in their places. What is put together goes through
-- `json_each`, so that it is done once for a row, however often the row's columns use it.
DROP VIEW IF EXISTS temp.stored_message;
CREATE TEMP VIEW stored_message AS
SELECT m.turn, m.round, m.seq, m.role, m.created_us, b.value AS blocks
FROM message m JOIN json_each(json_array(CASE WHEN m.blob_bytes = 0 THEN m.blocks ELSE (
    SELECT group_concat(CAST(substr(CAST(m.blocks AS BLOB), g.since + 1, g.until - g.since) AS TEXT)
                        || CAST(g.content AS TEXT), '')
           || CAST(substr(CAST(m.blocks AS BLOB), max(g.until) + 1) AS TEXT)
    FROM (
        SELECT p.at, p.content, p.at - p.before AS until, lag(p.at - p.before, 1, 0) OVER (ORDER BY p.at) AS since
        FROM (
            SELECT u.at, b.content, sum(length(b.content)) OVER (ORDER BY u.at) - length(b.content) AS before
            FROM blob_use u JOIN blob b ON b.key = u.blob
            WHERE u.turn = m.turn AND u.holder = 'message' AND u.round = m.round AND u.place = m.seq
        ) p
        ORDER BY p.at
    ) g
) END)) b;

-- The same, with `***` for what tools call sensitive, also where a client brings it back: by the name under which it was
-- handed the call, which is `call_` and the call's id. What it brings may hold NUL, which hidden texts have U+FFFD for.
DROP VIEW IF EXISTS temp.whole_message;
CREATE TEMP VIEW whole_message AS
SELECT m.turn, m.round, m.seq, m.role, m.created_us,
       CASE WHEN m.round > 0 AND m.role = 'assistant' AND EXISTS (
                SELECT 1 FROM tool_call c WHERE c.turn = m.turn AND c.round = m.round AND c.sensitive IS NOT NULL)
       THEN (
           SELECT json_group_array(json(q.block))
           FROM (
               SELECT coalesce(
                   (SELECT json_set(e.value, '$.call.a', json_extract(c.sensitive, '$.arguments'))
                    FROM tool_call c
                    WHERE c.turn = m.turn AND c.round = m.round AND c.sensitive IS NOT NULL
                      AND c.tool_call_id = json_extract(e.value, '$.call.id') LIMIT 1), e.value) AS block
               FROM json_each(m.blocks) e
               ORDER BY e.key
           ) q
       )
       WHEN m.round = 0 AND instr(m.blocks, '"call_') > 0 AND EXISTS (
                SELECT 1 FROM tool_call c WHERE c.sensitive IS NOT NULL)
       THEN (
           SELECT json_group_array(json(q.block))
           FROM (
               SELECT coalesce(
                   (SELECT CASE WHEN json_type(e.value, '$.call') IS NOT NULL
                                THEN json_set(e.value, '$.call.a', json_extract(c.sensitive, '$.arguments'))
                                ELSE json_set(e.value, '$.result.b', json((
                                    SELECT json_group_array(json_object('text', CASE
                                        WHEN json_type(r.value, '$.text') IS NULL THEN '***' ELSE (
                                            WITH RECURSIVE masking (n, text) AS (
                                                SELECT 0, json_extract(replace(r.value, '\u0000', '\ufffd'), '$.text')
                                                UNION ALL
                                                SELECT n + 1, replace(text, json_extract(c.sensitive, '$.hidden[' || n || ']'), '***')
                                                FROM masking WHERE n < json_array_length(c.sensitive, '$.hidden')
                                            )
                                            SELECT text FROM masking ORDER BY n DESC LIMIT 1) END))
                                    FROM (SELECT b.value FROM json_each(e.value, '$.result.b') b ORDER BY b.key) r))) END
                    FROM tool_call c
                    WHERE c.organization = (SELECT w.organization FROM whose w) AND c.sensitive IS NOT NULL
                      AND c.id = (
                          SELECT substr(h.name, 6, 8) || '-' || substr(h.name, 14, 4) || '-' || substr(h.name, 18, 4) || '-'
                                 || substr(h.name, 22, 4) || '-' || substr(h.name, 26)
                          FROM (SELECT coalesce(json_extract(e.value, '$.call.id'), json_extract(e.value, '$.result.id')) AS name) h
                          WHERE substr(h.name, 1, 5) = 'call_' AND length(h.name) = 37)), e.value) AS block
               FROM json_each(m.blocks) e
               ORDER BY e.key
           ) q
       ) ELSE m.blocks END AS blocks
FROM stored_message m;

-- What was said, in the order of (turn, round, seq). What an assistant said in pieces, as a client brought it, is the
-- message of the first one.
DROP VIEW IF EXISTS temp.said_message;
CREATE TEMP VIEW said_message AS
SELECT t.key AS turn, t.id AS turn_id, t.conversation_id, t.model, m.round, m.seq, m.role, m.created_us + m.seq AS at_us,
       b.value AS blocks
FROM path_turn t JOIN whole_message m ON m.turn = t.key JOIN json_each(json_array(CASE
    WHEN m.round = 0 AND m.role = 'assistant' AND EXISTS (
        SELECT 1 FROM message n
        WHERE n.turn = m.turn AND n.round = 0 AND n.seq = m.seq + 1 AND n.role = 'assistant')
    THEN (
        SELECT '[' || group_concat(q.inner, ',') || ']'
        FROM (
            SELECT substr(p.blocks, 2, length(p.blocks) - 2) AS inner
            FROM whole_message p
            WHERE p.turn = m.turn AND p.round = 0 AND p.seq >= m.seq AND p.blocks <> '[]'
              AND NOT EXISTS (SELECT 1 FROM message o
                              WHERE o.turn = m.turn AND o.round = 0 AND o.seq > m.seq AND o.seq <= p.seq
                                AND o.role <> 'assistant')
            ORDER BY p.seq
        ) q
    )
    ELSE m.blocks END)) b
WHERE NOT (m.round = 0 AND m.role = 'assistant' AND EXISTS (
    SELECT 1 FROM message b
    WHERE b.turn = m.turn AND b.round = 0 AND b.seq = m.seq - 1 AND b.role = 'assistant'));

-- Calls with all of their results.
DROP VIEW IF EXISTS temp.stored_call;
CREATE TEMP VIEW stored_call AS
SELECT c.turn, c.round, c.position, c.organization, c.id, c.runs, c.tool_name, c.tool_call_id, c.external_id, c.arguments,
       c.sensitive, c.status, c.reason, c.shown, c.is_error, c.approval, c.approves, c.cost_microusd, c.started_us, c.ended_us,
       c.created_us,
       CASE WHEN c.result IS NULL THEN c.shown WHEN c.blob_bytes = 0 THEN c.result ELSE (
           SELECT group_concat(CAST(substr(CAST(c.result AS BLOB), g.since + 1, g.until - g.since) AS TEXT)
                               || CAST(g.content AS TEXT), '')
                  || CAST(substr(CAST(c.result AS BLOB), max(g.until) + 1) AS TEXT)
           FROM (
               SELECT p.at, p.content, p.at - p.before AS until, lag(p.at - p.before, 1, 0) OVER (ORDER BY p.at) AS since
               FROM (
                   SELECT u.at, b.content, sum(length(b.content)) OVER (ORDER BY u.at) - length(b.content) AS before
                   FROM blob_use u JOIN blob b ON b.key = u.blob
                   WHERE u.turn = c.turn AND u.holder = 'result' AND u.round = c.round AND u.place = c.position
               ) p
               ORDER BY p.at
           ) g
       ) END AS result
FROM tool_call c;

-- The same, with `***` for what tools call sensitive, also where results repeat it.
DROP VIEW IF EXISTS temp.whole_call;
CREATE TEMP VIEW whole_call AS
SELECT c.turn, c.round, c.position, c.organization, c.id, c.runs, c.tool_name, c.tool_call_id, c.external_id,
       CASE WHEN c.sensitive IS NULL THEN c.arguments ELSE json_extract(c.sensitive, '$.arguments') END AS arguments,
       c.status, c.reason,
       CASE WHEN c.sensitive IS NULL THEN c.shown ELSE (
           WITH RECURSIVE masking (n, text) AS (
               SELECT 0, c.shown
               UNION ALL
               SELECT n + 1, replace(text, json_extract(c.sensitive, '$.hidden[' || n || ']'), '***')
               FROM masking WHERE n < json_array_length(c.sensitive, '$.hidden')
           )
           SELECT text FROM masking ORDER BY n DESC LIMIT 1) END AS shown,
       c.is_error, c.approval, c.approves, c.cost_microusd, c.started_us, c.ended_us, c.created_us,
       CASE WHEN c.sensitive IS NULL THEN c.result ELSE (
           WITH RECURSIVE masking (n, text) AS (
               SELECT 0, c.result
               UNION ALL
               SELECT n + 1, replace(text, json_extract(c.sensitive, '$.hidden[' || n || ']'), '***')
               FROM masking WHERE n < json_array_length(c.sensitive, '$.hidden')
           )
           SELECT text FROM masking ORDER BY n DESC LIMIT 1) END AS result
FROM stored_call c;

-- Calls whose results are in their rows: those that this server ran, and imported ones. What became of a question is told
-- once: by the turn that acts on the answer, or where it was asked if nobody answered in time.
DROP VIEW IF EXISTS temp.told_call;
CREATE TEMP VIEW told_call AS
SELECT t.id AS turn_id, t.conversation_id, t.id || '.' || c.round || '.c' || c.position AS id, c.round, c.position,
       c.turn, c.organization, c.tool_call_id, c.tool_name, c.shown, c.result, c.is_error, c.ended_us,
       coalesce(c.ended_us, c.started_us, c.created_us) + 1 + c.position AS at_us
FROM whole_call c JOIN path_turn t ON t.key = c.turn
WHERE +c.organization = (SELECT w.organization FROM whose w)
  AND ((c.runs = 'server' AND CASE WHEN c.approval IN ('approved', 'denied') THEN c.approves IS NOT NULL
                                   ELSE c.approves IS NULL OR c.reason IS NOT 'approval_expired' END)
    OR (c.runs = 'outside' AND c.shown <> '')
    OR (c.runs = 'outside' AND c.shown = '' AND c.round > 0 AND NOT EXISTS (
        SELECT 1 FROM brought_result b JOIN turn_start bt ON bt.key = b.turn
        WHERE b.organization = c.organization AND b.tool_call_id = c.tool_call_id AND b.turn > c.turn
          AND bt.conversation = t.conversation)));

-- Results that clients brought, each a block of a message. An answer says where it is from before its first block.
DROP VIEW IF EXISTS temp.told_result;
CREATE TEMP VIEW told_result AS
SELECT t.id AS turn_id, t.conversation_id, t.id || '.' || b.round || '.' || b.seq || '.' || b.block AS id,
       b.round, b.seq, b.turn, b.organization, b.tool_call_id, b.is_error, m.created_us + b.seq + b.block AS at_us,
       coalesce(
           (SELECT c.tool_name FROM tool_call c JOIN turn_start ct ON ct.key = c.turn
            WHERE ct.conversation = t.conversation AND c.organization = b.organization AND c.tool_call_id = b.tool_call_id AND c.turn <= b.turn
              AND c.runs <> 'server'
            ORDER BY c.turn DESC, c.round DESC, c.position DESC LIMIT 1),
           (SELECT json_extract(e.value, '$.call.n') FROM message p JOIN json_each(p.blocks) e
            WHERE p.turn = b.turn AND json_extract(e.value, '$.call.id') = b.tool_call_id LIMIT 1)) AS tool_name,
       coalesce((SELECT group_concat(coalesce(json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal')), '')
                 FROM json_each(m.blocks, '$[' || (b.block + (m.blocks LIKE '[{"origin"%')) || '].result.b') e), '')
           AS content,
       (SELECT json_group_array(json(coalesce(
                   e.value -> '$.part', e.value -> '$.part_of[1]',
                   json_object('type', 'text', 'text', coalesce(
                       json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal'))))))
        FROM json_each(m.blocks, '$[' || (b.block + (m.blocks LIKE '[{"origin"%')) || '].result.b') e
        WHERE coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of'),
                       json_type(e.value, '$.text'), json_type(e.value, '$.refusal')) IS NOT NULL
        HAVING max(coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of')) IS NOT NULL)) AS parts
FROM brought_result b JOIN path_turn t ON t.key = b.turn
     JOIN whole_message m ON m.turn = b.turn AND m.round = b.round AND m.seq = b.seq
WHERE +b.organization = (SELECT w.organization FROM whose w);
