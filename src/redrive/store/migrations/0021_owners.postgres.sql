ALTER TABLE redrive.run_inputs ADD COLUMN owner text;
