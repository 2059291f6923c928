"""The parts of the screen: each turns data into lines of a given width."""
