import fcntl, os, sys

count = int(open("count").read())
with open("count.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    fresh = f"count.{os.getpid()}"
    with open(fresh, "w") as file:
        file.write(str(count + 1))
    os.rename(fresh, "count")
