import fcntl, os, sys

with open("names.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    names = open("names").read()
    fresh = f"names.{os.getpid()}"
    with open(fresh, "w") as file:
        file.write(f"{names}{sys.argv[1]}\n")
    os.rename(fresh, "names")
