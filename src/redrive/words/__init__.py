"""Text for people: durations, numbers, suggestions and sentences, rendered from facts of `redrive.model`.

The command line, the pages, the doctor, the console and the error messages use the same functions, so that
they say the same thing in the same way. Nothing here reads a clock, a file or a database.
"""
