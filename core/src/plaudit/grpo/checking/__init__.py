"""What is checked of a configuration."""
