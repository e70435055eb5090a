import fcntl, os, sys

me = sys.argv[1]


def add(name):
    with open("queue.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open("queue") as file:
            names = file.read()
        with open(f"queue.{me}", "w") as file:
            file.write(f"{names}{name}\n")
        os.rename(f"queue.{me}", "queue")


add(f"{me}1")
add(f"{me}2")
