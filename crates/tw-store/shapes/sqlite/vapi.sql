-- Tools as an application keeps them whose calls VAPI makes.

DROP VIEW IF EXISTS temp.tools;
CREATE TEMP VIEW tools AS
SELECT t.id, t.name, json_extract(v.shown, '$.label') AS label, json_extract(v.shown, '$.description') AS description,
       printf('00000000-0000-0000-0000-%012x', t.organization) AS organization_id,
       -- VAPI's own, of a tool that was imported.
       (SELECT json_extract(CAST(r.row AS TEXT), '$.external_tool_id') FROM imported_row r
        WHERE r.organization = t.organization AND r.shape = 'vapi' AND r.source_table = 'tools' AND r.id = t.id)
           AS external_tool_id,
       'apiRequest' AS type, v.shown -> '$.function_schema' AS function_schema,
       nullif(v.shown -> '$.static_config', 'null') AS static_config, v.shown -> '$.config' AS config_metadata,
       0 AS async, 0 AS execute_on_call_start, 1 AS attach_to_agent, '{}' AS data,
       strftime('%Y-%m-%dT%H:%M:%S', t.created_us / 1000000, 'unixepoch') || printf('.%06dZ', t.created_us % 1000000)
           AS created_at,
       strftime('%Y-%m-%dT%H:%M:%S', t.updated_us / 1000000, 'unixepoch') || printf('.%06dZ', t.updated_us % 1000000)
           AS updated_at
FROM tool t JOIN tool_version v ON v.tool = t.key AND v.version = t.version
WHERE t.organization = (SELECT w.organization FROM whose w) AND t.deleted_us IS NULL AND v.shown IS NOT NULL;
