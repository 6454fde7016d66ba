-- Rows of an application that keeps messages of chat completions.

CREATE OR REPLACE VIEW conversations WITH (security_barrier) AS
SELECT c.id, time_of(c.created_us) AS created_at, time_of(c.updated_us) AS updated_at, u.name AS user_id,
       stored_json(c.metadata) AS metadata
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t JOIN turn_state s ON s.turn = t.key
      WHERE t.organization = c.organization AND t.conversation = c.key AND s.on_head_path = 1 AND t.deleted_us IS NULL));

CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
SELECT m.turn_id || '.' || m.round || '.' || m.seq AS id, m.conversation_id,
       CASE m.role WHEN 'assistant' THEN 'assistant' WHEN 'user' THEN 'user' WHEN 'tool' THEN 'user' ELSE 'system' END
           AS role,
       CASE WHEN s.content <> '' OR s.tool_calls IS NULL THEN s.content END AS content,
       CASE WHEN s.has_parts THEN s.parts END AS content_json, s.tool_calls, NULL::jsonb AS function_call,
       NULL::text AS tool_call_id, NULL::text AS name, NULL::text AS status, time_of(m.at_us) AS created_at
FROM said_message m CROSS JOIN LATERAL (
    SELECT coalesce(string_agg(coalesce(e.block ->> 'text', e.block ->> 'refusal'), '' ORDER BY e.place), '') AS content,
           jsonb_agg(jsonb_build_object(
                         'id', e.block #> '{call,id}', 'type', 'function', 'function', jsonb_build_object(
                             'name', e.block #> '{call,n}', 'arguments', e.block #> '{call,a}'))
                     ORDER BY e.place) FILTER (WHERE e.block ? 'call') AS tool_calls,
           jsonb_agg(coalesce(e.block -> 'part', e.block #> '{part_of,1}', jsonb_build_object(
                         'type', 'text', 'text', coalesce(e.block -> 'text', e.block -> 'refusal')))
                     ORDER BY e.place) FILTER (WHERE e.block ?| ARRAY['part', 'part_of', 'text', 'refusal']) AS parts,
           bool_or(e.block ?| ARRAY['part', 'part_of']) AS has_parts
    FROM jsonb_array_elements(m.blocks) WITH ORDINALITY AS e (block, place)
    WHERE NOT e.block ?| ARRAY['origin', 'result']
    HAVING count(*) > 0
) s
UNION ALL
SELECT c.id, c.conversation_id, 'tool', coalesce(c.shown, ''), NULL, NULL, NULL, c.tool_call_id, c.tool_name, 'success',
       time_of(c.at_us)
FROM told_call c WHERE c.is_error = 0
UNION ALL
SELECT c.id, c.conversation_id, 'tool', coalesce(c.shown, ''), NULL, NULL, NULL, c.tool_call_id, c.tool_name, 'error',
       time_of(c.at_us)
FROM told_call c WHERE c.is_error = 1
UNION ALL
SELECT c.id, c.conversation_id, 'tool', '', NULL, NULL, NULL, c.tool_call_id, c.tool_name, 'pending', time_of(c.at_us)
FROM told_call c WHERE c.ended_us IS NULL
UNION ALL
SELECT r.id, r.conversation_id, 'tool', r.content, CASE WHEN r.has_parts THEN r.parts END, NULL, NULL, r.tool_call_id,
       r.tool_name, 'success', time_of(r.at_us)
FROM told_result r WHERE r.is_error = 0
UNION ALL
SELECT r.id, r.conversation_id, 'tool', r.content, CASE WHEN r.has_parts THEN r.parts END, NULL, NULL, r.tool_call_id,
       r.tool_name, 'error', time_of(r.at_us)
FROM told_result r WHERE r.is_error = 1;
