CREATE TABLE permission (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  kind TEXT NOT NULL CHECK (kind IN ('selection', 'collaboration', 'egress', 'tool')),
  object TEXT NOT NULL,
  app TEXT NOT NULL,
  identity BLOB NOT NULL CHECK (length(identity) = 32),
  peer TEXT CHECK ((peer IS NOT NULL) = (kind = 'collaboration')),
  peer_identity BLOB CHECK (length(peer_identity) = 32 AND peer IS NOT NULL OR peer_identity IS NULL AND peer IS NULL),
  step TEXT CHECK ((step IS NOT NULL) = (kind = 'collaboration')),
  taints TEXT NOT NULL,
  granted INTEGER NOT NULL,
  expires INTEGER,
  definition BLOB CHECK ((definition IS NOT NULL) = (kind = 'tool')),
  arguments TEXT CHECK ((arguments IS NOT NULL) = (kind = 'tool')),
  folders INTEGER NOT NULL DEFAULT 0,
  scripts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX permission_of_action ON permission (app, object, kind);
