-- Rows of an application that keeps LangChain's messages.

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

DROP VIEW IF EXISTS temp.langchain_row;
CREATE TEMP VIEW langchain_row AS
SELECT m.turn_id || '.' || m.round || '.' || m.seq AS id, m.at_us, m.conversation_id,
       coalesce((SELECT group_concat(coalesce(json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal')), '')
                 FROM json_each(m.blocks) e), '') AS content,
       CASE m.role WHEN 'assistant' THEN 'assistant' ELSE 'user' END AS role,
       (SELECT nullif(json_group_array(json_object(
                   'id', json_extract(e.value, '$.call.id'), 'name', json_extract(e.value, '$.call.n'),
                   'args', json(coalesce(nullif(trim(json_extract(e.value, '$.call.a'), char(9, 10, 13, 32)), ''), '{}')))),
               '[]')
        FROM json_each(m.blocks) e
        WHERE CASE WHEN json_valid(json_extract(e.value, '$.call.a')) THEN json_type(json_extract(e.value, '$.call.a'))
                   WHEN trim(json_extract(e.value, '$.call.a'), char(9, 10, 13, 32)) = '' THEN 'object' END = 'object')
           AS tool_calls,
       NULL AS tool_call_id, NULL AS tool_name, NULL AS status,
       '{"turn":"' || m.turn_id || '"'
           || CASE WHEN m.role = 'assistant' AND m.model <> '' THEN ',"model":' || json_quote(m.model) ELSE '' END
           || coalesce((SELECT ',"content":' || json_group_array(json(coalesce(
                                   e.value -> '$.part', e.value -> '$.part_of[1]',
                                   json_object('type', 'text', 'text', coalesce(
                                       json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal'))))))
                        FROM json_each(m.blocks) e
                        WHERE coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of'),
                                       json_type(e.value, '$.text'), json_type(e.value, '$.refusal')) IS NOT NULL
                        HAVING max(coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of')) IS NOT NULL)),
                       '')
           || coalesce((SELECT ',"reasoning":' || json_quote(nullif(group_concat(json_extract(e.value, '$.reasoning.t'), ''), ''))
                        FROM json_each(m.blocks) e WHERE json_type(e.value, '$.reasoning') IS NOT NULL
                        HAVING group_concat(json_extract(e.value, '$.reasoning.t'), '') <> ''), '')
           || coalesce((SELECT ',"invalid_tool_calls":' || json_group_array(json_object(
                                   'id', json_extract(e.value, '$.call.id'), 'name', json_extract(e.value, '$.call.n'),
                                   'args', json_extract(e.value, '$.call.a')))
                        FROM json_each(m.blocks) e
                        WHERE json_type(e.value, '$.call') IS NOT NULL
                          AND trim(json_extract(e.value, '$.call.a'), char(9, 10, 13, 32)) <> ''
                          AND CASE WHEN json_valid(json_extract(e.value, '$.call.a'))
                                   THEN json_type(json_extract(e.value, '$.call.a')) END IS NOT 'object'
                        HAVING count(*) > 0), '')
           || '}' AS metadata
FROM said_message m
WHERE m.role IN ('user', 'tool', 'assistant')
  AND EXISTS (SELECT 1 FROM json_each(m.blocks) e
              WHERE json_type(e.value, '$.origin') IS NULL AND json_type(e.value, '$.result') IS NULL)
UNION ALL
SELECT c.id, c.at_us, c.conversation_id, coalesce(c.shown, ''), 'tool', NULL, c.tool_call_id, c.tool_name, 'success',
       '{"turn":"' || c.turn_id || '"}'
FROM told_call c WHERE c.is_error = 0
UNION ALL
SELECT c.id, c.at_us, c.conversation_id, coalesce(c.shown, ''), 'tool', NULL, c.tool_call_id, c.tool_name, 'error',
       '{"turn":"' || c.turn_id || '"}'
FROM told_call c WHERE c.is_error = 1 AND likelihood(c.organization = (SELECT w.organization FROM whose w), 0.004)
UNION ALL
SELECT c.id, c.at_us, c.conversation_id, '', 'tool', NULL, c.tool_call_id, c.tool_name, 'pending',
       '{"turn":"' || c.turn_id || '"}'
FROM told_call c WHERE c.ended_us IS NULL
UNION ALL
SELECT r.id, r.at_us, r.conversation_id, r.content, 'tool', NULL, r.tool_call_id, r.tool_name, 'success',
       '{"turn":"' || r.turn_id || '"' || coalesce(',"content":' || r.parts, '') || '}'
FROM told_result r WHERE r.is_error = 0
UNION ALL
SELECT r.id, r.at_us, r.conversation_id, r.content, 'tool', NULL, r.tool_call_id, r.tool_name, 'error',
       '{"turn":"' || r.turn_id || '"' || coalesce(',"content":' || r.parts, '') || '}'
FROM told_result r WHERE r.is_error = 1 AND likelihood(r.organization = (SELECT w.organization FROM whose w), 0.004);

DROP VIEW IF EXISTS temp.messages;
CREATE TEMP VIEW messages AS
SELECT r.id,
       strftime('%Y-%m-%dT%H:%M:%S', r.at_us / 1000000, 'unixepoch') || printf('.%06dZ', r.at_us % 1000000) AS created_at,
       r.conversation_id, r.content, r.role, r.tool_calls, r.tool_call_id, r.tool_name, r.status, r.metadata
FROM langchain_row r;

-- Rows that a server has not appended yet, and those that it refused.
DROP VIEW IF EXISTS temp.queued_messages;
CREATE TEMP VIEW queued_messages AS
SELECT q.key AS id, q.conversation AS conversation_id, q.body AS message, q.fault AS refused,
       strftime('%Y-%m-%dT%H:%M:%S', q.created_us / 1000000, 'unixepoch') || printf('.%06dZ', q.created_us % 1000000)
           AS created_at
FROM queued_row q JOIN whose w ON w.organization = q.organization AND w.api_key = q.api_key
WHERE q.shape = 'langchain';

DROP TRIGGER IF EXISTS temp.message_inserted;
CREATE TEMP TRIGGER message_inserted INSTEAD OF INSERT ON messages BEGIN
    SELECT CASE
        WHEN (SELECT w.api_key FROM whose w) IS NULL
            THEN RAISE(ABORT, 'nothing is inserted without a key: turnwright sql langchain --key KEY')
        WHEN new.id IS NOT NULL OR new.created_at IS NOT NULL
            THEN RAISE(ABORT, 'id and created_at are given by the server')
        WHEN new.conversation_id IS NULL THEN RAISE(ABORT, 'conversation_id must not be null')
        WHEN new.content IS NULL THEN RAISE(ABORT, 'content must not be null')
        WHEN new.role IS NULL OR new.role NOT IN ('user', 'assistant', 'tool')
            THEN RAISE(ABORT, 'role is user, assistant or tool')
        WHEN new.status NOT IN ('pending', 'success', 'error')
            THEN RAISE(ABORT, 'status is null, pending, success or error')
        WHEN new.status = 'pending'
            THEN RAISE(ABORT, 'a result is inserted once it is there; until then its call has none')
        WHEN NOT json_valid(coalesce(new.tool_calls, '[]')) THEN RAISE(ABORT, 'tool_calls is no JSON')
        WHEN NOT json_valid(coalesce(new.metadata, '{}')) THEN RAISE(ABORT, 'metadata is no JSON')
    END;
    INSERT INTO queued_row (organization, api_key, shape, conversation, body, created_us, updated_us)
    SELECT w.organization, w.api_key, 'langchain', new.conversation_id,
           json_object('role', new.role, 'content', new.content, 'tool_calls', json(new.tool_calls),
                       'tool_call_id', new.tool_call_id, 'tool_name', new.tool_name, 'status', new.status,
                       'metadata', json(nullif(new.metadata, '{}'))),
           n.us, n.us
    FROM whose w JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS us) n;
END;

DROP TRIGGER IF EXISTS temp.message_updated;
CREATE TEMP TRIGGER message_updated INSTEAD OF UPDATE ON messages BEGIN
    SELECT RAISE(ABORT, 'messages are not changed: append others, POST /v1/conversations/ID/rows');
END;

DROP TRIGGER IF EXISTS temp.message_deleted;
CREATE TEMP TRIGGER message_deleted INSTEAD OF DELETE ON messages BEGIN
    SELECT RAISE(ABORT, 'messages are deleted with their conversation: DELETE /v1/conversations/ID');
END;

DROP TRIGGER IF EXISTS temp.conversation_inserted;
CREATE TEMP TRIGGER conversation_inserted INSTEAD OF INSERT ON conversations BEGIN
    SELECT RAISE(ABORT, 'a conversation is made by its first message, or by POST /v1/conversations');
END;

DROP TRIGGER IF EXISTS temp.conversation_updated;
CREATE TEMP TRIGGER conversation_updated INSTEAD OF UPDATE ON conversations BEGIN
    SELECT RAISE(ABORT, 'a conversation is changed by POST /v1/conversations/ID');
END;

DROP TRIGGER IF EXISTS temp.conversation_deleted;
CREATE TEMP TRIGGER conversation_deleted INSTEAD OF DELETE ON conversations BEGIN
    SELECT RAISE(ABORT, 'a conversation is deleted by DELETE /v1/conversations/ID');
END;
