"""How fast streams are read, compared with a bare loop and with other consumers on the same servers."""
