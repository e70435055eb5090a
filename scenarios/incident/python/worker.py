"""A worker of the incident: takes the first task of a queue file, executes it, and writes the queue back.

    worker.py naive|flock|sharded NAME [NEW-TASK]

With NEW-TASK it also adds that task in the same write. What differs between the three is only which file is used and
what is held from before the read until after the write.
"""

import contextlib
import fcntl
import json
import os
import sys

ACCOUNT = "acme"


def rewrite(path, queue):
    """As in the incident: in place. Whoever reads between the truncation and the last byte sees half a file."""
    with open(path, "w") as file:
        json.dump(queue, file)


def replace(path, queue):
    """All or nothing: a new file under a name of its own, renamed over the old one."""
    fresh = f"{path}.{os.getpid()}.tmp"
    with open(fresh, "w") as file:
        json.dump(queue, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(fresh, path)


@contextlib.contextmanager
def locked(path):
    """The lock file lies beside the data and is never replaced or removed."""
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


STRATEGIES = {
    "naive": ("queue.json", contextlib.nullcontext(), rewrite),
    "flock": ("queue.json", locked("queue.lock"), replace),
    "sharded": (f"queues/queue_{ACCOUNT}.json", locked(f"queues/queue_{ACCOUNT}.lock"), replace),
}


def main(strategy, name, new=None):
    path, held, write = STRATEGIES[strategy]
    with held:
        with open(path) as file:
            queue = json.load(file)
        if queue["tasks"]:
            task = queue["tasks"].pop(0)
            with open("done.log", "a") as done:
                print(json.dumps({"id": task["id"], "worker": name}), file=done)
        if new:
            queue["tasks"].append({"id": new, "account": ACCOUNT, "params": {"to": "bob"}})
        queue["version"] += 1
        write(path, queue)


main(*sys.argv[1:])
