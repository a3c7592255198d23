"""Folder on the path of programs run as programs of Ray: its module `ray` is zray."""
