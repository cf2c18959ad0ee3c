ALTER TABLE redrive.saved_views ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.saved_views USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
