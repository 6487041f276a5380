-- `alive` is when a process that asks last said so; `used`, when the answer was taken. What is long comes last, so that the
-- rest is read without it. `change` has one row, which is the version of the questions.
CREATE TABLE question (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  key BLOB CHECK (length(key) = 32),
  app TEXT NOT NULL,
  effect TEXT NOT NULL,
  tenant TEXT,
  asked INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  alive INTEGER NOT NULL,
  answered INTEGER,
  used INTEGER,
  answer TEXT CHECK ((answered IS NULL) = (answer IS NULL)),
  question TEXT NOT NULL
) STRICT;
CREATE INDEX question_by_answer ON question (answered);
CREATE INDEX question_by_key ON question (key);
CREATE TABLE token (
  name TEXT NOT NULL PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  token TEXT NOT NULL,
  last_used INTEGER
) STRICT;
CREATE TABLE change (count INTEGER NOT NULL) STRICT;
INSERT INTO change VALUES (0);
