"""Serve a model and its rules over HTTP, with a page where rules are written and understood."""
