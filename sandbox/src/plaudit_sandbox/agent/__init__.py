"""The agent: runs programs one at a time, for whoever speaks frames to it.

It needs only the standard library of Python >= 3.10, so that it runs wherever a python3 is: in a slot of this machine,
in a container, in a remote sandbox. `plaudit_sandbox.bundle.agent_source()` gives all of it as one text.
"""
