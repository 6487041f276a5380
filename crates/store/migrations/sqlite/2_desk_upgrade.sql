ALTER TABLE question ADD COLUMN key BLOB;
ALTER TABLE question ADD COLUMN tenant TEXT;
ALTER TABLE question ADD COLUMN used INTEGER;
CREATE INDEX question_by_key ON question (key);
