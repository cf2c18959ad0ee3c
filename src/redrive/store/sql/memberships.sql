-- name: _members
(
    SELECT membership.*, account.name, account.disabled_at IS NOT NULL AS disabled
    FROM redrive.memberships AS membership JOIN redrive.users AS account ON account.id = membership.user_id
) AS member

-- name: insert
INSERT INTO redrive.memberships (org, user_id, role, active, version, created_at, created_by, updated_at)
VALUES (:org, :user_id, :role, 1, 1, :now, :by, :now)
ON CONFLICT (org, user_id) DO NOTHING
RETURNING user_id

-- name: find
SELECT {columns:Member} FROM {_members}
WHERE member.org = :org AND (member.user_id = :id OR member.name = :name)

-- name: page
SELECT {columns:Member} FROM {_members}
WHERE member.org = :org AND member.name > :after ORDER BY member.name LIMIT :size

-- name: change
UPDATE redrive.memberships SET role = :role, active = :active, version = version + 1, updated_at = :now
WHERE org = :org AND user_id = :user_id

-- name: remove
DELETE FROM redrive.memberships WHERE org = :org AND user_id = :user_id

-- name: other_owners
SELECT count(*) FROM {_members}
WHERE member.org = :org AND member.role = 'OWNER' AND member.active = 1 AND NOT member.disabled
    AND member.user_id <> :user_id

-- name: owned_by
SELECT org FROM redrive.memberships
WHERE user_id = :user_id AND role = 'OWNER' AND active = 1
ORDER BY org

-- name: roles
SELECT (SELECT role FROM redrive.memberships WHERE user_id = :user_id AND org = :org AND active = 1),
    (SELECT role FROM redrive.memberships WHERE user_id = :user_id AND org = :home AND active = 1)
FROM redrive.organizations WHERE name = :org

-- name: standings
SELECT known.name, known.title, member.role
FROM redrive.memberships AS member JOIN redrive.organizations AS known ON known.name = member.org
WHERE member.user_id = :user_id AND member.active = 1
ORDER BY CASE WHEN known.name = :home THEN 0 ELSE 1 END, known.name LIMIT :most
