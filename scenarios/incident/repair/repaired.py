"""push_task.py with its two faults mended: the new version is written beside the old one and renamed over it, and an
account without a file begins with an empty queue.

    repaired.py ACCOUNT ID
"""

import contextlib
import fcntl
import json
import os
import sys


@contextlib.contextmanager
def account_queue(account):
    path = f"queues/{account}.json"
    with open(f"queues/.{account}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except FileNotFoundError:
            data = {"version": 0, "tasks": []}
        yield data
        fresh = f"{path}.tmp"  # one name is enough: only the owner of the lock writes it
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.rename(fresh, path)


def push_task(account, task):
    with account_queue(account) as data:
        data["tasks"].append(task)
        data["version"] += 1


push_task(sys.argv[1], {"id": sys.argv[2]})
