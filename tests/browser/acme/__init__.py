"""A shop: what the tests and the pictures of the pages have to do with."""
