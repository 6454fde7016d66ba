-- Rows of an application that keeps LangChain's messages.

CREATE OR REPLACE VIEW conversations WITH (security_barrier) AS
SELECT c.id, time_of(c.created_us) AS created_at, time_of(c.updated_us) AS updated_at, u.name AS user_id,
       stored_json(c.metadata) AS metadata
FROM conversation c LEFT JOIN end_user u ON u.key = c.end_user
WHERE c.organization = (SELECT w.organization FROM whose w)
  AND (c.api_key IS NOT NULL OR EXISTS (
      SELECT 1 FROM turn_start t JOIN turn_state s ON s.turn = t.key
      WHERE t.organization = c.organization AND t.conversation = c.key AND s.on_head_path = 1 AND t.deleted_us IS NULL));

CREATE OR REPLACE VIEW messages WITH (security_barrier) AS
SELECT m.turn_id || '.' || m.round || '.' || m.seq AS id, time_of(m.at_us) AS created_at, m.conversation_id, s.content,
       CASE m.role WHEN 'assistant' THEN 'assistant' ELSE 'user' END AS role, s.tool_calls,
       NULL::text AS tool_call_id, NULL::text AS tool_name, NULL::text AS status,
       jsonb_build_object('turn', m.turn_id)
           || CASE WHEN m.role = 'assistant' AND m.model <> '' THEN jsonb_build_object('model', m.model) ELSE '{}' END
           || CASE WHEN s.has_parts THEN jsonb_build_object('content', s.parts) ELSE '{}' END
           || CASE WHEN s.reasoning <> '' THEN jsonb_build_object('reasoning', s.reasoning) ELSE '{}' END
           || CASE WHEN s.invalid IS NOT NULL THEN jsonb_build_object('invalid_tool_calls', s.invalid) ELSE '{}' END
           AS metadata
