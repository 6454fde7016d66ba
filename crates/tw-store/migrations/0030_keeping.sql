-- What is kept for how long, and what is forgotten when somebody asks for it.

-- Turns whose contents an organization keeps for so long and no longer.
CREATE INDEX turn_contents_kept ON turn (organization, ended_us) WHERE ended_us IS NOT NULL AND erased_us IS NULL;

-- A version that no call ran goes when newer ones have come.
CREATE INDEX tool_call_version ON tool_call (tool_version) WHERE tool_version IS NOT NULL;

-- Set while the turns of a person who is to be forgotten are being deleted. Its name is another by then.
ALTER TABLE end_user ADD COLUMN erasing_us INTEGER;
CREATE INDEX end_user_erasing ON end_user (key) WHERE erasing_us IS NOT NULL;
