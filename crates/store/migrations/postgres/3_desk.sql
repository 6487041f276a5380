-- Questions that wait for an answer, and tokens. `alive` is when a process that asks last said so; `used`, when the answer was
-- taken. `change` has one row: the version of the questions, and the lock of those who change them.
CREATE TABLE question (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id bytea NOT NULL UNIQUE CHECK (length(id) = 16),
  key bytea CHECK (length(key) = 32),
  app text NOT NULL,
  effect text NOT NULL,
  tenant text,
  asked bigint NOT NULL,
  expires bigint NOT NULL,
  alive bigint NOT NULL,
  answered bigint,
  used bigint,
  answer text CHECK ((answered IS NULL) = (answer IS NULL)),
  question text NOT NULL
);
CREATE INDEX question_by_answer ON question (answered);
CREATE INDEX question_by_key ON question (key);
CREATE TABLE token (
  name text PRIMARY KEY,
  digest bytea NOT NULL UNIQUE CHECK (length(digest) = 32),
  token text NOT NULL,
  last_used bigint
);
CREATE TABLE change (count bigint NOT NULL);
INSERT INTO change VALUES (0);
