"""How a name finds a plugin: entry points, references, options, hooks."""
