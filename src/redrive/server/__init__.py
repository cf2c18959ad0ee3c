"""The HTTP API and the admin pages: parse requests, check access, and call the application's services."""
