-- name: count_refused
INSERT INTO redrive.dead_letter_figures (org, queue, figure, number) VALUES (:org, :queue, 'refused', :number)
ON CONFLICT (org, queue, figure) DO UPDATE SET number = dead_letter_figures.number + excluded.number

-- name: sum_up_counts
DELETE FROM redrive.dead_letter_counts WHERE number = 0

-- name: sum_up_figures
DELETE FROM redrive.dead_letter_figures WHERE number = 0
