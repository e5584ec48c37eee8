"""Server supervision by supervisord: restarts, a limit of crashes in a row, and a common end.

supervisord restarts, waits, counts, rotates the logs and ends what it started; it is told what to run by a file and
asked by its own interface how that is going. This module writes the file, asks, and says what changed.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from xml.parsers.expat import ExpatError
from xmlrpc.client import Fault, ServerProxy

import psutil
from supervisor.xmlrpc import SupervisorTransport

from dedp_assets.graph.resources.engine import last_lines
from dedp_assets.graph.resources.environments import child_environment, project_root

__all__ = ["EndRequest", "RestartPolicy", "Server", "Supervision", "end_leftovers", "log_of", "supervise"]

MARK = "DEDP_PLATFORM"
"""Variable by which the processes of a platform are known, whoever started them."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 5
_GROUP, _HOUR = "platform", 3600
_UNANSWERED = (OSError, HTTPException, ExpatError)
_CONFIGURATION = """\
[supervisord]
nodaemon=true
silent=true
logfile={folder}/supervisord.log
logfile_maxbytes=5MB
logfile_backups=1
pidfile={folder}/supervisord.pid
minfds=256
[unix_http_server]
file={socket}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{socket}
[group:{group}]
programs={names}
"""
_PROGRAM = """\
[program:{server.name}]
command={command}
directory={directory}
{user}stopsignal={server.stop}
stopwaitsecs={policy.stop_seconds}
stopasgroup=true
killasgroup=true
autostart={at_once}
autorestart=true
startsecs={policy.settled_seconds}
startretries={policy.retries}
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=2
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A program that supervisord restarts after a crash.

    Attributes:
        name: for people, and for its log.
        command: program and arguments.
        variables: of its environment, beside those of this process.
        without: variables of this process that it does not get.
        user: whom it runs as, if this process is root's.
        stop: the signal that ends it.
        after: name of the server that has to answer first; :meth:`Supervision.start` starts this one then.
    """

    name: str
    command: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    user: str = ""
    stop: str = "TERM"
    after: str = ""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Limits and timeouts of a supervision.

    Attributes:
        settled_seconds: whoever lived that long before dying counts as new again.
        retries: how often in a row a server is started again that does not live that long, after 1, 2, 3 ... s.
        hourly: how often a server may die within an hour, however long it lived each time.
        stop_seconds: how long a server may take to end before it is killed.
    """

    settled_seconds: int = 60
    retries: int = 5
    hourly: int = 20
    stop_seconds: int = 15


class EndRequest:
    """A request for the end, which a signal handler may make at any moment.

    ``threading.Event`` is no help there: its lock is taken once only, and a signal that comes while the waiting thread
    holds the lock would wait for that thread, forever. ``SimpleQueue.put`` is reentrant.
    """

    def __init__(self) -> None:
        self._requests = SimpleQueue[int]()

    def make(self, number: int, *_: object) -> None:
        """Request the end, as the handler of a signal; any number of times."""
        self._requests.put(number)

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for a request; return ``True`` if a request was made."""
        with suppress(Empty):
            self._requests.put(self._requests.get(timeout=seconds))
        return not self._requests.empty()


