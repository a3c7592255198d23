"""Comparison of runs of a program: the first task whose value depends on workers or on deaths.

digests, wrapping    in the processes of a run: each run of a task leaves a line
program              starts the program of a run
records              kinds of lines
trees, comparison    runs beside each other
runs                 all runs of a command
"""
