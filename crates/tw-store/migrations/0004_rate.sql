-- Limits of a key of its own: requests that begin a turn per minute, turns at once, streams at once.
-- NULL leaves it to the server's configuration, 0 is no limit.

ALTER TABLE api_key ADD COLUMN requests_per_minute INTEGER CHECK (requests_per_minute BETWEEN 0 AND 4294967295);
ALTER TABLE api_key ADD COLUMN concurrency_max INTEGER CHECK (concurrency_max BETWEEN 0 AND 4294967295);
ALTER TABLE api_key ADD COLUMN streams_max INTEGER CHECK (streams_max BETWEEN 0 AND 4294967295);
