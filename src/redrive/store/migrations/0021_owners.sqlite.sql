ALTER TABLE runs ADD COLUMN owner text;
