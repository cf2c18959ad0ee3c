"""What the bodies of requests and answers look like: the source of the OpenAPI document."""
