import os, sys

log = os.open("audit.log", os.O_WRONLY | os.O_APPEND)
os.write(log, f"worker {sys.argv[1]}: done\n".encode())
