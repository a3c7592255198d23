"""The driver: the runtime of a program, from joining a session to leaving.

    startup    init() and shutdown()
    driver     the runtime
    green_threads    libraries that replace Python's threads

Layer: the highest, beside `node`.
"""
