#!/bin/sh
read a < ann; read b < bob; echo $((a + b)) > sum
