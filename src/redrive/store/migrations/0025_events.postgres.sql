ALTER TABLE redrive.events ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.events USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.projections ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.projections USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.streams ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.streams USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.dead_entries ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_entries USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
ALTER TABLE redrive.outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.outbox USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');
