-- Calls that run only once somebody has approved them.

-- How it stands with the approval of a call that needs one. The question is open until `deadline_us` while it is 'asked'.
ALTER TABLE tool_call ADD COLUMN approval TEXT
    CHECK (approval IS NULL OR approval = 'needed' OR approval = 'asked' OR approval = 'approved'
           OR approval = 'denied' OR approval = 'expired');
-- The id of the call that was asked about and that this one acts on, in round 0 of the turn that brought the answer.
ALTER TABLE tool_call ADD COLUMN approves TEXT;

-- A question is answered once, whoever answers.
CREATE UNIQUE INDEX tool_call_approves ON tool_call (organization, approves) WHERE approves IS NOT NULL;
CREATE INDEX tool_call_asked ON tool_call (deadline_us) WHERE approval = 'asked';

-- Calls of round 0 were made by no round of the model.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (round >= 1)', 'CHECK (round >= 0)')
    WHERE type = 'table' AND name IN ('tool_call', 'attempt');
PRAGMA writable_schema = RESET;
