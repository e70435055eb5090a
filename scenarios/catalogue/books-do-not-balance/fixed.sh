#!/bin/sh
# Both accounts in one file: a rename moves the coin in one step.
read a b < accounts; echo $((a - 1)) $((b + 1)) > accounts.new; mv accounts.new accounts
