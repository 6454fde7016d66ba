-- Rows of an application that keeps messages of chat completions.

DROP VIEW IF EXISTS temp.conversations;
CREATE TEMP VIEW conversations AS
SELECT c.id,
       strftime('%Y-%m-%dT%H:%M:%S', c.created_us / 1000000, 'unixepoch') || printf('.%06dZ', c.created_us % 1000000)
           AS created_at,
       strftime('%Y-%m-%dT%H:%M:%S', c.updated_us / 1000000, 'unixepoch') || printf('.%06dZ', c.updated_us % 1000000)
           AS updated_at,
       u.name AS user_id, c.metadata
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t JOIN turn_state s ON s.turn = t.key
      WHERE t.organization = c.organization AND t.conversation = c.key AND s.on_head_path = 1 AND t.deleted_us IS NULL));

DROP VIEW IF EXISTS temp.openai_row;
CREATE TEMP VIEW openai_row AS
SELECT m.turn_id || '.' || m.round || '.' || m.seq AS id, m.conversation_id,
       CASE m.role WHEN 'assistant' THEN 'assistant' WHEN 'user' THEN 'user' WHEN 'tool' THEN 'user' ELSE 'system' END
           AS role,
       coalesce((SELECT nullif(group_concat(coalesce(json_extract(e.value, '$.text'),
                                                     json_extract(e.value, '$.refusal')), ''), '')
                 FROM json_each(m.blocks) e),
                CASE WHEN NOT EXISTS (SELECT 1 FROM json_each(m.blocks) e
                                      WHERE json_type(e.value, '$.call') IS NOT NULL) THEN '' END) AS content,
       (SELECT json_group_array(json(coalesce(
                   e.value -> '$.part', e.value -> '$.part_of[1]',
                   json_object('type', 'text', 'text', coalesce(
                       json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal'))))))
        FROM json_each(m.blocks) e
        WHERE coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of'),
                       json_type(e.value, '$.text'), json_type(e.value, '$.refusal')) IS NOT NULL
        HAVING max(coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of')) IS NOT NULL)) AS content_json,
       (SELECT json_group_array(json_object(
                   'id', json_extract(e.value, '$.call.id'), 'type', 'function', 'function', json_object(
                       'name', json_extract(e.value, '$.call.n'), 'arguments', json_extract(e.value, '$.call.a'))))
        FROM json_each(m.blocks) e WHERE json_type(e.value, '$.call') IS NOT NULL HAVING count(*) > 0) AS tool_calls,
       NULL AS function_call, NULL AS tool_call_id, NULL AS name, NULL AS status, m.at_us
FROM said_message m
WHERE EXISTS (SELECT 1 FROM json_each(m.blocks) e
              WHERE json_type(e.value, '$.origin') IS NULL AND json_type(e.value, '$.result') IS NULL)
UNION ALL
SELECT c.id, c.conversation_id, 'tool', coalesce(c.shown, ''), NULL, NULL, NULL, c.tool_call_id, c.tool_name, 'success',
       c.at_us
FROM told_call c WHERE c.is_error = 0
UNION ALL
SELECT c.id, c.conversation_id, 'tool', coalesce(c.shown, ''), NULL, NULL, NULL, c.tool_call_id, c.tool_name, 'error',
       c.at_us
FROM told_call c WHERE c.is_error = 1 AND likelihood(c.organization = (SELECT w.organization FROM whose w), 0.004)
UNION ALL
SELECT c.id, c.conversation_id, 'tool', '', NULL, NULL, NULL, c.tool_call_id, c.tool_name, 'pending', c.at_us
FROM told_call c WHERE c.ended_us IS NULL
UNION ALL
SELECT r.id, r.conversation_id, 'tool', r.content, r.parts, NULL, NULL, r.tool_call_id, r.tool_name, 'success', r.at_us
FROM told_result r WHERE r.is_error = 0
UNION ALL
SELECT r.id, r.conversation_id, 'tool', r.content, r.parts, NULL, NULL, r.tool_call_id, r.tool_name, 'error', r.at_us
FROM told_result r WHERE r.is_error = 1 AND likelihood(r.organization = (SELECT w.organization FROM whose w), 0.004);

DROP VIEW IF EXISTS temp.messages;
CREATE TEMP VIEW messages AS
SELECT r.id, r.conversation_id, r.role, r.content, r.content_json, r.tool_calls, r.function_call, r.tool_call_id, r.name,
       r.status,
       strftime('%Y-%m-%dT%H:%M:%S', r.at_us / 1000000, 'unixepoch') || printf('.%06dZ', r.at_us % 1000000) AS created_at
FROM openai_row r;
