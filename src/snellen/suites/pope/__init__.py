"""POPE's polling questions, made from images and object names of one's own."""
