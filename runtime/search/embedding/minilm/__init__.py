"""all-MiniLM-L6-v2 in this process: its tokenizer is in this folder, its model file in another package."""
