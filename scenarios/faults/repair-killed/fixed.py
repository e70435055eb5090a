import contextlib, fcntl, json, os, sys


@contextlib.contextmanager
def account_queue(account):
    path = f"queues/{account}.json"
    with open(f"queues/.{account}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        yield data
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)


def push_task(account, task):
    with account_queue(account) as data:
        data["tasks"].append(task)
        data["version"] += 1


push_task("a", {"id": sys.argv[1], "text": "x" * int(sys.argv[2])})
