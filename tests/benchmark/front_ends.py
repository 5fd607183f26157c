"""What stands between clients and a server: Onramp, HAProxy, ProxySQL, a distance."""

import subprocess
import sys
from functools import cache
from pathlib import Path

from processes import Program, find, free_port, greets
from servers import PASSWORD, USER, Server


class FrontEnd:
    """One process in front of a server."""

    def __init__(self, name: str, folder: Path, server: Server) -> None:
        """`folder` is its own and is made here."""
        self.name = name
        self.folder = folder
        self.server = server
        self.port = free_port()
        self.program = Program(name, [], folder / "log")
        folder.mkdir(parents=True)

    def start(self) -> None:
        """Starts it and waits until clients are greeted."""
        self.program.start(lambda: greets(self.port))

    def stop(self) -> None:
        """Ends it."""
        self.program.stop()


class Onramp(FrontEnd):
    """`onramp serve` with its default options but for what is compared."""

    def __init__(self, name: str, folder: Path, server: Server, binary: Path, options: list[str]) -> None:
        """`options` are those of `onramp serve`, such as --driver."""
        super().__init__(name, folder, server)
        self.socket = folder / "socket"
        self.program.command = [
            str(binary), "serve", "--listen", f"127.0.0.1:{self.port}", "--listen", str(self.socket), *options]
        self.reach(None)

    def reach(self, port: int | None) -> None:
        """From its next start on: its server by TCP at a port of 127.0.0.1, such as a relay's, or else by the server's socket."""
        where = f"localhost/?socket={self.server.socket}" if port is None else f"127.0.0.1:{port}/"
        self.program.environment = {"ONRAMP_BACKEND": f"mysql://{USER}:{PASSWORD}@{where}"}


class Relay(FrontEnd):
    """A server that is some way off, by relay.py."""

    def __init__(self, name: str, folder: Path, server: Server, milliseconds: float) -> None:
        """So much later comes what the server answers."""
        super().__init__(name, folder, server)
        program = Path(__file__).resolve().parent / "relay.py"
        self.program.command = [sys.executable, "-B", str(program), str(self.port), str(server.port), f"{milliseconds:g}"]


class HaProxy(FrontEnd):
    """HAProxy, which copies bytes between a client and a server connection of its own."""

    def __init__(self, name: str, folder: Path, server: Server, open_files: int) -> None:
        """Two open files for each client."""
        super().__init__(name, folder, server)
        configuration = folder / "haproxy.cfg"
        configuration.write_text(haproxy_configuration(self.port, server.socket, most_clients_of_haproxy(open_files)))
        # -db: stays in the foreground, so that its process is our child.
        self.program.command = [find("haproxy") or "haproxy", "-db", "-f", str(configuration)]


def most_clients_of_haproxy(open_files: int) -> int:
    """As many as the limit of open files lets it have, with 100 for itself."""
    return (open_files - 100) // 2


def haproxy_configuration(port: int, server_socket: Path, clients: int) -> str:
    """TCP in, the server's Unix socket out, as Onramp has it; no time-outs that idle clients could meet."""
    return f"""\
global
    maxconn {clients}
defaults
    mode tcp
    maxconn {clients}
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen mysql
    bind 127.0.0.1:{port} backlog 4096
    server server unix@{server_socket}
"""


class ProxySql(FrontEnd):
    """ProxySQL, which shares server connections between clients, with as many threads as the machine has cores."""

    def __init__(self, name: str, folder: Path, server: Server, open_files: int, cores: int) -> None:
        """The interface for administrators gets a socket only."""
        super().__init__(name, folder, server)
        configuration = folder / "proxysql.cnf"
        configuration.write_text(proxysql_configuration(folder, self.port, server.socket, open_files - 1_000, cores))
        # -f: stays in the foreground.
        self.program.command = [
            find("proxysql") or "proxysql", "-f", "--initial", "-c", str(configuration), "-D", str(folder)]


def proxysql_configuration(folder: Path, port: int, server_socket: Path, clients: int, threads: int) -> str:
    """A server at a Unix socket has port 0. 32 server connections did best on two cores; no monitor, as it would need
    an account."""
    return f"""\
datadir="{folder}"
admin_variables= {{ admin_credentials="admin:admin" mysql_ifaces="{folder / 'admin'}" }}
mysql_variables=
{{
    threads={threads}
    max_connections={clients}
    interfaces="127.0.0.1:{port}"
    default_schema="sbtest"
    monitor_enabled=false
}}
mysql_servers= ( {{ address="{server_socket}" port=0 hostgroup=0 max_connections=32 }} )
mysql_users= ( {{ username="{USER}" password="{PASSWORD}" default_hostgroup=0 max_connections={clients} }} )
"""


@cache
def help_of(*command: str) -> str:
    """What a program prints about its options."""
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False, timeout=10)
    return result.stdout + result.stderr


def has_option(option: str, *command: str) -> bool:
    """Whether a program's help names the option."""
    return f"{option} " in help_of(*command) or f"{option}\n" in help_of(*command)
