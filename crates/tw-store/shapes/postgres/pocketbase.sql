-- Records of an application that keeps its calls in PocketBase: all turns and calls, also those that run and those of
-- branches.

CREATE OR REPLACE FUNCTION pocketbase_time(us bigint) RETURNS text LANGUAGE sql STABLE
    RETURN to_char(time_of(us) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS"Z"');

CREATE OR REPLACE VIEW conversations WITH (security_barrier) AS
SELECT c.id, u.name AS "user", pocketbase_time(c.created_us) AS created, pocketbase_time(c.updated_us) AS updated
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t WHERE t.organization = c.organization AND t.conversation = c.key AND t.deleted_us IS NULL));

CREATE OR REPLACE VIEW turns WITH (security_barrier) AS
SELECT t.id, c.id AS conversation,
       coalesce((SELECT string_agg(s.text, E'\n\n' ORDER BY m.seq)
                 FROM whole_message m CROSS JOIN LATERAL (
                     SELECT string_agg(coalesce(e.block ->> 'text', e.block ->> 'refusal'), '' ORDER BY e.place) AS text
                     FROM jsonb_array_elements(stored_json(m.blocks)) WITH ORDINALITY AS e (block, place)) s
                 WHERE m.turn = t.key AND m.role = 'user' AND s.text <> ''), '') AS prompt,
       -- What the assistant said last; in pieces, where a client brought it so.
       coalesce((SELECT string_agg(s.text, '' ORDER BY m.seq)
                 FROM whole_message m CROSS JOIN LATERAL (
                     SELECT string_agg(coalesce(e.block ->> 'text', e.block ->> 'refusal'), '' ORDER BY e.place) AS text
                     FROM jsonb_array_elements(stored_json(m.blocks)) WITH ORDINALITY AS e (block, place)) s
                 WHERE m.turn = t.key AND m.role = 'assistant'
                   AND NOT EXISTS (SELECT 1 FROM message o
                                   WHERE o.turn = m.turn AND o.role = 'assistant' AND o.round > m.round)
                   AND NOT EXISTS (SELECT 1 FROM message o JOIN message l ON l.turn = o.turn AND l.round = o.round
                                   WHERE o.turn = m.turn AND o.round = m.round AND o.seq > m.seq
                                     AND (m.round > 0 OR o.role <> 'assistant')
                                     AND l.role = 'assistant' AND l.seq >= o.seq)), '') AS answer,
       EXISTS (SELECT 1 FROM tool_call o WHERE o.turn = t.key) AS has_tool_calls,
       (SELECT count(*) FROM tool_call o WHERE o.turn = t.key) AS tool_count,
       pocketbase_time(t.created_us) AS created, pocketbase_time(coalesce(t.ended_us, t.updated_us)) AS updated
FROM turn t JOIN conversation c ON c.key = t.conversation
WHERE t.organization = (SELECT w.organization FROM whose w) AND t.deleted_us IS NULL AND t.erased_us IS NULL;

CREATE OR REPLACE VIEW pocketbase_call AS
SELECT c.id, t.id AS turn, c.tool_name, c.tool_call_id,
       CASE WHEN btrim(c.arguments, E' \t\r\n') = '' THEN '{}' ELSE json_or_text(c.arguments) END AS arguments,
       CASE WHEN c.status = 'completed' THEN json_or_text(c.result) END AS result,
       CASE WHEN c.status = 'failed' THEN coalesce(nullif(c.shown, ''), c.reason) END AS error,
       c.external_id,
       jsonb_build_object('round', c.round, 'runs', c.runs)
           || CASE WHEN c.cost_microusd IS NULL THEN '{}' ELSE jsonb_build_object('cost_microusd', c.cost_microusd) END
           AS metadata,
       pocketbase_time(c.created_us) AS created,
       pocketbase_time(coalesce(c.ended_us, c.started_us, c.created_us)) AS updated, c.status, c.is_error, c.ended_us
FROM whole_call c JOIN turn t ON t.key = c.turn
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND t.organization = (SELECT w.organization FROM whose w) AND t.deleted_us IS NULL AND t.erased_us IS NULL;

-- In parts by status, so that those that run and those that failed are found by their indexes.
CREATE OR REPLACE VIEW tool_calls WITH (security_barrier) AS
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'completed' AS status, c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c WHERE c.status = 'completed'
UNION ALL
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'failed', c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c WHERE c.status = 'failed' AND c.is_error = 1
UNION ALL
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'processing', c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c WHERE c.status = 'processing' AND c.ended_us IS NULL
UNION ALL
SELECT c.id, c.turn, c.tool_name, c.tool_call_id, c.arguments, c.result, 'pending', c.error, c.external_id,
       c.metadata, c.created, c.updated
FROM pocketbase_call c WHERE c.status = 'pending' AND c.ended_us IS NULL;
