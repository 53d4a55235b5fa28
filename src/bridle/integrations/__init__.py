"""Bridle beside other systems: one small module each, imported when asked for.

`import bridle` imports none of them. Each has an extra of the same name that installs what it needs
(``pip install 'bridle-nlp[spacy]'``); without that package its import raises `MissingExtra`, which says so.
"""
