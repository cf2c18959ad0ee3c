"""A function of the application that decides what an error means, instead of a classifier with rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy.known_errors import CLASS_OF_CATEGORY
from redrive.policy.public_code import CATEGORY_CODES

ErrorFunction = Callable[[Exception], Literal["retry", "fail"] | Category | ErrorClass | str | None]
"""Returns "retry", "fail", a category or an error class; None leaves the decision to the classifier."""

_CLASSES = {
    "retry": ErrorClass.RETRYABLE,
    "fail": ErrorClass.FINAL,
    **{word.value: word for word in ErrorClass},
}


def judged_by(function: ErrorFunction, error: Exception, failure: Failure) -> Failure:
    """Return the failure with the class or category that the function returns for the error.

    A function that raises, or returns another word, must not hide the error: it counts as final, and its rule
    says why.
    """
    try:
        answer = function(error)
    except Exception as mistake:  # noqa: BLE001
        return _final(failure, f"classify raised {type(mistake).__name__}")
    if answer is None:
        return failure
    word = str(answer).lower()
    rule = f"classify: {word}"
    if word in _CLASSES:
        error_class = _CLASSES[word]
        if word == "retry" and failure.retryable:
            error_class = failure.error_class  # a rate limit keeps its own waits
        return failure._replace(error_class=error_class, rule=rule, explicit_class=True)
    try:
        category = Category(word)
    except ValueError:
        return _final(failure, f"classify returned {answer!r:.40}, not retry or fail")
    code = CATEGORY_CODES.code(category, failure.http_status)
    return failure._replace(
        category=category,
        error_class=CLASS_OF_CATEGORY.get(category, ErrorClass.FINAL),
        rule=rule,
        public_code=code,
        public_message=CATEGORY_CODES.message(code, category),
        explicit_class=True,
    )


def _final(failure: Failure, rule: str) -> Failure:
    return failure._replace(error_class=ErrorClass.FINAL, rule=rule, explicit_class=True)
