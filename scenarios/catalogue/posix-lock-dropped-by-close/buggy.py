import fcntl, os


def current():
    with open("count") as file:
        return int(file.read())


owned = os.open("count", os.O_RDWR)
fcntl.lockf(owned, fcntl.LOCK_EX)
count = current()
os.pwrite(owned, str(count + 1).encode(), 0)
os.close(owned)
