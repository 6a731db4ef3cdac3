"""Where calls run: threads, one event loop, processes that can be killed, a Ray cluster."""
