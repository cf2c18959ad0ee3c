"""Guards of owners, of names of accounts, of what requests name twice, and of calls inside steps."""

from __future__ import annotations

from tests.guards.guard import Guard
from tests.guards.patch import Code

_17 = "tests/requirements/test_17_owners.py::test_17_"
_20 = "tests/requirements/test_20_small_ones.py::test_20_"
_21 = "tests/requirements/test_21_the_letter.py::test_21_"


GUARDS = (
    Guard(
        "owner.same",
        "a user retries the run of another owner",
        (Code("redrive.policy.access:may_retry", "owner == principal.name", "True"),),
        (f"{_17}users_with_the_right_to_retry",),
    ),
    Guard(
        "owner.asked",
        "a user who may only read retries every run",
        (
            Code(
                "redrive.server.api.runs:retry",
                "if not may_retry(visit.principal, await _owner(visit, run_id)):",
                "if False:",
            ),
        ),
        (f"{_17}other_users_need_the_permission_to_operate_p12[sqlite]",),
    ),
    Guard(
        "owner.batch",
        "runs that are started together get the owner of another caller",
        (Code("redrive.store.runs:_are_alike", "len(set(map(_shared, runs))) <= 1", "True"),),
        (
            "tests/store/test_runs.py::test_runs_of_several_owners_in_one_write_keep_their_owners_p8[postgres]",
        ),
    ),
    Guard(
        "names.looked up",
        "an organization learns which names others use, by trying them",
        (
            Code(
                "redrive.server.api.members:add",
                "limits.admit_new_name(visit.principal)",
                "pass",
            ),
        ),
        (f"{_20}an_organization_cannot_ask_for_many_names",),
    ),
    Guard(
        "next.segments",
        "a sign-in leads to another host, for a browser that drops dot segments",
        (
            Code(
                "redrive.server.api.session:is_local_path",
                'segment not in ("", ".", "..")',
                "True",
            ),
        ),
        (f"{_20}only_plain_paths_of_this_server_are_followed",),
    ),
    Guard(
        "body.keys",
        "a proxy and the server read different values of a key that is in a body twice",
        (
            Code(
                "redrive.server.route:_unique",
                "if len(members) != len(pairs):",
                "if False:",
            ),
        ),
        (f"{_20}a_key_twice_is_refused",),
    ),
    Guard(
        "target.host",
        "a request for another host is answered, because its target and its header name different hosts",
        (
            Code(
                "redrive.server.connection:PatientProtocol.on_headers_complete",
                "self._name_host_of_target()",
                "pass",
            ),
        ),
        (f"{_20}the_target_of_a_request_names_the_host",),
    ),
    Guard(
        "argument.password",
        "other users of the machine read the password of the database in the list of processes",
        (
            Code(
                "redrive.cli.options:_secret",
                "setting.sensitive and setting.mask(text) != text",
                "False",
            ),
        ),
        (f"{_20}an_address_with_a_password_is_no_argument",),
    ),
    Guard(
        "queue.access",
        "a caller whom the queue's access function refuses uses it",
        (
            Code(
                "redrive.dead_letter_queue.operations:QueueOperations._require_access",
                "if self._access is None:",
                "if True:",
            ),
        ),
        (f"{_21}the_queue_asks_for_each_operation_m11",),
    ),
    Guard(
        "step.one attempt",
        "an HTTP client retries underneath a step that is retried",
        (
            Code(
                "redrive.calls.http:_Client._guard",
                '{"max_attempts": 1} | given',
                "given",
            ),
        ),
        (f"{_21}inside_a_step_a_request_makes_one_attempt_w4",),
    ),
    Guard(
        "step.key of request",
        "a server takes a request of a step for the repetition of another one",
        (
            Code(
                "redrive.calls.running_step:key_of_request",
                "repr(parts).encode()",
                'b""',
            ),
        ),
        (f"{_21}a_request_names_the_step_and_the_run_w7_g7",),
    ),
)
