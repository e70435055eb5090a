import sys

from dotenv import set_key

set_key(".env", sys.argv[1].upper(), "1")
