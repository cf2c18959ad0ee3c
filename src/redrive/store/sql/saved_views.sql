-- name: insert
INSERT INTO redrive.saved_views ({columns:SavedView except created_at}, created_at)
SELECT {columns:SavedView batch except created_at}, :now FROM {batch:SavedView except created_at}
ON CONFLICT (org, page, name) DO NOTHING
RETURNING {columns:SavedView}

-- name: named
SELECT {columns:SavedView} FROM redrive.saved_views WHERE org = :org AND page = :page AND name = :name

-- name: list
SELECT {columns:SavedView} FROM redrive.saved_views
WHERE org = :org AND (CAST(:page AS text) IS NULL OR page = :page)
ORDER BY page, lower(name), name

-- name: number
SELECT count(*) FROM redrive.saved_views WHERE org = :org

-- name: remove
DELETE FROM redrive.saved_views WHERE org = :org AND id = :id RETURNING {columns:SavedView}
