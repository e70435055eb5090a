import os, sys

if sys.argv[1] == "append":
    with open("queue.log", "a") as log:
        log.write("queued t3\n")
else:
    kept = [line for line in open("queue.log") if not line.startswith("done ")]
    with open("queue.log.new", "w") as log:
        log.writelines(kept)
    os.rename("queue.log.new", "queue.log")
