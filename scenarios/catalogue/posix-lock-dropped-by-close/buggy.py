import fcntl, os, sys


def current():
    with open("names") as file:
        return file.read()


owned = os.open("names", os.O_RDWR)
fcntl.lockf(owned, fcntl.LOCK_EX)
names = current()
os.pwrite(owned, f"{names}{sys.argv[1]}\n".encode(), 0)
os.close(owned)
