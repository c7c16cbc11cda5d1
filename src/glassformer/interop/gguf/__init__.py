"""The GGUF format of llama.cpp: files, architectures, vocabularies."""
