import os, sys

log = os.open("audit.log", os.O_WRONLY | os.O_APPEND)
os.write(log, f"{sys.argv[1]} pushed ".encode())
os.write(log, f"task-{sys.argv[1]}\n".encode())
