import fcntl, os, sys

with open("count.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    count = int(open("count").read())
    fresh = f"count.{os.getpid()}"
    with open(fresh, "w") as file:
        file.write(str(count + 1))
    os.rename(fresh, "count")
