ALTER TABLE redrive.runs RENAME COLUMN lonely_losses TO isolated_crashes;
ALTER TABLE redrive.runs RENAME COLUMN alone TO isolation;
