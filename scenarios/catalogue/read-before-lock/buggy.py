import fcntl, os, sys

names = open("names").read()
with open("names.lock", "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    fresh = f"names.{os.getpid()}"
    with open(fresh, "w") as file:
        file.write(f"{names}{sys.argv[1]}\n")
    os.rename(fresh, "names")
