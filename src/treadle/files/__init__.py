"""Write, sync, move, walk and remove files so that a crash never shows half of one."""
