"""What does this exception mean?

The answer comes from the first rule that recognises the error or one of the errors it was made from. Rules
are asked in this order: the application's own, an error that says itself what it is, known types of
libraries, provider codes, HTTP status, SQLSTATE, gRPC code, and last the types of the standard library. No
library is imported to recognise its errors, and no exception, however hostile, makes the classification fail.
"""

from __future__ import annotations

from collections.abc import Iterable

from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.policy import known_errors as known
from redrive.policy import probe
from redrive.policy.bounds import choice, require_kind
from redrive.policy.known_errors import ErrorMeaning
from redrive.policy.public_code import CATEGORY_CODES, PublicCodes
from redrive.policy.recognise import (
    Recognition,
    carries_something,
    recognise,
    retry_after_of,
    status_of,
    type_name,
)
from redrive.policy.rule import Rule

_UNKNOWN = ErrorMeaning(Category.UNKNOWN)


class Classifier:
    """Answers three questions about an error: `classify`, `category`, `is_retriable`.

    rules         the application's own, asked first and in order
    public_codes  the codes that the public is told
    unknown       the class of errors that no rule knows; final unless said otherwise
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        public_codes: PublicCodes = CATEGORY_CODES,
        unknown: ErrorClass = ErrorClass.FINAL,
    ) -> None:
        self._rules = tuple(rules)
        for rule in self._rules:
            require_kind("a rule of a classifier", rule, Rule)
        require_kind("public_codes", public_codes, PublicCodes)
        self._public_codes = public_codes
        self._unknown = choice("unknown", unknown, ErrorClass)

    def __repr__(self) -> str:
        return f"Classifier({len(self._rules)} own rules)"

    def classify(self, error: BaseException, *, now: float | None = None) -> Failure:
        """The failure that an exception stands for. `now` serves to read an HTTP date in Retry-After."""
        try:
            return self._failure(error, self._find(error, {}), now)
        except BaseException:  # noqa: BLE001
            return self._failure(error, Recognition("unreadable", _UNKNOWN, Exception()), now)

    def category(self, error: BaseException) -> Category:
        return self.classify(error).category

    def is_retriable(self, error: BaseException) -> bool:
        return self.classify(error).retryable

    def _find(self, error: BaseException, done: dict[int, Recognition]) -> Recognition:
        """`done` keeps what was found for each error: groups share members and may contain one another."""
        if id(error) not in done:
            done[id(error)] = Recognition("unknown", _UNKNOWN, error)
            done[id(error)] = self._look(error, done)
        return done[id(error)]

    def _look(self, error: BaseException, done: dict[int, Recognition]) -> Recognition:
        if self._rules:
            for link in probe.links(error):
                for rule in self._rules:
                    if rule.applies(link):
                        meaning = ErrorMeaning(rule.category, rule.delivery, rule.error_class)
                        return Recognition(f"application: {rule.name}", meaning, link, rule.public_code)
        for link in probe.links(error):
            found = self._find_in_group(link, done) or recognise(link)
            if found:
                return found
        return Recognition("unknown", _UNKNOWN, error)

    def _find_in_group(self, error: BaseException, done: dict[int, Recognition]) -> Recognition | None:
        """A group is as bad as its worst member: final, rate-limited (the longest), retryable, cancelled."""
        if not probe.members(error):
            return None
        findings = (self._find(each, done) for each in probe.leaves(error))
        return min(findings, key=self._severity, default=None)

    def _severity(self, finding: Recognition) -> tuple[int, float]:
        if finding.meaning.category is Category.CANCELLED:
            return 3, 0.0
        order = (ErrorClass.FINAL, ErrorClass.RATE_LIMITED, ErrorClass.RETRYABLE)
        wait = retry_after_of(finding.error, None) or 0.0
        return order.index(self._class_of(finding.meaning)), -wait

    def _class_of(self, meaning: ErrorMeaning) -> ErrorClass:
        if meaning.error_class is not None:
            return meaning.error_class
        if meaning.category is Category.UNKNOWN:
            return self._unknown
        return known.CLASS_OF_CATEGORY.get(meaning.category, ErrorClass.FINAL)

    def _failure(self, error: BaseException, found: Recognition, now: float | None) -> Failure:
        meaning = found.meaning
        category = meaning.category
        carries = carries_something(found.error)
        stated = _is_stated(error, found.error)
        status = status_of(found.error) if carries else None
        code = found.public_code or self._public_codes.code(category, status)
        return Failure(
            category,
            self._class_of(meaning),
            found.rule,
            type_name(error),
            probe.text(error),
            code,
            self._public_codes.message(code, category),
            retry_after_of(found.error, now) if carries else None,
            status,
            _delivery(meaning, found.error) if stated else Delivery.MAYBE_SEEN,
            found.unavailable and stated,
            meaning.error_class is not None,
        )


def _is_stated(error: BaseException, found: BaseException) -> bool:
    """Is it the error itself, or does the error say that it was made from it? A mere context proves nothing
    about what was done afterwards, and one member of a group proves nothing about the others."""
    return error is found or any(cause is found for cause in probe.causes(error))


def _delivery(meaning: ErrorMeaning, error: BaseException) -> Delivery:
    """A lost connection or a timeout was never seen when it was made from an error that says so."""
    if meaning.delivery is not Delivery.MAYBE_SEEN or meaning.category not in _LOST:
        return meaning.delivery
    for cause in probe.causes(error):
        found = recognise(cause)
        if found and found.meaning.delivery is Delivery.NEVER_SEEN:
            return Delivery.NEVER_SEEN
    return Delivery.MAYBE_SEEN


_LOST = frozenset({Category.NETWORK, Category.TIMEOUT})

DEFAULT_CLASSIFIER = Classifier()


def classify(error: BaseException, *, now: float | None = None) -> Failure:
    """What an exception means, by the built-in rules alone."""
    return DEFAULT_CLASSIFIER.classify(error, now=now)
