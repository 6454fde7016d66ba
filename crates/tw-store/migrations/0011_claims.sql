-- A turn that ends each process which takes it over is found by how often that was tried.

-- Claims since the last one whose driver went on with the turn; a claim raises it before anything of the turn is read.
ALTER TABLE turn ADD COLUMN claims_open INTEGER NOT NULL DEFAULT 0 CHECK (claims_open >= 0);
