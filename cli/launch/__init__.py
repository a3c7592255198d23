"""A cluster on the hosts of a file, over the system's ssh.

hosts_file   the file, checked, as a Cluster of Hosts; ray_file reads Ray's YAML, marked YAML with lines
plan         the work to do on a host, from the file and from the state found there; no input, no output
agent        the program that ssh runs on each host: it looks, writes files, and runs commands
ssh          command lines of ssh
troubles     failures of hosts, each in one line with a remedy
connection   an ssh process with an agent behind it
runner       the order of the work over all hosts
records      files of this machine: which clusters are up, and a log for each host
"""
