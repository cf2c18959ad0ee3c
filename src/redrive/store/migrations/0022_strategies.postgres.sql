ALTER TABLE redrive.dead_letter_strategies ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_strategies USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
