"""Storage: the tables of Redrive on SQLite and PostgreSQL."""
