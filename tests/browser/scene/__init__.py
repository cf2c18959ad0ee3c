"""A realistic installation: days of a shop's work, executed by the real engine on a fast clock.

python -m tests.browser.scene --url sqlite:////tmp/shop.db --scale 1
"""
