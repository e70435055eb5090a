import fcntl, sys

with open("log.lock", "a") as lock:
    # Fails when the other happens to hold it, and with it the whole job.
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open("log", "a") as log:
        log.write(f"{sys.argv[1]}\n")
