"""A queue in a PostgreSQL table, with FOR UPDATE SKIP LOCKED: workers pass over tasks that another one is just claiming.

The server is started in the benchmark's folder, listens on a Unix socket there alone, and is stopped at the end. It is
asked through psql, one process a worker, so that no driver is needed.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from protocol import other_user, take_part


def program(name):
    found = shutil.which(name)
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        found = found or shutil.which(name, path=folder)
    if not found:
        raise FileNotFoundError(f"no program {name} (apt-get install postgresql)")
    return found


def start_server(folder, durability):
    # The user that the server runs as has to reach its folder, and the path of a socket is short.
    initdb, pg_ctl, as_user = program("initdb"), program("pg_ctl"), other_user()
    program("psql")
    home = tempfile.mkdtemp(prefix=".pg-", dir=reachable(folder, as_user))
    sockets = tempfile.mkdtemp(prefix="pg-")
    if as_user:
        os.chown(home, as_user["user"], as_user["group"])
        os.chown(sockets, as_user["user"], as_user["group"])
    data = os.path.join(home, "data")
    quiet = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "cwd": "/", **as_user}
    with open(os.path.join(folder, "socket"), "w") as file:
        file.write(sockets)

    def stop():
        subprocess.run([pg_ctl, "-D", data, "-m", "immediate", "-w", "stop"], stderr=subprocess.DEVNULL, **quiet)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(sockets, ignore_errors=True)

    try:
        subprocess.run([initdb, "-D", data, "-U", "bench", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
                       check=True, **quiet)
        settings = {
            "listen_addresses": "''",
            "unix_socket_directories": f"'{sockets}'",
            "max_connections": "300",
            # `data`: what was committed last may be missing after a power cut, but nothing is half.
            "synchronous_commit": "on" if durability == "full" else "off",
            "fsync": "off" if durability == "none" else "on",
            "logging_collector": "off",
        }
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        subprocess.run([pg_ctl, "-D", data, "-o", options, "-l", os.path.join(home, "log"), "-w", "-t", "60", "start"],
                       check=True, **quiet)
        queue = Queue(folder)
        queue.ask("CREATE TABLE task (n bigserial PRIMARY KEY, id text UNIQUE, state text, body json);"
                  "CREATE INDEX ON task (n) WHERE state = 'queued';")
    except Exception:
        stop()
        raise
    return stop


def reachable(folder, as_user):
    """The folder, opened for the other user to walk through; its name alone, not what is in it."""
    if as_user:
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
    return folder


class Queue:
    END = "--end--"

    def __init__(self, folder):
        with open(os.path.join(folder, "socket")) as file:
            sockets = file.read()
        self.psql = subprocess.Popen(
            [program("psql"), "-X", "-q", "-A", "-t", "-h", sockets, "-U", "bench", "-d", "postgres"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
        self.ask("SELECT 1;")

    def ask(self, sql):
        self.psql.stdin.write(f"{sql}\n\\echo {self.END}\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            line = line.rstrip("\n")
            if line == self.END:
                break
            lines.append(line)
        else:
            raise RuntimeError("psql ended: " + " ".join(lines))
        if any(line.startswith(("ERROR", "FATAL")) for line in lines):
            raise RuntimeError(" ".join(lines))
        return [line for line in lines if line]

    @staticmethod
    def text(value):
        return "'" + value.replace("'", "''") + "'"

    def fill(self, tasks):
        rows = ", ".join(f"({self.text(id)}, 'queued', {self.text(body)})" for id, body in tasks)
        if rows:
            self.ask(f"INSERT INTO task (id, state, body) VALUES {rows};")

    def push(self, id, body):
        self.ask(f"INSERT INTO task (id, state, body) VALUES ({self.text(id)}, 'queued', {self.text(body)});")

    def claim(self, worker):
        found = self.ask(f"UPDATE task SET state = {self.text(worker)} WHERE n = (SELECT n FROM task WHERE state = 'queued' "
                         "ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id;")
        return found[0] if found else None

    def complete(self, id):
        if self.ask(f"DELETE FROM task WHERE id = {self.text(id)} RETURNING id;") != [id]:
            raise KeyError(id)

    def read(self):
        return self.ask("SELECT id FROM task;")


if __name__ == "__main__":
    try:
        take_part(start_server, Queue)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]}: exit {error.returncode}")
