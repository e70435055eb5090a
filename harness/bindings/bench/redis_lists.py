"""A queue in Redis: ids in two lists, `queued` and `claimed`, which LMOVE moves one between as one step; bodies in a hash.

The server is started in the benchmark's folder, listens on a Unix socket alone, and is stopped at the end.
"""
import os
import shutil
import socket
import subprocess
import tempfile
import time

from protocol import take_part


def start_server(folder, durability):
    if not shutil.which("redis-server"):
        raise FileNotFoundError("no program redis-server (apt-get install redis-server)")
    # The path of a socket is short.
    sockets = tempfile.mkdtemp(prefix="redis-")
    with open(os.path.join(folder, "socket"), "w") as file:
        file.write(os.path.join(sockets, "s"))
    files = {
        "none": ["--appendonly", "no"],
        # A second's worth may be missing after a power cut, the rest is whole.
        "data": ["--appendonly", "yes", "--appendfsync", "everysec"],
        "full": ["--appendonly", "yes", "--appendfsync", "always"],
    }[durability]
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", os.path.join(sockets, "s"), "--dir", folder, "--save", "", *files],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def stop():
        server.terminate()
        server.wait()
        shutil.rmtree(sockets, ignore_errors=True)

    for _ in range(600):
        try:
            Queue(folder).ask("PING")
            return stop
        except (OSError, RuntimeError):
            if server.poll() is not None:
                break
            time.sleep(0.05)
    stop()
    raise RuntimeError("redis-server does not answer")


class Queue:
    def __init__(self, folder):
        with open(os.path.join(folder, "socket")) as file:
            path = file.read()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb")

    def ask(self, *words, more=()):
        commands = [words, *more]
        text = b""
        for command in commands:
            words = [word.encode() for word in command]
            text += b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.socket.sendall(text)
        return [self.answer() for _ in commands][-1]

    def answer(self):
        line = self.answers.readline().rstrip(b"\r\n")
        if not line:
            raise RuntimeError("the server is gone")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.answers.read(int(rest) + 2)[:-2].decode()
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        return rest.decode()

    def fill(self, tasks):
        for id, body in tasks:
            self.push(id, body)

    def push(self, id, body):
        # Both or neither.
        self.ask("MULTI", more=[("HSET", "body", id, body), ("LPUSH", "queued", id), ("EXEC",)])

    def claim(self, worker):
        return self.ask("LMOVE", "queued", "claimed", "RIGHT", "LEFT")

    def complete(self, id):
        removed = self.ask("MULTI", more=[("LREM", "claimed", "1", id), ("HDEL", "body", id), ("EXEC",)])
        if removed != [1, 1]:
            raise KeyError(id)

    def read(self):
        return self.ask("LRANGE", "queued", "0", "-1") + self.ask("LRANGE", "claimed", "0", "-1")


if __name__ == "__main__":
    take_part(start_server, Queue)
