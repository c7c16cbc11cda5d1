"""Static HTML pages: one style sheet, one escape, one document frame, one kit of tables and scenes.

Pages open from disk: they hold no script and load nothing. Images and sounds are data addresses.
"""
