DROP TABLE IF EXISTS erasure;
CREATE INDEX IF NOT EXISTS memory_of_label ON memory (namespace, label, sequence, bytes);
CREATE INDEX IF NOT EXISTS memory_of_time ON memory (time);
INSERT OR IGNORE INTO namespace (name) VALUES ('hub');
UPDATE memory SET namespace = (SELECT id FROM namespace WHERE name = 'hub')
  WHERE namespace IN (SELECT id FROM namespace WHERE name LIKE 'app:%');
DELETE FROM namespace WHERE name LIKE 'app:%';
ALTER TABLE namespace DROP COLUMN entries;
ALTER TABLE namespace DROP COLUMN bytes;
