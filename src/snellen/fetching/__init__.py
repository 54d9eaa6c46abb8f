"""From places on a network to files on this machine: fetched once, resumed, and checked before they are read."""
