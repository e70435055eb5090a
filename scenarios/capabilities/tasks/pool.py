"""Adds one to the number in `n` for each of four tasks of a pool of three processes, under a lock or not."""
import fcntl
import multiprocessing
import sys


def add_one(_):
    with open("lock", "a") as lock:
        if sys.argv[1] == "locked":
            fcntl.flock(lock, fcntl.LOCK_EX)
        with open("n") as file:
            number = int(file.read())
        with open("n", "w") as file:
            file.write(f"{number + 1}\n")


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(3) as pool:
        pool.map(add_one, range(4))
