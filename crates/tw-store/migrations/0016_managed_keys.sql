-- Keys are managed over HTTP: they have an id that may be told, and the key that made them.

ALTER TABLE api_key ADD COLUMN id TEXT;
ALTER TABLE api_key ADD COLUMN created_by INTEGER REFERENCES api_key (key);

-- In the form of a random UUID; new ones begin with the time.
UPDATE api_key SET id = lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2)
    || '-8' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)));

CREATE UNIQUE INDEX api_key_id ON api_key (organization, id);
