import fcntl, os, sys

with open("count.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    n = int(open("count").read())
    with open(f"count.{sys.argv[1]}", "w") as file:
        file.write(f"{n + 1}\n")
    os.rename(f"count.{sys.argv[1]}", "count")
