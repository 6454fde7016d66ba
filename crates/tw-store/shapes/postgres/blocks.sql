-- Messages of an application that keeps blocks: all that an assistant said and ran, up to what its user said next, is one
-- message.

CREATE OR REPLACE VIEW conversations WITH (security_barrier) AS
SELECT c.id, u.name AS user_id, time_of(c.created_us) AS created_at, time_of(c.updated_us) AS updated_at
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t JOIN turn_state s ON s.turn = t.key
      WHERE t.organization = c.organization AND t.conversation = c.key AND s.on_head_path = 1 AND t.deleted_us IS NULL));

-- A block as this layout has it; null for one that it has no place for.
CREATE OR REPLACE FUNCTION block_of(stored jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN stored ?| ARRAY['text', 'refusal']
            THEN jsonb_build_object('type', 'text', 'text', coalesce(stored -> 'text', stored -> 'refusal'))
        WHEN stored #>> '{reasoning,t}' <> ''
            THEN jsonb_build_object('type', 'thinking', 'thinking', stored #> '{reasoning,t}')
        WHEN stored ? 'call' THEN jsonb_build_object(
            'type', 'tool_use', 'id', stored #> '{call,id}', 'name', stored #> '{call,n}',
            'input', CASE
                WHEN btrim(stored #>> '{call,a}', E' \t\r\n') = '' THEN '{}'
                WHEN jsonb_typeof(stored_json(stored #>> '{call,a}')) = 'object' THEN stored_json(stored #>> '{call,a}')
                ELSE jsonb_build_object('invalid_arguments', stored #> '{call,a}') END)
        WHEN starts_with(stored #>> '{part,image_url,url}', 'data:') THEN jsonb_build_object(
            'type', 'image', 'source', jsonb_build_object(
                'type', 'base64',
                'media_type', substring(stored #>> '{part,image_url,url}' FROM '^data:([^;,]*)'),
                'data', substring(stored #>> '{part,image_url,url}' FROM ',(.*)$')))
        WHEN stored #>> '{part,image_url,url}' IS NOT NULL THEN jsonb_build_object(
            'type', 'image', 'source', jsonb_build_object('type', 'url', 'url', stored #> '{part,image_url,url}'))
        ELSE coalesce(stored -> 'part', stored #> '{part_of,1}')
    END;

CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
SELECT t.id || '.' || r.place AS id, t.conversation_id, r.role, r.content, time_of(r.at_us) AS created_at
FROM path_turn t CROSS JOIN LATERAL (
    SELECT (array_agg(g.place ORDER BY g.round, g.part, g.seq, g.block))[1] AS place,
           CASE WHEN bool_or(g.is_user) THEN 'user' ELSE 'assistant' END AS role,
           jsonb_agg(g.content ORDER BY g.round, g.part, g.seq, g.block) FILTER (WHERE g.content IS NOT NULL) AS content,
           min(g.at_us) AS at_us
    FROM (
        SELECT b.*, count(*) FILTER (WHERE b.begins) OVER (ORDER BY b.round, b.part, b.seq, b.block) AS run
        FROM (
            SELECT m.round, 0 AS part, m.seq, e.place AS block, m.round || '.' || m.seq AS place, m.created_us + m.seq AS at_us,
                   m.role <> 'assistant' AS is_user,
                   m.role <> 'assistant' AND e.place = min(e.place) OVER (PARTITION BY m.round, m.seq) AS begins,
                   block_of(e.block) AS content
            FROM whole_message m
                 CROSS JOIN LATERAL jsonb_array_elements(stored_json(m.blocks)) WITH ORDINALITY AS e (block, place)
            WHERE m.turn = t.key AND m.role IN ('user', 'tool', 'assistant') AND NOT e.block ?| ARRAY['origin', 'result']
            UNION ALL
            SELECT m.round, 0, m.seq, e.place,
                   m.round || '.' || m.seq || '.' || (e.place - 1 - (m.blocks LIKE '[{"origin"%')::integer),
                   m.created_us + m.seq, false, false,
                   jsonb_build_object(
                       'type', 'tool_result',
                       'tool_use_id', coalesce(
                           (SELECT o.tool_call_id FROM brought_result o
                            WHERE o.turn = m.turn AND o.round = m.round AND o.seq = m.seq
                              AND o.block = e.place - 1 - (m.blocks LIKE '[{"origin"%')::integer),
                           e.block #>> '{result,id}'),
                       'content', CASE
                           WHEN jsonb_array_length(e.block #> '{result,b}') = 1 AND e.block #> '{result,b,0}' ? 'text'
                               THEN json_or_text(e.block #>> '{result,b,0,text}')
                           WHEN jsonb_path_exists(e.block, '$.result.b[*] ? (exists(@.part) || exists(@.part_of))')
                               THEN (SELECT jsonb_agg(block_of(p.block) ORDER BY p.place)
                                     FROM jsonb_array_elements(e.block #> '{result,b}') WITH ORDINALITY AS p (block, place)
                                     WHERE block_of(p.block) IS NOT NULL)
                           ELSE (SELECT to_jsonb(coalesce(
                                     string_agg(coalesce(p.block ->> 'text', p.block ->> 'refusal'), '' ORDER BY p.place),
                                     ''))
                                 FROM jsonb_array_elements(e.block #> '{result,b}') WITH ORDINALITY AS p (block, place))
                       END)
                   || CASE WHEN EXISTS (SELECT 1 FROM brought_result o
                                        WHERE o.turn = m.turn AND o.round = m.round AND o.seq = m.seq AND o.is_error = 1
                                          AND o.block = e.place - 1 - (m.blocks LIKE '[{"origin"%')::integer)
                           THEN '{"is_error": true}' ELSE '{}' END::jsonb
            FROM whole_message m
                 CROSS JOIN LATERAL jsonb_array_elements(stored_json(m.blocks)) WITH ORDINALITY AS e (block, place)
            WHERE m.turn = t.key AND e.block ? 'result'
            UNION ALL
            SELECT c.round, 1, c.position, 0, c.round || '.c' || c.position, c.at_us, false, false,
                   CASE WHEN c.ended_us IS NOT NULL THEN jsonb_build_object(
                            'type', 'tool_result', 'tool_use_id', c.tool_call_id,
                            'content', json_or_text(c.result))
                        || CASE WHEN c.is_error = 1 THEN '{"is_error": true}' ELSE '{}' END::jsonb
                   END
            FROM told_call c WHERE c.turn = t.key
        ) b
    ) g
    GROUP BY g.run, g.is_user
    HAVING count(g.content) > 0
) r;
