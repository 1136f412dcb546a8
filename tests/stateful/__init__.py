"""State machines of many threads: real ones, and those of the schedule explorer."""
