-- name: _member
member.org, member.user_id, account.name, member.role, member.active, member.version, member.created_at,
    member.created_by, member.updated_at, account.disabled_at

-- name: _members
redrive.memberships AS member JOIN redrive.users AS account ON account.id = member.user_id

-- name: insert
INSERT INTO redrive.memberships (org, user_id, role, active, version, created_at, created_by, updated_at)
VALUES (:org, :user_id, :role, 1, 1, :now, :by, :now)
ON CONFLICT (org, user_id) DO NOTHING
RETURNING user_id

-- name: find
SELECT {_member} FROM {_members}
WHERE member.org = :org AND (member.user_id = :id OR account.name = :name)

-- name: page
SELECT {_member} FROM {_members}
WHERE member.org = :org AND account.name > :after ORDER BY account.name LIMIT :size

-- name: change
UPDATE redrive.memberships SET role = :role, active = :active, version = version + 1, updated_at = :now
WHERE org = :org AND user_id = :user_id

-- name: remove
DELETE FROM redrive.memberships WHERE org = :org AND user_id = :user_id

-- name: other_owners
SELECT count(*) FROM {_members}
WHERE member.org = :org AND member.role = 'OWNER' AND member.active = 1 AND account.disabled_at IS NULL
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
