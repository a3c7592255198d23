"""A driver: the runtime of a program, its way into a session and out of it.

    startup    what init() and shutdown() do
    driver     the runtime
    green_threads    libraries that replace Python's threads

Layer: the highest, beside `node`.
"""
