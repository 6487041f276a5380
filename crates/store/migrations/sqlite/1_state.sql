-- The log of a tenant has `head` records. `version` counts changes of documents; a row is never removed, so that no number
-- and no version is used twice.
CREATE TABLE tenant (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 32),
  head INTEGER NOT NULL,
  version INTEGER NOT NULL
) STRICT;
CREATE TABLE record (
  tenant BLOB NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant, number)
) STRICT;
CREATE INDEX record_by_time ON record (at);
CREATE TABLE session (
  tenant BLOB NOT NULL,
  key BLOB NOT NULL CHECK (length(key) = 32),
  version INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant, key)
) STRICT;
CREATE INDEX session_by_time ON session (at);
CREATE TABLE permit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant BLOB NOT NULL,
  name TEXT NOT NULL,
  key BLOB NOT NULL CHECK (length(key) = 32),
  until INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX permit_by_key ON permit (tenant, key);
CREATE INDEX permit_by_name ON permit (tenant, name);
CREATE TABLE usage (
  tenant TEXT NOT NULL,
  thing TEXT NOT NULL,
  hour INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (tenant, thing, hour)
) STRICT;
