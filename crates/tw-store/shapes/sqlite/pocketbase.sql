-- Records of an application that keeps its calls in PocketBase: all turns and calls, also those that run and those of
-- branches.

DROP VIEW IF EXISTS temp.conversations;
CREATE TEMP VIEW conversations AS
SELECT c.id, u.name AS user,
       strftime('%Y-%m-%d %H:%M:%S', c.created_us / 1000000, 'unixepoch') || printf('.%03dZ', c.created_us / 1000 % 1000)
           AS created,
       strftime('%Y-%m-%d %H:%M:%S', c.updated_us / 1000000, 'unixepoch') || printf('.%03dZ', c.updated_us / 1000 % 1000)
           AS updated
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t WHERE t.organization = c.organization AND t.conversation = c.key AND t.deleted_us IS NULL));

DROP VIEW IF EXISTS temp.turns;
CREATE TEMP VIEW turns AS
SELECT t.id, c.id AS conversation,
       coalesce((SELECT group_concat(q.text, char(10, 10))
                 FROM (SELECT (SELECT group_concat(coalesce(json_extract(e.value, '$.text'),
                                                            json_extract(e.value, '$.refusal')), '')
                               FROM json_each(m.blocks) e) AS text
                       FROM whole_message m WHERE m.turn = t.key AND m.role = 'user' ORDER BY m.seq) q
                 WHERE q.text <> ''), '') AS prompt,
       -- What the assistant said last; in pieces, where a client brought it so.
       coalesce((SELECT group_concat(q.text, '')
                 FROM (SELECT (SELECT group_concat(coalesce(json_extract(e.value, '$.text'),
                                                            json_extract(e.value, '$.refusal')), '')
                               FROM json_each(m.blocks) e) AS text
                       FROM whole_message m
                       WHERE m.turn = t.key AND m.role = 'assistant'
                         AND NOT EXISTS (SELECT 1 FROM message o
                                         WHERE o.turn = m.turn AND o.role = 'assistant' AND o.round > m.round)
                         AND NOT EXISTS (SELECT 1 FROM message o JOIN message l ON l.turn = o.turn AND l.round = o.round
                                         WHERE o.turn = m.turn AND o.round = m.round AND o.seq > m.seq
                                           AND (m.round > 0 OR o.role <> 'assistant')
                                           AND l.role = 'assistant' AND l.seq >= o.seq)
                       ORDER BY m.seq) q), '') AS answer,
       EXISTS (SELECT 1 FROM tool_call o WHERE o.turn = t.key) AS has_tool_calls,
       (SELECT count(*) FROM tool_call o WHERE o.turn = t.key) AS tool_count,
       strftime('%Y-%m-%d %H:%M:%S', t.created_us / 1000000, 'unixepoch') || printf('.%03dZ', t.created_us / 1000 % 1000)
           AS created,
       strftime('%Y-%m-%d %H:%M:%S', coalesce(t.ended_us, t.updated_us) / 1000000, 'unixepoch')
           || printf('.%03dZ', coalesce(t.ended_us, t.updated_us) / 1000 % 1000) AS updated
FROM turn t JOIN conversation c ON c.key = t.conversation
WHERE t.organization = (SELECT w.organization FROM whose w) AND t.deleted_us IS NULL AND t.erased_us IS NULL;

DROP VIEW IF EXISTS temp.pocketbase_call;
CREATE TEMP VIEW pocketbase_call AS
SELECT c.id, t.id AS turn, c.tool_name, c.tool_call_id,
       CASE WHEN trim(c.arguments, char(9, 10, 13, 32)) = '' THEN '{}' WHEN json_valid(c.arguments) THEN c.arguments
            ELSE json_quote(c.arguments) END AS arguments,
       CASE WHEN c.status <> 'completed' THEN NULL WHEN json_valid(r.value) THEN r.value ELSE json_quote(r.value) END
           AS result,
       CASE WHEN c.status = 'failed' THEN coalesce(nullif(c.shown, ''), c.reason) END AS error,
       c.external_id,
       '{"round":' || c.round || ',"runs":"' || c.runs || '"'
           || coalesce(',"cost_microusd":' || c.cost_microusd, '') || '}' AS metadata,
       strftime('%Y-%m-%d %H:%M:%S', c.created_us / 1000000, 'unixepoch') || printf('.%03dZ', c.created_us / 1000 % 1000)
           AS created,
       strftime('%Y-%m-%d %H:%M:%S', coalesce(c.ended_us, c.started_us, c.created_us) / 1000000, 'unixepoch')
           || printf('.%03dZ', coalesce(c.ended_us, c.started_us, c.created_us) / 1000 % 1000) AS updated,
       c.status, c.is_error, c.ended_us, c.created_us, c.organization
FROM whole_call c JOIN turn t ON t.key = c.turn JOIN json_each(json_array(c.result)) r
WHERE +c.organization = (SELECT w.organization FROM whose w)
  AND t.organization = (SELECT w.organization FROM whose w) AND t.deleted_us IS NULL AND t.erased_us IS NULL;

-- In parts by status, so that those that run and those that failed are found by their indexes.
DROP VIEW IF EXISTS temp.tool_calls;
CREATE TEMP VIEW tool_calls AS
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'completed' AS status, c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c WHERE c.status = 'completed'
UNION ALL
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'failed', c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c
WHERE c.status = 'failed' AND c.is_error = 1 AND c.organization = (SELECT w.organization FROM whose w)
UNION ALL
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'processing', c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c
WHERE c.status = 'processing' AND c.ended_us IS NULL AND c.organization = (SELECT w.organization FROM whose w)
  AND likelihood(c.created_us > 0, 0.00002)
UNION ALL
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'pending', c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c
WHERE c.status = 'pending' AND c.ended_us IS NULL AND c.organization = (SELECT w.organization FROM whose w)
  AND likelihood(c.created_us > 0, 0.00002);
