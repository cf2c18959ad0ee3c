-- name: _view
id, org, name, page, query, view, sort, created_by, created_at

-- name: insert
INSERT INTO redrive.saved_views ({_view})
VALUES (:id, :org, :name, :page, :query, :view, :sort, :created_by, :now)
ON CONFLICT (org, page, name) DO NOTHING
RETURNING {_view}

-- name: named
SELECT {_view} FROM redrive.saved_views WHERE org = :org AND page = :page AND name = :name

-- name: list
SELECT {_view} FROM redrive.saved_views
WHERE org = :org AND (CAST(:page AS text) IS NULL OR page = :page)
ORDER BY page, lower(name), name

-- name: number
SELECT count(*) FROM redrive.saved_views WHERE org = :org

-- name: remove
DELETE FROM redrive.saved_views WHERE org = :org AND id = :id RETURNING {_view}
