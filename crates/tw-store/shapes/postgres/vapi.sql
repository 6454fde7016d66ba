-- Tools as an application keeps them whose calls VAPI makes.

CREATE OR REPLACE VIEW tools WITH (security_barrier) AS
SELECT t.id::uuid AS id, t.name, s.shown ->> 'label' AS label, s.shown ->> 'description' AS description,
       ('00000000-0000-0000-0000-' || lpad(to_hex(t.organization), 12, '0'))::uuid AS organization_id,
       -- VAPI's own, of a tool that was imported.
       (SELECT stored_json(convert_from(r.row, 'UTF8')) ->> 'external_tool_id' FROM imported_row r
        WHERE r.organization = t.organization AND r.shape = 'vapi' AND r.source_table = 'tools' AND r.id = t.id)
           AS external_tool_id,
       'apiRequest'::text AS type, s.shown -> 'function_schema' AS function_schema,
       nullif(s.shown -> 'static_config', 'null') AS static_config, s.shown -> 'config' AS config_metadata,
       false AS async, false AS execute_on_call_start, true AS attach_to_agent, '{}'::jsonb AS data,
       time_of(t.created_us) AS created_at, time_of(t.updated_us) AS updated_at
FROM tool t JOIN tool_version v ON v.tool = t.key AND v.version = t.version
     CROSS JOIN LATERAL (SELECT stored_json(v.shown) OFFSET 0) AS s (shown)
WHERE t.organization = (SELECT w.organization FROM whose w) AND t.deleted_us IS NULL AND v.shown IS NOT NULL;
