"""What a tape recorded, read and explained.

    look = cross_attention(model, tokenizer, "ein Haus", "a house")
    pharaoh(look.align()); page.write_text(attention_html(look, "ein Haus"))

Import from the modules: this file imports nothing. Knows: `models`, taps, tokenizers. Does not know: decoding, run
folders, the command line.
"""
