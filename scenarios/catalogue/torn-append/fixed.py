import os, sys

log = os.open("audit.log", os.O_WRONLY | os.O_APPEND)
os.write(log, f"{sys.argv[1]} pushed task-{sys.argv[1]}\n".encode())
