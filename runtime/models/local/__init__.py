"""`model local`: a GGUF file that llama.cpp runs in a worker process of its own."""
