import fcntl, os, time

STALE = 60


def take():
    with open("count.guard", "a") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        try:
            if time.time() - os.stat("count.lock").st_mtime > STALE:
                os.unlink("count.lock")
        except FileNotFoundError:
            pass
        try:
            os.close(os.open("count.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
        except FileExistsError:
            return False


while not take():
    time.sleep(0.1)

count = int(open("count").read())
fresh = f"count.{os.getpid()}"
with open(fresh, "w") as file:
    file.write(str(count + 1))
os.rename(fresh, "count")
os.unlink("count.lock")
