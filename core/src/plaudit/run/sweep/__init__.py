"""Several configurations of one run side by side: early curves of all, bad ones stopped, good ones cloned."""