FROM said_message m CROSS JOIN LATERAL (
    SELECT coalesce(string_agg(coalesce(e.block ->> 'text', e.block ->> 'refusal'), '' ORDER BY e.place), '') AS content,
           jsonb_agg(jsonb_build_object('id', e.block #> '{call,id}', 'name', e.block #> '{call,n}', 'args', a.args)
                     ORDER BY e.place) FILTER (WHERE jsonb_typeof(a.args) = 'object') AS tool_calls,
           jsonb_agg(jsonb_build_object('id', e.block #> '{call,id}', 'name', e.block #> '{call,n}',
                                        'args', e.block #> '{call,a}')
                     ORDER BY e.place) FILTER (WHERE e.block ? 'call' AND jsonb_typeof(a.args) IS DISTINCT FROM 'object')
               AS invalid,
           string_agg(e.block #>> '{reasoning,t}', '' ORDER BY e.place) AS reasoning,
           jsonb_agg(coalesce(e.block -> 'part', e.block #> '{part_of,1}', jsonb_build_object(
                         'type', 'text', 'text', coalesce(e.block -> 'text', e.block -> 'refusal')))
                     ORDER BY e.place) FILTER (WHERE e.block ?| ARRAY['part', 'part_of', 'text', 'refusal']) AS parts,
           bool_or(e.block ?| ARRAY['part', 'part_of']) AS has_parts
    FROM jsonb_array_elements(m.blocks) WITH ORDINALITY AS e (block, place)
         CROSS JOIN LATERAL (
             SELECT CASE WHEN btrim(e.block #>> '{call,a}', E' \t\r\n') = '' THEN '{}'
                         ELSE stored_json(e.block #>> '{call,a}') END AS args
         ) a
    WHERE NOT e.block ?| ARRAY['origin', 'result']
    HAVING count(*) > 0
) s
WHERE m.role IN ('user', 'tool', 'assistant')
UNION ALL
SELECT c.id, time_of(c.at_us), c.conversation_id, coalesce(c.shown, ''), 'tool', NULL, c.tool_call_id, c.tool_name,
       'success', jsonb_build_object('turn', c.turn_id)
FROM told_call c WHERE c.is_error = 0
UNION ALL
SELECT c.id, time_of(c.at_us), c.conversation_id, coalesce(c.shown, ''), 'tool', NULL, c.tool_call_id, c.tool_name,
       'error', jsonb_build_object('turn', c.turn_id)
FROM told_call c WHERE c.is_error = 1
UNION ALL
SELECT c.id, time_of(c.at_us), c.conversation_id, '', 'tool', NULL, c.tool_call_id, c.tool_name,
       'pending', jsonb_build_object('turn', c.turn_id)
FROM told_call c WHERE c.ended_us IS NULL
UNION ALL
SELECT r.id, time_of(r.at_us), r.conversation_id, r.content, 'tool', NULL, r.tool_call_id, r.tool_name, 'success',
       jsonb_build_object('turn', r.turn_id)
           || CASE WHEN r.has_parts THEN jsonb_build_object('content', r.parts) ELSE '{}' END
FROM told_result r WHERE r.is_error = 0
UNION ALL
SELECT r.id, time_of(r.at_us), r.conversation_id, r.content, 'tool', NULL, r.tool_call_id, r.tool_name, 'error',
       jsonb_build_object('turn', r.turn_id)
           || CASE WHEN r.has_parts THEN jsonb_build_object('content', r.parts) ELSE '{}' END
FROM told_result r WHERE r.is_error = 1;

-- Where rows are put that are inserted: by a role as its own key alone.
CREATE OR REPLACE VIEW inbox WITH (security_barrier) AS
SELECT q.organization, q.api_key, q.shape, q.conversation, q.body, q.created_us, q.updated_us
FROM queued_row q
WHERE q.organization = (SELECT w.organization FROM whose w) AND q.api_key = (SELECT w.api_key FROM whose w)
  AND q.shape = 'langchain'
WITH CHECK OPTION;

-- Rows that a server has not appended yet, and those that it refused.
CREATE OR REPLACE VIEW queued_messages WITH (security_barrier) AS
SELECT q.key AS id, q.conversation AS conversation_id, stored_json(q.body) AS message, q.fault AS refused,
       time_of(q.created_us) AS created_at
FROM queued_row q
WHERE q.organization = (SELECT w.organization FROM whose w) AND q.api_key = (SELECT w.api_key FROM whose w)
  AND q.shape = 'langchain';

CREATE OR REPLACE FUNCTION insert_message() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    us bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM whose w WHERE w.api_key IS NOT NULL) THEN
        RAISE insufficient_privilege USING MESSAGE = 'nothing is inserted without a key',
            HINT = 'turnwright sql langchain --key KEY --role ' || quote_ident(current_user);
    ELSIF new.id IS NOT NULL OR new.created_at IS NOT NULL THEN
        RAISE generated_always USING MESSAGE = 'id and created_at are given by the server';
    ELSIF new.conversation_id IS NULL THEN
        RAISE not_null_violation USING MESSAGE = 'conversation_id must not be null';
    ELSIF new.content IS NULL THEN
        RAISE not_null_violation USING MESSAGE = 'content must not be null';
    ELSIF new.role IS NULL OR new.role NOT IN ('user', 'assistant', 'tool') THEN
        RAISE check_violation USING MESSAGE = 'role is user, assistant or tool';
    ELSIF new.status NOT IN ('pending', 'success', 'error') THEN
        RAISE check_violation USING MESSAGE = 'status is null, pending, success or error';
    ELSIF new.status = 'pending' THEN
        RAISE check_violation
            USING MESSAGE = 'a result is inserted once it is there; until then its call has none';
    END IF;
    INSERT INTO inbox (organization, api_key, shape, conversation, body, created_us, updated_us)
    SELECT w.organization, w.api_key, 'langchain', new.conversation_id,
           json_build_object('role', new.role, 'content', new.content, 'tool_calls', new.tool_calls,
                             'tool_call_id', new.tool_call_id, 'tool_name', new.tool_name, 'status', new.status,
                             'metadata', nullif(new.metadata, '{}'))::text,
           us, us
    FROM whose w;
    new.created_at := time_of(us);
    RETURN new;
END $$;

CREATE OR REPLACE TRIGGER message_inserted INSTEAD OF INSERT ON messages FOR EACH ROW
    EXECUTE FUNCTION insert_message();

-- What is refused is refused with where it is done.
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE feature_not_supported USING MESSAGE = tg_argv[0];
END $$;

CREATE OR REPLACE TRIGGER message_updated INSTEAD OF UPDATE ON messages FOR EACH ROW
    EXECUTE FUNCTION refuse('messages are not changed: append others, POST /v1/conversations/ID/rows');
CREATE OR REPLACE TRIGGER message_deleted INSTEAD OF DELETE ON messages FOR EACH ROW
    EXECUTE FUNCTION refuse('messages are deleted with their conversation: DELETE /v1/conversations/ID');
CREATE OR REPLACE TRIGGER conversation_inserted INSTEAD OF INSERT ON conversations FOR EACH ROW
    EXECUTE FUNCTION refuse('a conversation is made by its first message, or by POST /v1/conversations');
CREATE OR REPLACE TRIGGER conversation_updated INSTEAD OF UPDATE ON conversations FOR EACH ROW
    EXECUTE FUNCTION refuse('a conversation is changed by POST /v1/conversations/ID');
CREATE OR REPLACE TRIGGER conversation_deleted INSTEAD OF DELETE ON conversations FOR EACH ROW
    EXECUTE FUNCTION refuse('a conversation is deleted by DELETE /v1/conversations/ID');
