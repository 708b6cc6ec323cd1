"""After a crash: bring the store and the run folders together again, and mend what disagrees."""
