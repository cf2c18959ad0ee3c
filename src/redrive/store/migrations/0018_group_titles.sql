-- A group is named by its newest message. Workers of the version before still write the pattern as its title.
ALTER TABLE redrive.failure_groups ADD COLUMN pattern text;
UPDATE redrive.failure_groups SET pattern = title;
-- A message of one quoted word says nothing without the type of the error: such a title stays.
UPDATE redrive.failure_groups SET title = COALESCE((
    SELECT substr(replace(letter.message, '
', ' '), 1, 400) FROM redrive.dead_letters AS letter
    WHERE letter.id = failure_groups.sample AND letter.org = failure_groups.org
        AND letter.message <> '' AND letter.message NOT LIKE '''%'
), title);
