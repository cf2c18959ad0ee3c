"""Blocking versions of the services of an application: the same methods, which wait for their results."""

from __future__ import annotations

from redrive.engine.background_loop import BackgroundLoop, Facade, waiting
from redrive.engine.breakers import Breakers
from redrive.engine.queues import Queues, Workers
from redrive.engine.runs import Runs
from redrive.events.rebuilds import Rebuilds
from redrive.events.replays import EventReplays
from redrive.events.service import Events
from redrive.events.streams import Streams
from redrive.failures.audit import Audit
from redrive.failures.bulk_replays import BulkReplays
from redrive.failures.groups import FailureGroups
from redrive.failures.replays import Replays
from redrive.failures.saved_views import SavedViews
from redrive.failures.service import Failures
from redrive.failures.strategies import LetterStrategies
from redrive.idempotency.decorator import Idempotent
from redrive.identity.accounts import MemberAccounts
from redrive.identity.keys import Keys
from redrive.identity.members import Members
from redrive.identity.organizations import OrganizationDirectory


class SyncRuns(Facade):
    list = waiting(Runs.list)
    count = waiting(Runs.count)
    counts = waiting(Runs.counts)
    view = waiting(Runs.view)
    steps = waiting(Runs.steps)
    attempts = waiting(Runs.attempts)
    events = waiting(Runs.events)
    story = waiting(Runs.story)
    cancel = waiting(Runs.cancel)


class SyncEventReplays(Facade):
    plan = waiting(EventReplays.plan)
    preview = waiting(EventReplays.preview)
    start = waiting(EventReplays.start)


class SyncRebuilds(Facade):
    preview = waiting(Rebuilds.preview)
    start = waiting(Rebuilds.start)
    view = waiting(Rebuilds.view)
    list = waiting(Rebuilds.list)
    pause = waiting(Rebuilds.pause)
    resume = waiting(Rebuilds.resume)
    cancel = waiting(Rebuilds.cancel)


class SyncEvents(Facade):
    def __init__(self, events: Events, loop: BackgroundLoop) -> None:
        super().__init__(events, loop)
        self.replays = SyncEventReplays(events.replays, loop)
        self.rebuilds = SyncRebuilds(events.rebuilds, loop)

    record = waiting(Events.record)
    find = waiting(Events.find)
    count = waiting(Events.count)
    get = waiting(Events.get)
    list = waiting(Events.list)
    projections = waiting(Events.projections)
    event_of_run = waiting(Events.event_of_run)


class SyncStreams(Facade):
    list = waiting(Streams.list)
    view = waiting(Streams.view)
    pause = waiting(Streams.pause)
    resume = waiting(Streams.resume)


class SyncQueues(Facade):
    list = waiting(Queues.list)
    view = waiting(Queues.view)
    pause = waiting(Queues.pause)
    resume = waiting(Queues.resume)


class SyncWorkers(Facade):
    list = waiting(Workers.list)


class SyncBreakers(Facade):
    list = waiting(Breakers.list)
    view = waiting(Breakers.view)
    force = waiting(Breakers.force)
    release = waiting(Breakers.release)


class SyncGroups(Facade):
    list = waiting(FailureGroups.list)
    count = waiting(FailureGroups.count)
    view = waiting(FailureGroups.view)
    occurrences = waiting(FailureGroups.occurrences)
    sparklines = waiting(FailureGroups.sparklines)
    records = waiting(FailureGroups.records)
    spread = waiting(FailureGroups.spread)
    acknowledge = waiting(FailureGroups.acknowledge)
    resolve = waiting(FailureGroups.resolve)
    ignore = waiting(FailureGroups.ignore)
    reopen = waiting(FailureGroups.reopen)


class SyncPlans(Facade):
    create = waiting(BulkReplays.create)
    start = waiting(BulkReplays.start)
    pause = waiting(BulkReplays.pause)
    resume = waiting(BulkReplays.resume)
    cancel = waiting(BulkReplays.cancel)
    list = waiting(BulkReplays.list)
    view = waiting(BulkReplays.view)
    drift = waiting(BulkReplays.drift)
    report = waiting(BulkReplays.report)
    items = waiting(BulkReplays.items)
    failures = waiting(BulkReplays.failures)
    active = waiting(BulkReplays.active)
    reaching = waiting(BulkReplays.reaching)
    progress = waiting(BulkReplays.progress)


