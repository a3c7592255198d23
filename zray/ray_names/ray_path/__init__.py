"""Folder on the path of programs that run as programs of Ray: the module `ray` in it is zray."""