class Supervision:
    """Servers that are kept running.

    Attributes:
        folder: their logs, and supervisord's.
        asked: made once a signal asks for the end (Ctrl-C, SIGTERM, a closed terminal).
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folder: Path,
        socket: Path,
        asked: EndRequest,
        policy: RestartPolicy,
        died: Callable[[str, Path], None],
    ) -> None:
        self.folder, self.asked = folder, asked
        self._process, self._policy, self._died = process, policy, died
        self._socket = f"unix://{socket}"
        self._deaths: dict[str, list[int]] = {}
        self._restarted = set[str]()

    def poll(self) -> str:
        """Report servers that died since the last poll; return why servers fail for good, empty if running."""
        if self._process.poll() is not None:
            return f"supervisord, which keeps the servers running, ended; its log: {self.folder / 'supervisord.log'}"
        # A transport that was once refused never tries again.
        interface: Any = ServerProxy("http://localhost", SupervisorTransport(None, None, self._socket))
        try:
            found = interface.supervisor.getAllProcessInfo()
        except _UNANSWERED:
            return ""  # it is only starting, or is gone, which the next look sees
        return next(filter(None, [self._poll_one(one["name"], one["statename"], one["stop"]) for one in found]), "")

    def restart(self, name: str) -> None:
        """Restart a server without counting a death."""
        interface: Any = ServerProxy("http://localhost", SupervisorTransport(None, None, self._socket))
        with suppress(*_UNANSWERED, Fault):  # a server that is only starting loads the newest files anyway
            self._restarted.add(name)
            interface.supervisor.stopProcess(f"{_GROUP}:{name}")
            interface.supervisor.startProcess(f"{_GROUP}:{name}", False)  # noqa: FBT003 - does not wait

    def start(self, name: str) -> None:
        """Start a waiting server, unless running."""
        interface: Any = ServerProxy("http://localhost", SupervisorTransport(None, None, self._socket))
        with suppress(Fault):
            interface.supervisor.startProcess(f"{_GROUP}:{name}", False)  # noqa: FBT003 - does not wait

    def _poll_one(self, name: str, state: str, died_at: int) -> str:
        deaths = self._deaths.setdefault(name, [0])
        if state == "FATAL":
            return self._given_up(
                name, f"did not live for {self._policy.settled_seconds} s in {self._policy.retries + 1} starts"
            )
        if died_at != deaths[-1] and name in self._restarted:
            self._restarted.remove(name)
            deaths[-1] = died_at
        if died_at != deaths[-1]:
            deaths[:] = [*(at for at in deaths if died_at - at < _HOUR), died_at]
            if len(deaths) > self._policy.hourly:
                return self._given_up(name, f"died {len(deaths)} times within an hour")
            self._died(name, log_of(self.folder, name))
        return ""

    def _given_up(self, name: str, why: str) -> str:
        log = log_of(self.folder, name)
        text = last_lines(log.read_text(errors="replace"), 5) if log.exists() else ""
        ending = f", which ends with:\n{text}" if text else ""
        return f"{name} {why}, so everything is ended; its log: {log}{ending}"


@contextmanager
def supervise(
    servers: Sequence[Server],
    folder: Path,
    *,
    mark: str,
    died: Callable[[str, Path], None],
    policy: RestartPolicy | None = None,
) -> Iterator[Supervision]:
    """Run servers for a block; at the end, stop all servers and the servers' child processes.

    Args:
        servers: what to run.
        folder: where their logs go.
        mark: by which their processes are known, e.g. to :func:`end_leftovers`.
        died: takes name and log of a server that died and is started again.
        policy: how patient to be.
    """
    chosen = policy or RestartPolicy()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dedp-") as short:  # the path of a socket has at most 100 characters
        socket, configuration = Path(short) / "socket", folder / "supervisord.conf"
        names = ",".join(server.name for server in servers)  # of one group, so that all are told to end at once
        programs = [_program(server, folder, chosen) for server in servers]
        configuration.write_text(
            _CONFIGURATION.format(folder=folder, socket=socket, group=_GROUP, names=names) + "".join(programs)
        )
        asked = EndRequest()
        with _on_signals(asked):
            process = subprocess.Popen(
                [sys.executable, "-m", "dedp_assets.laptop.supervisord", "-c", str(configuration)],
                env=child_environment({MARK: mark}),
                cwd=_folder(),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for whoever keeps them, who ends them in order
            )
            try:
                yield Supervision(process, folder, socket, asked, chosen, died)
            finally:
                _end(process, chosen)
                end_leftovers(mark)


@contextmanager
def _on_signals(asked: EndRequest) -> Iterator[None]:
    """Request the end on a termination signal, any number of times, without another effect."""
    former = {number: signal.signal(number, asked.make) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes], policy: RestartPolicy) -> None:
    """End supervisord with the servers, by force after the time limit."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=policy.stop_seconds + _GRACE_SECONDS)
    process.kill()
    process.wait()


def end_leftovers(mark: str) -> int:
    """End every running process that was started under a mark; return the number of ended processes."""
    found = [process for process in psutil.process_iter() if _marked(process, mark)]
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, living = psutil.wait_procs(found, timeout=_GRACE_SECONDS)
    for process in living:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(living, timeout=_GRACE_SECONDS)
    return len(found)


def _folder() -> Path:
    """Return the working directory of the servers: the folder of the project."""
    return project_root() or Path.cwd()


def log_of(folder: Path, name: str) -> Path:
    """Return the log file of the server ``name`` in ``folder``."""
    return folder / f"{name}.log"


def _program(server: Server, folder: Path, policy: RestartPolicy) -> str:
    removed = [word for name in server.without for word in ("-u", name)]
    changed = [f"{name}={value}" for name, value in server.variables.items()]
    return _PROGRAM.format(
        server=server,
        command=shlex.join(["env", *removed, *changed, *server.command]).replace("%", "%%"),
        directory=_folder(),
        user=f"user={server.user}\n" if server.user else "",
        at_once="false" if server.after else "true",
        policy=policy,
        log=log_of(folder, server.name),
    )


def _marked(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        return False
