"""A believable installation: days of a shop's work, made by the real engine on a clock that runs fast.

python -m tests.browser.scene --url sqlite:////tmp/shop.db --scale 1
"""
