-- Only PostgreSQL has row-level security. It holds for roles whose name ends in redrive_tenant (see postgres_wall.py):
-- the owner is not touched by it at all, and other users of the tables see what they have always seen. What a policy
-- shows is also what it allows to be written. Without an org that was set, nothing is shown.

ALTER TABLE redrive.runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.runs USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letters ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letters USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_notes USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_dependencies ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_dependencies USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_counts USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.dead_letter_figures ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.dead_letter_figures USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.failure_groups ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.failure_groups USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.failure_group_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.failure_group_versions USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.replay_operations ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.replay_operations USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.replays ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.replays USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.audit_heads ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.audit_heads USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.audit ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.audit USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.idempotency_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.idempotency_keys USING (
    org = current_setting('redrive_tenant.org', true) OR right(current_user, 14) <> 'redrive_tenant');

-- These belong to the org of their run. Asked in the other order, other users would look it up for nothing.

ALTER TABLE redrive.steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.steps USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.runs AS run
    WHERE run.id = steps.run_id AND run.org = current_setting('redrive_tenant.org', true)));

ALTER TABLE redrive.attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.attempts USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.runs AS run
    WHERE run.id = attempts.run_id AND run.org = current_setting('redrive_tenant.org', true)));

ALTER TABLE redrive.run_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON redrive.run_events USING (right(current_user, 14) <> 'redrive_tenant' OR EXISTS (
    SELECT 1 FROM redrive.runs AS run
    WHERE run.id = run_events.run_id AND run.org = current_setting('redrive_tenant.org', true)));

-- These are seen by all orgs, and changed by the home org.

ALTER TABLE redrive.queues ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON redrive.queues FOR SELECT USING (true);
CREATE POLICY tenant ON redrive.queues USING (
    current_setting('redrive_tenant.org', true) = 'default' OR right(current_user, 14) <> 'redrive_tenant');

ALTER TABLE redrive.breakers ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON redrive.breakers FOR SELECT USING (true);
CREATE POLICY tenant ON redrive.breakers USING (
    current_setting('redrive_tenant.org', true) = 'default' OR right(current_user, 14) <> 'redrive_tenant');
