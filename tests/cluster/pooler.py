"""PgBouncer in transaction mode, as Debian packages it."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.servers import HOST, _comes_up, _free_port, _home, _postgres_answers, _unprivileged_owner

ESTABLISHED = "01"
PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")


class Pooler:
    def __init__(self, home: Path, server_port: int) -> None:
        self.port = _free_port()
        self._home = home
        self._owner = _unprivileged_owner(home)
        (home / "users").write_text('"postgres" ""\n')
        (home / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={HOST} port={server_port}\n\n[pgbouncer]\n"
            f"listen_addr = {HOST}\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {home}/users\npool_mode = transaction\n"
            f"max_client_conn = 300\ndefault_pool_size = 20\nserver_login_retry = 1\n"
        )

    def start(self) -> None:
        assert PROGRAM is not None
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, self._home / "pgbouncer.ini"],
                cwd=self._home,
                stdout=log,
                stderr=log,
                **self._owner,
            )
        if not _comes_up(self._process, partial(_postgres_answers, self.port)):
            raise RuntimeError(f"PgBouncer does not start:\n{(self._home / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    @property
    def clients(self) -> int:
        """Count the connections that it has accepted and not closed."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(
            place.endswith(f":{self.port:04X}") and state == ESTABLISHED for _, place, _, state, *_ in rows
        )

    @property
    def is_frozen(self) -> bool:
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return stat.rpartition(") ")[2].startswith("T")


@contextlib.contextmanager
def pooler(server_port: int) -> Iterator[Pooler]:
    with _home() as home:
        running = Pooler(home, server_port)
        running.start()
        try:
            yield running
        finally:
            running.kill()
