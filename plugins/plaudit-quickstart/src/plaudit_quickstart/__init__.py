"""Two tiny arithmetic tasks, with a base model that is right about half of the time and learns the rest."""
