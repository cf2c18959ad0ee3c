-- name: insert
INSERT INTO redrive.organizations (name, title, created_at, created_by) VALUES (:name, :title, :now, :by)
ON CONFLICT (name) DO NOTHING
RETURNING {columns:Organization}

-- name: lock
SELECT {columns:Organization} FROM redrive.organizations WHERE name = :name FOR UPDATE

-- name: get
SELECT {columns:Organization} FROM redrive.organizations WHERE name = :name

-- name: page
SELECT {columns:Organization} FROM redrive.organizations WHERE name > :after ORDER BY name LIMIT :size
