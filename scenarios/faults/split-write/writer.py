import os, sys

fresh = sys.argv[1].encode() * 6000
if sys.argv[2] == "in-place":
    fd = os.open("page", os.O_WRONLY)
    os.pwrite(fd, fresh, 0)
else:
    fd = os.open("page.new", os.O_CREAT | os.O_WRONLY)
    os.write(fd, fresh)
    os.rename("page.new", "page")
os.close(fd)
