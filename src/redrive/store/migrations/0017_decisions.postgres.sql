-- Sentences are kept as they are. Only the seconds that a server asked for are a fact that is still needed.
UPDATE redrive.attempts SET decision = json_strip_nulls(json_build_object(
    'code', reason,
    'hint', CAST(substring(explanation FROM '; the server asked for ([0-9.]+(?:e[+-]?[0-9]+)?) s') AS double precision),
    'text', explanation
))::text;

UPDATE redrive.run_events SET detail = json_build_object('code', kind, 'holder', substr(detail, 4))::text
WHERE kind IN ('held', 'released') AND detail LIKE 'by %';
UPDATE redrive.run_events SET detail = (detail::jsonb || '{"code": "letter_rejected"}')::text WHERE kind = 'unburied';
