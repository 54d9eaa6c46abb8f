"""POPE's polling questions, made from pictures and object names of one's own."""
