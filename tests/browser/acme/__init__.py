"""A shop: the application behind the tests and pictures of the pages."""
