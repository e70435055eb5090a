import fcntl, sys

with open("log.lock", "a") as lock:
    # Waits until the other is done.
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open("log", "a") as log:
        log.write(f"{sys.argv[1]}\n")
