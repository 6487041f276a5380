-- `linked` is up to which entry the first entry of another chain names this one. `at` is for the order of entries of several chains.
CREATE TABLE audit_chain (
  chain BLOB NOT NULL PRIMARY KEY CHECK (length(chain) = 16),
  number INTEGER NOT NULL,
  linked INTEGER NOT NULL,
  head TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit_entry (
  chain BLOB NOT NULL CHECK (length(chain) = 16),
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  entry TEXT NOT NULL,
  PRIMARY KEY (chain, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_entry_by_time ON audit_entry (at, chain, number);
