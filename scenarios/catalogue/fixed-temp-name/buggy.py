import os, sys

fresh = "state.json.tmp"
with open(fresh, "w") as file:
    file.write('{"by":"%s"}' % sys.argv[1])
os.rename(fresh, "state.json")
