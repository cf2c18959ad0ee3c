"""Failed work: triage, groups, replays, automatic redrives, audit."""
