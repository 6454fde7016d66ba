-- Turns come in by further surfaces. What is stored stays as it is.

PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'CHECK (surface IN (''chat_completions''))',
    'CHECK (surface = ''chat_completions'' OR surface = ''messages'' OR surface = ''responses'')')
    WHERE type = 'table' AND name = 'turn';
PRAGMA writable_schema = RESET;
