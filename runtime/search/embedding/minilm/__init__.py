"""all-MiniLM-L6-v2 in this process: the tokenizer that lies here, and the model file that another package ships."""
