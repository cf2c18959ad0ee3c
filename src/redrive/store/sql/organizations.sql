-- name: _columns
name, title, created_at, created_by

-- name: insert
INSERT INTO redrive.organizations (name, title, created_at, created_by) VALUES (:name, :title, :now, :by)
ON CONFLICT (name) DO NOTHING
RETURNING {_columns}

-- name: lock
SELECT {_columns} FROM redrive.organizations WHERE name = :name FOR UPDATE

-- name: get
SELECT {_columns} FROM redrive.organizations WHERE name = :name

-- name: page
SELECT {_columns} FROM redrive.organizations WHERE name > :after ORDER BY name LIMIT :size
