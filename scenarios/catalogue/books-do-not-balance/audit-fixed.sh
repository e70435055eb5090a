#!/bin/sh
read a b < accounts; echo $((a + b)) > sum
