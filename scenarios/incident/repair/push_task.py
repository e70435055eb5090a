"""Adds a task to an account's queue, built like the repair code of the incident's report: right in what it locks,
wrong in what it does under the lock. It opens the file for reading only and then writes to it, and it takes for granted
that the file exists.

    push_task.py ACCOUNT ID
"""

import contextlib
import fcntl
import json
import sys


@contextlib.contextmanager
def account_queue(account):
    with open(f"queues/.{account}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(f"queues/{account}.json", "r", encoding="utf-8") as file:
            yield file


def push_task(account, task):
    with account_queue(account) as file:
        data = json.load(file)
        data["tasks"].append(task)
        data["version"] += 1
        file.seek(0)
        json.dump(data, file, ensure_ascii=False)
        file.truncate()


push_task(sys.argv[1], {"id": sys.argv[2]})
