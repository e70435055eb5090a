#!/bin/sh
# Moves one coin: takes it here, then puts it there.
read a < ann; echo $((a - 1)) > ann.new; mv ann.new ann
read b < bob; echo $((b + 1)) > bob.new; mv bob.new bob
