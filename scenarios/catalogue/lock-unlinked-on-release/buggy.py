import fcntl, os, sys

lock = os.open("names.lock", os.O_CREAT | os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
file = os.open("names", os.O_RDWR)
names = os.read(file, 1000)
os.pwrite(file, names + f"{sys.argv[1]}\n".encode(), 0)
try:
    os.unlink("names.lock")
except FileNotFoundError:
    pass
