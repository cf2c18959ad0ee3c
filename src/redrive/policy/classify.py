"""Classification of exceptions by the application's rules and the built-in ones.

The first rule that recognizes the error, or one of the errors it was raised from, decides. The order is: the
application's rules, errors that state their class, known types of libraries, provider codes, HTTP status,
SQLSTATE, gRPC code, and finally the types of the standard library. Redrive imports no library to recognize
its errors, and no exception, however hostile, makes the classification fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from redrive.model.failure import Category, Delivery, ErrorClass, Failure
from redrive.policy import exception
from redrive.policy import known_errors as known
from redrive.policy.bounds import choice, require_function, require_kind, require_list, require_whole
from redrive.policy.known_errors import ErrorMeaning
from redrive.policy.public_code import CATEGORY_CODES, PublicCodes
from redrive.policy.recognise import (
    Recognition,
    has_details,
    recognise,
    retry_after_of,
    status_of,
    type_name,
)

_UNKNOWN = ErrorMeaning(Category.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the application. Create one with `for_type`, `for_status` or `when`."""

    name: str
    matches: Callable[[BaseException], bool]
    category: Category
    error_class: ErrorClass | None = None
    public_code: str | None = None
    delivery: Delivery = Delivery.MAYBE_SEEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "category", choice("category", self.category, Category))
        if self.error_class is not None:
            object.__setattr__(self, "error_class", choice("error_class", self.error_class, ErrorClass))
        require_function("the predicate of a rule", self.matches)

    @classmethod
    def for_type(
        cls,
        kind: type[BaseException],
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
        """Recognise errors of this type and its subclasses."""
        require_kind("the type of a rule", kind, type)
        return cls(
            kind.__qualname__,
            lambda error: issubclass(type(error), kind),
            category,
            error_class,
            public_code,
        )

    @classmethod
    def for_status(
        cls,
        status: int,
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
        """Recognise errors that carry this HTTP status."""
        require_whole("status", status, 100, 599)
        return cls(
            f"status {status}",
            lambda error: status_of(error) == status,
            category,
            error_class,
            public_code,
            Delivery.SEEN,
        )

    @classmethod
    def when(
        cls,
        name: str,
        predicate: Callable[[BaseException], bool],
        category: Category,
        error_class: ErrorClass | None = None,
        *,
        public_code: str | None = None,
    ) -> Rule:
        """Recognise errors for which the predicate is true. A predicate that raises does not match."""
        return cls(name, predicate, category, error_class, public_code)

    def applies(self, error: BaseException) -> bool:
        try:
            return bool(self.matches(error))
        except BaseException:  # noqa: BLE001
            return False


class Classifier:
    """Answers three questions about an error: `classify`, `category`, `is_retriable`.

    rules         the application's rules, tried first and in order
    public_codes  the codes that callers outside the organization see
    unknown       the class of errors that no rule recognizes
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        public_codes: PublicCodes = CATEGORY_CODES,
        unknown: ErrorClass = ErrorClass.FINAL,
    ) -> None:
        require_list("rules", rules, "rules")
        self._rules = tuple(rules)
        for rule in self._rules:
            require_kind("a rule of a classifier", rule, Rule)
        require_kind("public_codes", public_codes, PublicCodes)
        self._public_codes = public_codes
        self._unknown = choice("unknown", unknown, ErrorClass)

    def __repr__(self) -> str:
        return f"Classifier({len(self._rules)} own rules)"

    def classify(self, error: BaseException, *, now: float | None = None) -> Failure:
        """Return the failure that an exception means. An HTTP date in Retry-After is relative to `now`."""
        try:
            return self._failure(error, self._find(error, {}), now)
        except BaseException:  # noqa: BLE001
            return self._failure(error, Recognition("unreadable", _UNKNOWN, Exception()), now)

    def category(self, error: BaseException) -> Category:
        return self.classify(error).category

    def is_retriable(self, error: BaseException) -> bool:
        return self.classify(error).retryable

    def _find(self, error: BaseException, done: dict[int, Recognition]) -> Recognition:
        """Find the meaning of an error. `done` caches results, since groups may share or contain members."""
        if id(error) not in done:
            done[id(error)] = Recognition("unknown", _UNKNOWN, error)
            done[id(error)] = self._look(error, done)
        return done[id(error)]

    def _look(self, error: BaseException, done: dict[int, Recognition]) -> Recognition:
        if self._rules:
            for link in exception.links(error):
                for rule in self._rules:
                    if rule.applies(link):
                        meaning = ErrorMeaning(rule.category, rule.delivery, rule.error_class)
                        return Recognition(f"application: {rule.name}", meaning, link, rule.public_code)
        for link in exception.links(error):
            found = self._find_in_group(link, done) or recognise(link)
            if found:
                return found
        return Recognition("unknown", _UNKNOWN, error)

    def _find_in_group(self, error: BaseException, done: dict[int, Recognition]) -> Recognition | None:
        """Return the worst member of a group: final, rate-limited (longest wait), retryable, cancelled."""
        if not exception.members(error):
            return None
        findings = (self._find(leaf, done) for leaf in exception.leaves(error))
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
        carries = has_details(found.error)
        stated = _is_stated(error, found.error)
        status = status_of(found.error) if carries else None
        code = found.public_code or self._public_codes.code(category, status)
        return Failure(
            category,
            self._class_of(meaning),
            found.rule,
            type_name(error),
            exception.text(error),
            code,
            self._public_codes.message(code, category),
            retry_after_of(found.error, now) if carries else None,
            status,
            _delivery(meaning, found.error) if stated else Delivery.MAYBE_SEEN,
            found.unavailable and stated,
            meaning.error_class is not None,
        )


def _is_stated(error: BaseException, found: BaseException) -> bool:
    """Return whether the error is the found one, or was explicitly raised from it.

    A context proves nothing about what happened afterwards, and one member of a group nothing about the rest.
    """
    return error is found or any(cause is found for cause in exception.causes(error))


def _delivery(meaning: ErrorMeaning, error: BaseException) -> Delivery:
    """Return the delivery; a lost connection or a timeout was never seen if one of its causes proves it."""
    if meaning.delivery is not Delivery.MAYBE_SEEN or meaning.category not in _LOST:
        return meaning.delivery
    for cause in exception.causes(error):
        found = recognise(cause)
        if found and found.meaning.delivery is Delivery.NEVER_SEEN:
            return Delivery.NEVER_SEEN
    return Delivery.MAYBE_SEEN


_LOST = frozenset({Category.NETWORK, Category.TIMEOUT})

DEFAULT_CLASSIFIER = Classifier()


def classify(error: BaseException, *, now: float | None = None) -> Failure:
    """Classify an exception by the built-in rules alone."""
    return DEFAULT_CLASSIFIER.classify(error, now=now)
