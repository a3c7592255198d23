"""The dashboard: its checks, its JSON, its streams, its page in a browser, and its processes."""
