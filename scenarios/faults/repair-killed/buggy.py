import contextlib, fcntl, json, sys


@contextlib.contextmanager
def account_queue(account):
    path = f"queues/{account}.json"
    with open(f"queues/.{account}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(path, "r+", encoding="utf-8") as file:
            yield file


def push_task(account, task):
    with account_queue(account) as file:
        data = json.load(file)
        data["tasks"].append(task)
        data["version"] += 1
        file.seek(0)
        json.dump(data, file, ensure_ascii=False)
        file.truncate()


push_task("a", {"id": sys.argv[1], "text": "x" * int(sys.argv[2])})