class SyncReplays(Facade):
    start = waiting(Replays.start)
    preview = waiting(Replays.preview)
    input = waiting(Replays.input)
    view = waiting(Replays.view)
    list = waiting(Replays.list)


class SyncViews(Facade):
    list = waiting(SavedViews.list)
    create = waiting(SavedViews.create)
    remove = waiting(SavedViews.remove)


class SyncStrategies(Facade):
    list = waiting(LetterStrategies.list)
    view = waiting(LetterStrategies.view)
    change = waiting(LetterStrategies.change)


class SyncAudit(Facade):
    list = waiting(Audit.list)
    about = waiting(Audit.about)
    head = waiting(Audit.head)
    verify = waiting(Audit.verify)


class SyncFailures(Facade):
    def __init__(self, failures: Failures, loop: BackgroundLoop) -> None:
        super().__init__(failures, loop)
        self.groups = SyncGroups(failures.groups, loop)
        self.plans = SyncPlans(failures.plans, loop)
        self.replays = SyncReplays(failures.replays, loop)
        self.replay = self.replays.start
        self.views = SyncViews(failures.views, loop)
        self.strategies = SyncStrategies(failures.strategies, loop)
        self.audit = SyncAudit(failures.audit, loop)

    list = waiting(Failures.list)
    count = waiting(Failures.count)
    lines = waiting(Failures.lines)
    view = waiting(Failures.view)
    notes = waiting(Failures.notes)
    dependencies = waiting(Failures.dependencies)
    related = waiting(Failures.related)
    statistics = waiting(Failures.statistics)
    resolve = waiting(Failures.resolve)
    ignore = waiting(Failures.ignore)
    archive = waiting(Failures.archive)
    reopen = waiting(Failures.reopen)
    resolve_matching = waiting(Failures.resolve_matching)
    ignore_matching = waiting(Failures.ignore_matching)
    archive_matching = waiting(Failures.archive_matching)
    close_matching = waiting(Failures.close_matching)
    assign = waiting(Failures.assign)
    tag = waiting(Failures.tag)
    note = waiting(Failures.note)
    link = waiting(Failures.link)
    unlink = waiting(Failures.unlink)
    reveal = waiting(Failures.reveal)
    verdict = waiting(Failures.verdict)
    overview = waiting(Failures.overview)
    totals = waiting(Failures.totals)
    needs_you = waiting(Failures.needs_you)
    what_if = waiting(Failures.what_if)
    add = waiting(Failures.add)
    replay_run = waiting(Failures.replay_run)
    obstacle_to_replay_run = waiting(Failures.obstacle_to_replay_run)


class SyncAccounts(Facade):
    link = waiting(MemberAccounts.link)
    set_password = waiting(MemberAccounts.set_password)
    disable = waiting(MemberAccounts.disable)
    enable = waiting(MemberAccounts.enable)


class SyncKeys(Facade):
    list = waiting(Keys.list)
    view = waiting(Keys.view)
    create = waiting(Keys.create)
    rotate = waiting(Keys.rotate)
    revoke = waiting(Keys.revoke)


class SyncOrganizations(Facade):
    list = waiting(OrganizationDirectory.list)
    view = waiting(OrganizationDirectory.view)
    create = waiting(OrganizationDirectory.create)


class SyncMembers(Facade):
    """Lacks sessions and credentials: only servers use them, and those have an event loop."""

    def __init__(self, members: Members, loop: BackgroundLoop) -> None:
        super().__init__(members, loop)
        self.accounts = SyncAccounts(members.accounts, loop)
        self.keys = SyncKeys(members.keys, loop)
        self.organizations = SyncOrganizations(members.organizations, loop)

    list = waiting(Members.list)
    view = waiting(Members.view)
    add = waiting(Members.add)
    change = waiting(Members.change)
    remove = waiting(Members.remove)
    leave = waiting(Members.leave)
    rotate_encryption_keys = waiting(Members.rotate_encryption_keys)


class SyncIdempotent(Facade):
    """`run` calls the function in a thread."""

    run = waiting(Idempotent.run)
