import fcntl, os, sys

me = sys.argv[1]


def add(name, lock):
    if lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    with open("queue") as file:
        names = file.read()
    with open(f"queue.{me}", "w") as file:
        file.write(f"{names}{name}\n")
    os.rename(f"queue.{me}", "queue")


with open("queue.lock", "a") as lock:
    add(f"{me}1", lock)
# A quick one at the end: it was thought to need no lock.
add(f"{me}2", None)
