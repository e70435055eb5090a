"""What people use in place of `queue`, measured by `noclobber bench`, whose line protocol this speaks.

    peers.py python-flock | python-filelock | python-portalocker | sqlite-wal-normal | sqlite-wal-full
"""
import json
import os
import sqlite3
import sys
import time

now = time.monotonic_ns


class Missing(Exception):
    pass


class Flock:
    """The article's way: fcntl.flock around the whole read-modify-write."""

    def __init__(self, path):
        import fcntl
        self.flock, self.ex, self.un = fcntl.flock, fcntl.LOCK_EX, fcntl.LOCK_UN
        self.file = open(path, "a")

    def __enter__(self):
        self.flock(self.file, self.ex)

    def __exit__(self, *_):
        self.flock(self.file, self.un)


def filelock(path):
    try:
        import filelock as package
    except ImportError:
        raise Missing("no Python package filelock (pip install filelock, or --python)")
    return package.FileLock(path)


class Portalocker:
    def __init__(self, path):
        try:
            import portalocker
        except ImportError:
            raise Missing("no Python package portalocker (pip install portalocker, or --python)")
        self.path, self.make = path, portalocker.Lock

    def __enter__(self):
        # Its default way to wait, but not its default time-out of five seconds.
        self.lock = self.make(self.path, mode="a", timeout=600)
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


class JsonQueue:
    """One JSON file, replaced by rename while the lock is held."""

    def __init__(self, lock, hello):
        self.dir, self.sync = hello["dir"], hello["durability"] != "none"
        self.path = os.path.join(self.dir, "queue.json")
        self.lock = lock(os.path.join(self.dir, "queue.lock"))
        self.waited = 0

    def change(self, change):
        start = now()
        with self.lock:
            self.waited = now() - start
            try:
                with open(self.path) as file:
                    queue = json.load(file)
            except FileNotFoundError:
                queue = {"version": 0, "tasks": []}
            result = change(queue["tasks"])
            queue["version"] += 1
            temporary = f"{self.path}.{os.getpid()}.tmp"
            with open(temporary, "w") as file:
                json.dump(queue, file)
                if self.sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.rename(temporary, self.path)
            if self.sync:
                folder = os.open(self.dir, os.O_RDONLY)
                os.fsync(folder)
                os.close(folder)
            return result

    def fill(self, tasks):
        self.change(lambda queue: queue.extend(tasks))

    def push(self, task):
        self.change(lambda queue: queue.append(task))

    def claim(self, worker):
        def change(queue):
            for task in queue:
                if task["state"] == "queued":
                    task["state"], task["worker"] = "claimed", worker
                    return task["id"]
        return self.change(change)

    def complete(self, id):
        def change(queue):
            for place, task in enumerate(queue):
                if task["id"] == id:
                    del queue[place]
                    return
            raise KeyError(id)
        self.change(change)

    def read(self):
        with open(self.path) as file:
            return [task["id"] for task in json.load(file)["tasks"]]


class Sqlite:
    """A table in WAL mode. Waiting is what BEGIN IMMEDIATE takes."""

    def __init__(self, synchronous, hello):
        if sqlite3.sqlite_version_info < (3, 35):
            raise Missing("SQLite 3.35 or later is wanted, for UPDATE ... RETURNING")
        self.db = sqlite3.connect(os.path.join(hello["dir"], "queue.db"), timeout=600, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={synchronous}")
        self.db.execute("CREATE TABLE IF NOT EXISTS task (n INTEGER PRIMARY KEY, id TEXT UNIQUE, state TEXT, body TEXT)")
        self.db.execute("CREATE INDEX IF NOT EXISTS by_state ON task (state, n)")
        self.waited = 0

    def change(self, sql, *arguments):
        start = now()
        self.db.execute("BEGIN IMMEDIATE")
        self.waited = now() - start
        rows = self.db.execute(sql, arguments)
        row = rows.fetchone() if rows.description else rows.rowcount
        self.db.execute("COMMIT")
        return row

    def fill(self, tasks):
        self.db.execute("BEGIN IMMEDIATE")
        for task in tasks:
            self.db.execute("INSERT INTO task (id, state, body) VALUES (?, 'queued', ?)", (task["id"], json.dumps(task)))
        self.db.execute("COMMIT")

    def push(self, task):
        self.change("INSERT INTO task (id, state, body) VALUES (?, 'queued', ?)", task["id"], json.dumps(task))

    def claim(self, worker):
        row = self.change("UPDATE task SET state = ? WHERE n = (SELECT n FROM task WHERE state = 'queued' ORDER BY n "
                          "LIMIT 1) RETURNING id", worker)
        return row and row[0]

    def complete(self, id):
        if self.change("DELETE FROM task WHERE id = ?", id) != 1:
            raise KeyError(id)

    def read(self):
        return [id for (id,) in self.db.execute("SELECT id FROM task")]


KINDS = {
    "python-flock": lambda hello: JsonQueue(Flock, hello),
    "python-filelock": lambda hello: JsonQueue(filelock, hello),
    "python-portalocker": lambda hello: JsonQueue(Portalocker, hello),
    "sqlite-wal-normal": lambda hello: Sqlite("NORMAL", hello),
    "sqlite-wal-full": lambda hello: Sqlite("FULL", hello),
}


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def work(queue, hello):
    worker, think, report = hello["worker"], hello["think_us"] / 1e6, []
    task_of = task_maker(hello)

    def timed(op, act, id):
        queue.waited = 0
        start = now()
        try:
            found = act()
            done = "none" if op == "claim" and found is None else "ok"
        except Exception as error:
            found, done = None, "fail"
            sys.stderr.write(f"{op}: {error!r}\n")
        end = now()
        report.append(f"{op} {done} {start} {queue.waited} {end} {id or found or '-'}")
        return found

    say("ready")
    _, start, until = sys.stdin.readline().split()
    start, until = int(start), int(until)
    time.sleep(max(0, start - now()) / 1e9)
    number = 0
    while now() < until:
        number += 1
        task = task_of(f"{worker}-{number}")
        timed("push", lambda: queue.push(task), task["id"])
        time.sleep(think) if think else None
        if now() >= until:
            break
        id = timed("claim", lambda: queue.claim(worker), None)
        if id is not None:
            timed("complete", lambda: queue.complete(id), id)
        time.sleep(think) if think else None
    report.append("end")
    say("\n".join(report))


def task_maker(hello):
    padding = "x" * max(0, hello["task_bytes"] - 75)
    return lambda id: {"id": id, "account": "a0", "params": padding, "state": "queued", "attempts": 0}


def main():
    hello = json.loads(sys.stdin.readline())
    if hello["role"] == "serve":
        return say("none")
    try:
        queue = KINDS[sys.argv[1]](hello)
    except Missing as error:
        return say(f"missing {error}")
    if hello["role"] == "fill":
        queue.fill([task_maker(hello)(f"k-{number}") for number in range(hello["kept"])])
        say("done")
    elif hello["role"] == "read":
        say("\n".join(queue.read() + ["end"]))
    else:
        work(queue, hello)


if __name__ == "__main__":
    main()
