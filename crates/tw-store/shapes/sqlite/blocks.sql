-- Messages of an application that keeps blocks: all that an assistant said and ran, up to what its user said next, is one
-- message.

DROP VIEW IF EXISTS temp.conversations;
CREATE TEMP VIEW conversations AS
SELECT c.id, u.name AS user_id,
       strftime('%Y-%m-%dT%H:%M:%S', c.created_us / 1000000, 'unixepoch') || printf('.%06dZ', c.created_us % 1000000)
           AS created_at,
       strftime('%Y-%m-%dT%H:%M:%S', c.updated_us / 1000000, 'unixepoch') || printf('.%06dZ', c.updated_us % 1000000)
           AS updated_at
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t JOIN turn_state s ON s.turn = t.key
      WHERE t.organization = c.organization AND t.conversation = c.key AND s.on_head_path = 1 AND t.deleted_us IS NULL));

-- Blocks as this layout has them; null for one that it has no place for.
DROP VIEW IF EXISTS temp.placed_block;
CREATE TEMP VIEW placed_block AS
SELECT m.turn, m.round, m.seq, e.key - (json_type(m.blocks, '$[0].origin') IS NOT NULL) AS block, m.role, m.created_us,
       e.value AS stored,
       CASE
           WHEN json_type(e.value, '$.text') IS NOT NULL OR json_type(e.value, '$.refusal') IS NOT NULL
               THEN json_object('type', 'text', 'text',
                                coalesce(json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal')))
           WHEN json_extract(e.value, '$.reasoning.t') <> ''
               THEN json_object('type', 'thinking', 'thinking', json_extract(e.value, '$.reasoning.t'))
           WHEN json_type(e.value, '$.call') IS NOT NULL THEN json_object(
               'type', 'tool_use', 'id', json_extract(e.value, '$.call.id'), 'name', json_extract(e.value, '$.call.n'),
               'input', json(CASE
                   WHEN trim(json_extract(e.value, '$.call.a'), char(9, 10, 13, 32)) = '' THEN '{}'
                   WHEN NOT json_valid(json_extract(e.value, '$.call.a'))
                     OR json_type(json_extract(e.value, '$.call.a')) <> 'object'
                       THEN json_object('invalid_arguments', json_extract(e.value, '$.call.a'))
                   ELSE json_extract(e.value, '$.call.a') END))
           WHEN json_extract(e.value, '$.part.image_url.url') LIKE 'data:%' THEN json_object(
               'type', 'image', 'source', json_object(
                   'type', 'base64',
                   'media_type', substr(json_extract(e.value, '$.part.image_url.url'), 6, min(
                       instr(json_extract(e.value, '$.part.image_url.url') || ';', ';'),
                       instr(json_extract(e.value, '$.part.image_url.url') || ',', ',')) - 6),
                   'data', substr(json_extract(e.value, '$.part.image_url.url'),
                                  instr(json_extract(e.value, '$.part.image_url.url'), ',') + 1)))
           WHEN json_type(e.value, '$.part.image_url.url') IS NOT NULL THEN json_object(
               'type', 'image', 'source', json_object('type', 'url', 'url', json_extract(e.value, '$.part.image_url.url')))
           ELSE coalesce(e.value -> '$.part', e.value -> '$.part_of[1]')
       END AS content
FROM whole_message m JOIN json_each(m.blocks) e
WHERE json_type(e.value, '$.origin') IS NULL;

DROP VIEW IF EXISTS temp.messages;
CREATE TEMP VIEW messages AS
SELECT t.id || '.' || json_extract(r.value, '$.place') AS id, t.conversation_id, json_extract(r.value, '$.role') AS role,
       r.value -> '$.content' AS content,
       strftime('%Y-%m-%dT%H:%M:%S', json_extract(r.value, '$.at') / 1000000, 'unixepoch')
           || printf('.%06dZ', json_extract(r.value, '$.at') % 1000000) AS created_at
FROM path_turn t JOIN json_each((
    SELECT json_group_array(json_object('place', h.place, 'role', CASE h.is_user WHEN 1 THEN 'user' ELSE 'assistant' END,
                                        'content', json(h.content), 'at', h.at_us))
    FROM (
        SELECT g.place, g.is_user, g.at_us,
               row_number() OVER (PARTITION BY g.run, g.is_user ORDER BY g.round, g.part, g.seq, g.block) AS n,
               json_group_array(json(g.content)) FILTER (WHERE g.content IS NOT NULL) OVER (
                   PARTITION BY g.run, g.is_user ORDER BY g.round, g.part, g.seq, g.block
                   ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS content
        FROM (
            SELECT b.*, sum(b.begins) OVER (ORDER BY b.round, b.part, b.seq, b.block) AS run
            FROM (
                SELECT p.round, 0 AS part, p.seq, p.block, p.round || '.' || p.seq AS place, p.created_us + p.seq AS at_us,
                       p.role <> 'assistant' AS is_user,
                       p.role <> 'assistant' AND p.block = min(p.block) OVER (PARTITION BY p.round, p.seq) AS begins,
                       p.content
                FROM placed_block p
                WHERE p.turn = t.key AND p.role IN ('user', 'tool', 'assistant')
                  AND json_type(p.stored, '$.result') IS NULL
                UNION ALL
                SELECT p.round, 0, p.seq, p.block, p.round || '.' || p.seq || '.' || p.block, p.created_us + p.seq, 0, 0,
                       '{"type":"tool_result","tool_use_id":'
                           || json_quote(coalesce(o.tool_call_id, json_extract(p.stored, '$.result.id')))
                           || ',"content":' || CASE
                               WHEN json_array_length(p.stored, '$.result.b') = 1
                                AND json_type(p.stored, '$.result.b[0].text') IS NOT NULL
                                   THEN CASE WHEN json_valid(json_extract(p.stored, '$.result.b[0].text'))
                                             THEN json_extract(p.stored, '$.result.b[0].text')
                                             ELSE p.stored -> '$.result.b[0].text' END
                               WHEN EXISTS (SELECT 1 FROM json_each(p.stored, '$.result.b') e
                                            WHERE coalesce(json_type(e.value, '$.part'), json_type(e.value, '$.part_of'))
                                                IS NOT NULL)
                                   THEN (SELECT json_group_array(json(coalesce(
                                                    e.value -> '$.part', e.value -> '$.part_of[1]',
                                                    json_object('type', 'text', 'text', coalesce(
                                                        json_extract(e.value, '$.text'),
                                                        json_extract(e.value, '$.refusal'))))))
                                         FROM json_each(p.stored, '$.result.b') e)
                               ELSE (SELECT json_quote(coalesce(group_concat(coalesce(
                                                json_extract(e.value, '$.text'), json_extract(e.value, '$.refusal')), ''),
                                                ''))
                                     FROM json_each(p.stored, '$.result.b') e)
                           END || CASE WHEN o.is_error = 1 THEN ',"is_error":true}' ELSE '}' END
                FROM placed_block p LEFT JOIN brought_result o
                     ON o.turn = p.turn AND o.round = p.round AND o.seq = p.seq AND o.block = p.block
                WHERE p.turn = t.key AND json_type(p.stored, '$.result') IS NOT NULL
                UNION ALL
                SELECT c.round, 1, c.position, 0, c.round || '.c' || c.position, c.at_us, 0, 0,
                       CASE WHEN c.ended_us IS NOT NULL THEN
                           '{"type":"tool_result","tool_use_id":' || json_quote(c.tool_call_id) || ',"content":'
                               || CASE WHEN json_valid(c.result) THEN c.result ELSE json_quote(c.result) END
                               || CASE WHEN c.is_error = 1 THEN ',"is_error":true}' ELSE '}' END
                       END
                FROM told_call c WHERE c.turn = t.key
            ) b
        ) g
    ) h
    WHERE h.n = 1 AND h.content <> '[]'
)) r;
