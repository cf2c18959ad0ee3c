-- name: all
SELECT {columns:StrategyRow} FROM redrive.dead_letter_strategies ORDER BY org, queue

-- name: of
SELECT {columns:StrategyRow} FROM redrive.dead_letter_strategies WHERE org = :org ORDER BY queue

-- name: lock
SELECT {columns:StrategyRow} FROM redrive.dead_letter_strategies WHERE org = :org ORDER BY queue FOR UPDATE

-- name: put
INSERT INTO redrive.dead_letter_strategies (org, queue, strategy, changed_by, changed_at, reason)
VALUES (:org, :queue, :strategy, :by, :now, :reason)
ON CONFLICT (org, queue) DO UPDATE
SET strategy = excluded.strategy, changed_by = excluded.changed_by, changed_at = :now, reason = excluded.reason

-- name: remove
DELETE FROM redrive.dead_letter_strategies WHERE org = :org AND queue = :queue
