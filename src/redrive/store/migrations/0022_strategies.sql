-- Which failures become dead letters, where an operator has changed it at run time. An empty queue means all queues of the
-- organization. Workers of the version before follow their settings.
CREATE TABLE redrive.dead_letter_strategies (
    org text NOT NULL,
    queue text NOT NULL,
    strategy text NOT NULL,
    changed_by text NOT NULL,
    changed_at double precision NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (org, queue)
);
