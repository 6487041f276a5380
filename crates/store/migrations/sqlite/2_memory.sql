CREATE TABLE namespace (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  forgotten INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE memory (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  namespace INTEGER NOT NULL REFERENCES namespace (id),
  kind TEXT NOT NULL CHECK (kind IN ('user', 'system', 'summary', 'fact')),
  label TEXT NOT NULL,
  entity TEXT CHECK ((entity IS NOT NULL) = (kind = 'fact')),
  attribute TEXT CHECK ((attribute IS NOT NULL) = (kind = 'fact')),
  text TEXT NOT NULL,
  origin TEXT NOT NULL,
  time INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX memory_of_namespace ON memory (namespace, sequence);
CREATE INDEX memory_of_label ON memory (namespace, label, sequence, bytes);
CREATE INDEX memory_of_time ON memory (time);
CREATE TABLE source (
  derived INTEGER NOT NULL REFERENCES memory (sequence),
  position INTEGER NOT NULL,
  source INTEGER NOT NULL REFERENCES memory (sequence),
  PRIMARY KEY (derived, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX source_of ON source (source);
