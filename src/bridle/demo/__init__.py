"""What rules do, on references that come with Bridle: a small experiment, its table and its page."""

from bridle.demo.experiment import SEEN, UNSEEN, WORKS, Change, Rate, Story, Way, tell
from bridle.demo.html import page
from bridle.demo.terminal import show

__all__ = ["SEEN", "UNSEEN", "WORKS", "Change", "Rate", "Story", "Way", "page", "show", "tell"]
