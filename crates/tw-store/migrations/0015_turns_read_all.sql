-- Reading the turns of other keys of the organization is a scope of its own. Keys that were made before keep what they had.

UPDATE api_key
    SET scopes = trim(replace(' ' || scopes || ' ', ' turns:read ', ' turns:read turns:read_all '))
    WHERE instr(' ' || scopes || ' ', ' turns:read ') > 0;
