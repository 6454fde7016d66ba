-- The writes of a turn made cheaper; what is stored stays as it is.
--
-- SQLite builds a temporary table for a list of three or more words behind IN each time that a statement
-- checks it, which costs more than the write itself; a row of comparisons costs next to nothing. A check can
-- only be changed in the schema's own text (https://www.sqlite.org/lang_altertable.html, at its end: a change
-- that does not affect what is stored).

-- No read needs it: ids that we make sort by time.
DROP INDEX turn_by_time;

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (status IN (''running'', ''completed'', ''incomplete'', ''failed'', ''cancelled''))',
    'CHECK (status = ''running'' OR status = ''completed'' OR status = ''incomplete'' OR status = ''failed''
            OR status = ''cancelled'')')
    WHERE type = 'table' AND name = 'turn';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (reason IN (''length'', ''rounds'', ''calls'', ''cost'', ''deadline'', ''interrupted'',
                          ''upstream'', ''internal'', ''client_left'', ''requested''))',
    'CHECK (reason IS NULL OR reason = ''length'' OR reason = ''rounds'' OR reason = ''calls''
            OR reason = ''cost'' OR reason = ''deadline'' OR reason = ''interrupted''
            OR reason = ''upstream'' OR reason = ''internal'' OR reason = ''client_left''
            OR reason = ''requested'')')
    WHERE type = 'table' AND name = 'turn';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (stop_reason IN (''length'', ''rounds'', ''calls'', ''cost'', ''deadline'', ''interrupted'',
                               ''upstream'', ''internal'', ''client_left'', ''requested''))',
    'CHECK (stop_reason IS NULL OR stop_reason = ''length'' OR stop_reason = ''rounds''
            OR stop_reason = ''calls'' OR stop_reason = ''cost'' OR stop_reason = ''deadline''
            OR stop_reason = ''interrupted'' OR stop_reason = ''upstream''
            OR stop_reason = ''internal'' OR stop_reason = ''client_left''
            OR stop_reason = ''requested'')')
    WHERE type = 'table' AND name = 'turn';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (role IN (''system'', ''developer'', ''user'', ''assistant'', ''tool''))',
    'CHECK (role = ''system'' OR role = ''developer'' OR role = ''user'' OR role = ''assistant''
            OR role = ''tool'')')
    WHERE type = 'table' AND name = 'message';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (runs IN (''server'', ''client'', ''outside''))',
    'CHECK (runs = ''server'' OR runs = ''client'' OR runs = ''outside'')')
    WHERE type = 'table' AND name = 'tool_call';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (effect IN (''read'', ''idempotent'', ''queryable'', ''once''))',
    'CHECK (effect IS NULL OR effect = ''read'' OR effect = ''idempotent'' OR effect = ''queryable''
            OR effect = ''once'')')
    WHERE type = 'table' AND name = 'tool_call';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (status IN (''pending'', ''processing'', ''completed'', ''failed''))',
    'CHECK (status = ''pending'' OR status = ''processing'' OR status = ''completed'' OR status = ''failed'')')
    WHERE type = 'table' AND name = 'tool_call';
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (reason IN (''invalid_arguments'', ''unknown_tool'', ''quota'', ''denied'', ''approval_expired'',
                          ''cancelled'', ''interrupted'', ''tool_error'', ''not_sent'', ''target_not_allowed'',
                          ''reset'', ''timeout'', ''deadline'', ''panicked'', ''outcome_unknown''))',
    'CHECK (reason IS NULL OR reason = ''invalid_arguments'' OR reason = ''unknown_tool''
            OR reason = ''quota'' OR reason = ''denied'' OR reason = ''approval_expired''
            OR reason = ''cancelled'' OR reason = ''interrupted'' OR reason = ''tool_error''
            OR reason = ''not_sent'' OR reason = ''target_not_allowed'' OR reason = ''reset''
            OR reason = ''timeout'' OR reason = ''deadline'' OR reason = ''panicked''
            OR reason = ''outcome_unknown'')')
    WHERE type = 'table' AND name = 'tool_call';
PRAGMA writable_schema = RESET;
