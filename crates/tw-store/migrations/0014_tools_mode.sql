-- What becomes of a key's tools where a request brings a list of its own: the list takes their place, or they are added
-- to it.

ALTER TABLE api_key ADD COLUMN tools_mode TEXT NOT NULL DEFAULT 'replace' CHECK (tools_mode IN ('replace', 'add'));
