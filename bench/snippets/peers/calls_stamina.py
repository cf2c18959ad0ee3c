from itertools import count

import stamina

requests = count(1)


def ask(number: int) -> str:  # stands for your client: every second request succeeds
    if next(requests) % 2:
        raise ConnectionError("reset by the server")
    return f"customer {number}"


@stamina.retry(on=ConnectionError, attempts=3)
def load_customer(number: int) -> str:
    return ask(number)


print(load_customer(7))

for attempt in stamina.retry_context(on=ConnectionError, attempts=3):
    with attempt:
        print(ask(8), "on attempt", attempt.num)
