"""Text to ids and back: byte, character, word and byte-pair tokenizers.

Import from the modules: this file imports nothing, so that reading a configuration is quick.
"""
