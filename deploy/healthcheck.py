"""Exits with 0 if the server in this container answers, otherwise with 1."""

import http.client
import os
import sys

PORT = int(os.environ.get("REDRIVE_SERVER_PORT") or 8400)


def alive() -> bool:
    connection = http.client.HTTPConnection("localhost", PORT, timeout=4)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


sys.exit(not alive())
