DROP TABLE IF EXISTS erasure;
CREATE INDEX IF NOT EXISTS permission_of_action ON permission (app, object, kind);
DELETE FROM permission WHERE kind = 'tool';
ALTER TABLE permission ADD COLUMN definition BLOB CHECK ((definition IS NOT NULL) = (kind = 'tool'));
ALTER TABLE permission ADD COLUMN arguments TEXT CHECK ((arguments IS NOT NULL) = (kind = 'tool'));
ALTER TABLE permission ADD COLUMN folders INTEGER NOT NULL DEFAULT 0;
ALTER TABLE permission ADD COLUMN scripts INTEGER NOT NULL DEFAULT 0;
