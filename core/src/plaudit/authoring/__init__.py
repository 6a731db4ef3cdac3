"""Writing a plugin and publishing it: packages from templates, and the checks before a release."""
