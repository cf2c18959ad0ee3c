ALTER TABLE redrive.rebuilds ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.rebuilds USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
