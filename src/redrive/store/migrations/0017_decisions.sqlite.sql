-- Sentences are kept as they are. Only the seconds that a server asked for are a fact that is still needed: CAST reads
-- the number at the beginning of what follows them.
UPDATE attempts SET decision = CASE
    WHEN instr(explanation, '; the server asked for ') > 0 THEN json_object(
        'code', reason,
        'hint', CAST(substr(explanation, instr(explanation, '; the server asked for ') + 23) AS REAL),
        'text', explanation)
    ELSE json_object('code', reason, 'text', explanation)
END;

UPDATE run_events SET detail = json_object('code', kind, 'holder', substr(detail, 4))
WHERE kind IN ('held', 'released') AND detail LIKE 'by %';
UPDATE run_events SET detail = json_set(detail, '$.code', 'letter_rejected') WHERE kind = 'unburied';
