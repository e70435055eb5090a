import os, sys, time

me, other = sys.argv[1:]
open(f"{me}.wants", "w").close()
# After you: whoever sees that the other wants it too waits until it does not.
while os.path.exists(f"{other}.wants"):
    time.sleep(0.01)
with open("log", "a") as log:
    log.write(f"{me}\n")
os.unlink(f"{me}.wants")
