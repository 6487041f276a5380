-- The tables of ../sqlite/1_audit.sql.
CREATE TABLE audit_chain (
  chain bytea PRIMARY KEY CHECK (octet_length(chain) = 16),
  number bigint NOT NULL,
  linked bigint NOT NULL,
  head text NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE audit_entry (
  chain bytea NOT NULL CHECK (octet_length(chain) = 16),
  number bigint NOT NULL,
  at bigint NOT NULL,
  entry text NOT NULL,
  PRIMARY KEY (chain, number)
);
CREATE INDEX audit_entry_by_time ON audit_entry (at, chain, number);
