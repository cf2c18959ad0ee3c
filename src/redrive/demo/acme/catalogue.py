"""Products, as a supplier tells of them in a feed."""

from __future__ import annotations

from typing import Any

from .outside import Outside

Feed = dict[str, Any]


class Catalogue:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def fetch(self, feed: Feed) -> Feed:
        answer = await self._outside.get("supplier", "/products", feed["feed"])
        return {**feed, "products": answer["products"]}

    def parse(self, feed: Feed) -> Feed:
        prices = [price_of(product) for product in feed["products"]]
        return {"feed": feed["feed"], "cheapest": min(prices), "products": len(prices)}

    def publish(self, feed: Feed) -> str:
        return f"{feed['products']} products from {feed['cheapest']:.2f}"


def price_of(product: dict[str, Any]) -> float:
    return float(product["price"])
