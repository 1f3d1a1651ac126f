"""How an experiment works inside: its definition, cells and seeds, the folder, the engines and the tables."""
