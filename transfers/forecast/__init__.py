"""What will be usable, and when: plain Python on numbers that others read from rows."""
