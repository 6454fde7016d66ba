-- Whoever keeps something of turns sees here when to read it again.

-- How often a turn was deleted or erased.
CREATE TABLE forgotten (
    times INTEGER NOT NULL
) STRICT;

INSERT INTO forgotten VALUES (0);

CREATE TRIGGER turn_is_forgotten AFTER UPDATE OF deleted_us, erased_us ON turn
BEGIN
    UPDATE forgotten SET times = times + 1;
END;
