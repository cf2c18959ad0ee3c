"""A labeled corpus for redaction: texts with secrets, and clean texts that look like them.

The module makes every secret from parts and a seeded random source: none is real, and no secret scanner
reports the file. Run the module to print recall and false positives: `python -m
tests.policy.redaction_corpus`.

Three sets: the one that the patterns were written with; a held-out one with other seeds, templates and names;
and an unseen one, written when the patterns were done and measured once before any change for it.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from redrive.policy.redact import Redactor
from redrive.policy.redact.marker import MARKER

Make = Callable[[random.Random], str]

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"
PIECE = 6


@dataclass(frozen=True)
class Sample:
    """A text. `secrets` are strings of which no piece may survive in the redacted `content`."""

    kind: str
    content: Any
    secrets: tuple[str, ...]


def _some(alphabet: str, length: int) -> Make:
    return lambda dice: "".join(dice.choices(alphabet, k=length))


def words(text: str) -> list[str]:
    return text.split()


def _lines(text: str) -> list[str]:
    return text.strip("\n").split("\n")


def _with(prefix: str, alphabet: str, length: int, suffix: str = "") -> Make:
    return lambda dice: prefix + "".join(dice.choices(alphabet, k=length)) + suffix


# shapes of secrets


def _jwt(dice: random.Random) -> str:
    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    claims = {
        "sub": str(dice.randrange(10**9)),
        "name": dice.choice(["Ada", "Grace"]),
        "iat": dice.randrange(10**9),
    }
    return ".".join([part({"alg": "HS256", "typ": "JWT"}), part(claims), _some(URLSAFE, 43)(dice)])


def _discord(dice: random.Random) -> str:
    owner = base64.b64encode(str(dice.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return ".".join(["M" + owner[1:], _some(URLSAFE, 6)(dice), _some(URLSAFE, 38)(dice)])


def _pem(label: str) -> Make:
    def make(dice: random.Random) -> str:
        lines = [_some(BASE64, 64)(dice) for _ in range(dice.randrange(3, 9))]
        rule = "-" * 5
        return "\n".join([f"{rule}BEGIN {label}{rule}", *lines, f"{rule}END {label}{rule}"])

    return make


def _card(dice: random.Random) -> str:
    prefix, length = dice.choice(
        [
            ("4", 16),
            ("51", 16),
            ("55", 16),
            ("2223", 16),
            ("34", 15),
            ("37", 15),
            ("6011", 16),
            ("3530", 16),
            ("36", 14),
        ]
    )
    body = prefix + _some(string.digits, length - len(prefix) - 1)(dice)
    return body + str(check_digit(body))


def check_digit(body: str) -> int:
    total = 0
    for place, digit in enumerate(reversed(body)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return -total % 10


def _spaced_card(dice: random.Random) -> str:
    plain, gap = _card(dice), dice.choice(" -")
    if len(plain) == 15:
        return gap.join([plain[:4], plain[4:10], plain[10:]])
    if len(plain) == 14:
        return gap.join([plain[:4], plain[4:10], plain[10:]])
    return gap.join(plain[start : start + 4] for start in range(0, 16, 4))


TOKENS: dict[str, Make] = {
    "aws_access_key_id": _with("AK" + "IA", UPPER, 16),
    "aws_temporary_key_id": _with("AS" + "IA", UPPER, 16),
    "gcp_api_key": _with("AI" + "za", URLSAFE, 35),
    "google_oauth_access": _with("ya" + "29.", URLSAFE, 120),
    "google_oauth_client_secret": _with("GOC" + "SPX-", URLSAFE, 28),
    "google_oauth_refresh": _with("1/" + "/0", URLSAFE, 60),
    "azure_storage_key": _with("", BASE64, 86, "=="),
    "azure_client_secret": lambda dice: _some(ALNUM, 3)(dice) + "8" + "Q~" + _some(ALNUM + "_-~", 34)(dice),
    "github_personal": _with("gh" + "p_", ALNUM, 36),
    "github_oauth": _with("gh" + "o_", ALNUM, 36),
    "github_app": _with("gh" + "s_", ALNUM, 36),
    "github_refresh": _with("gh" + "r_", ALNUM, 76),
    "github_fine_grained": lambda dice: (
        "github" + "_pat_" + _some(ALNUM, 22)(dice) + "_" + _some(ALNUM, 59)(dice)
    ),
    "gitlab_personal": _with("gl" + "pat-", URLSAFE, 20),
    "gitlab_deploy": _with("gl" + "dt-", URLSAFE, 20),
    "slack_bot": lambda dice: (
        "xo" + "xb-" + "-".join([str(dice.randrange(10**11, 10**12))] * 2) + "-" + _some(ALNUM, 24)(dice)
    ),
    "slack_user": lambda dice: (
        "xo"
        + "xp-"
        + "-".join(str(dice.randrange(10**11, 10**12)) for _ in range(3))
        + "-"
        + _some(HEX, 32)(dice)
    ),
    "slack_app": lambda dice: (
        "xa"
        + "pp-1-A"
        + _some(UPPER, 10)(dice)
        + "-"
        + str(dice.randrange(10**12, 10**13))
        + "-"
        + _some(HEX, 64)(dice)
    ),
    "stripe_live": _with("sk" + "_live_", ALNUM, 24),
    "stripe_long": _with("sk" + "_live_51", ALNUM, 97),
    "stripe_restricted": _with("rk" + "_test_", ALNUM, 24),
    "stripe_webhook": _with("wh" + "sec_", ALNUM, 32),
    "openai_legacy": _with("sk" + "-", ALNUM, 48),
    "openai_project": lambda dice: (
        "sk" + "-proj-" + _some(URLSAFE, 74)(dice) + "T3Blbk" + "FJ" + _some(URLSAFE, 74)(dice)
    ),
    "openai_service": _with("sk" + "-svcacct-", URLSAFE, 60),
    "anthropic": _with("sk" + "-ant-api03-", URLSAFE, 93, "AA"),
    "npm": _with("np" + "m_", ALNUM, 36),
    "pypi": _with("py" + "pi-AgEIcHlwaS5vcmc", URLSAFE, 150),
    "sendgrid": lambda dice: "S" + "G." + _some(URLSAFE, 22)(dice) + "." + _some(URLSAFE, 43)(dice),
    "twilio_key": _with("S" + "K", HEX, 32),
    "mailgun": _with("ke" + "y-", HEX, 32),
    "mailgun_new": lambda dice: "-".join(_some(HEX, size)(dice) for size in (32, 8, 8)),
    "digitalocean": _with("do" + "p_v1_", HEX, 64),
    "hugging_face": _with("h" + "f_", ALNUM, 34),
    "shopify": _with("sh" + "pat_", HEX, 32),
    "shopify_shared": _with("sh" + "pss_", HEX, 32),
    "square_access": _with("EA" + "AAE", URLSAFE, 59),
    "square_secret": _with("sq" + "0csp-", URLSAFE, 43),
    "telegram_bot": lambda dice: f"{dice.randrange(10**8, 10**10)}:AA" + _some(URLSAFE, 33)(dice),
    "discord_bot": _discord,
    "heroku": _with("HR" + "KU-AA", URLSAFE, 58),
    "databricks": _with("da" + "pi", HEX, 32),
    "jwt": _jwt,
    "vault": _with("hv" + "s.", URLSAFE, 90),
    "grafana": lambda dice: "gl" + "sa_" + _some(ALNUM, 32)(dice) + "_" + _some(HEX, 8)(dice),
    "docker": _with("dc" + "kr_pat_", URLSAFE, 27),
    "linear": _with("lin" + "_api_", ALNUM, 40),
    "redrive": lambda dice: "rd" + "k_" + _some(HEX, 32)(dice) + "_" + 5 * _some(URLSAFE, 8)(dice),
    "redrive_two_parts": lambda dice: "rd" + "k_" + 4 * _some(HEX, 8)(dice) + "_" + _some(URLSAFE, 43)(dice),
}

PEMS: dict[str, Make] = {
    "pem_rsa": _pem("RSA PRIVATE " + "KEY"),
    "pem_pkcs8": _pem("PRIVATE " + "KEY"),
    "pem_encrypted": _pem("ENCRYPTED PRIVATE " + "KEY"),
    "pem_ec": _pem("EC PRIVATE " + "KEY"),
    "ssh": _pem("OPENSSH PRIVATE " + "KEY"),
    "pgp": _pem("PGP PRIVATE " + "KEY BLOCK"),
}


def password(dice: random.Random) -> str:
    """Make a password like those that people choose, or that password managers make."""
    if dice.random() < 0.4:
        word = dice.choice(
            ["hunter", "dragon", "Sommer", "qwerty", "letmein", "Tr0ub4dor", "zanzibar", "Winter"]
        )
        return word + dice.choice(["2024", "!23", "_99", "#1x", "77", "$$8"]) + _some(ALNUM, 2)(dice)
    return (
        _some(ALNUM, 3)(dice)
        + _some(ALNUM + "!@#$%^*-_+.?=/~", dice.randrange(8, 24))(dice)
        + _some(ALNUM, 2)(dice)
    )


def plain_password(dice: random.Random) -> str:
    return _some(ALNUM + "-_", dice.randrange(8, 24))(dice) + str(dice.randrange(10))


# places of bare tokens, which only their shape reveals

BARE = [
    "{s}",
    "2024-05-01T12:00:00Z ERROR worker[12] upstream refused {s} after 3 attempts",
    "tried {s}, then gave up.",
    "GET https://api.example.com/v1/{q}/items?page=2 403",
    "ValueError: cannot parse '{s}'",
    '  File "/srv/app/client.py", line 41, in call\n    raise Refused({s!r})\nRefused: {s}',
    "first line\n{s}\nlast line",
    "<td>{s}</td>",
    "items=[{s}] total=1",
    "b'note\\n{s}\\n'",
    "curl -s -H 'X-Thing: {s}' https://example.com/hook",
    "({s})",
    "see `{s}` in the deploy notes",
    "id;name;value\n7;alpha;{s}\n",
    "failed%20with%3D{q}%26page",
]

HELD_OUT_BARE = [
    "could not refresh {s}: server said 401",
    'level=warn msg="rejected {s}" attempt=2 worker=w-3',
    "Traceback (most recent call last):\n  ...\nRuntimeError: ('bad input', '{s}')",
    "* deployed with {s} by ci *",
    "POST /hooks/{q} HTTP/1.1\nHost: example.com\n",
    "| 12 | {s} | ok |",
    "x-thing:{s}",
    "\t{s}\r\n",
    "old={s} new=none",
    "note\\t{s}",
]


def _bare(templates: Iterable[str], dice: random.Random) -> Iterator[Sample]:
    for template in templates:
        for kind, make in TOKENS.items():
            yield _filled(kind, template, make(dice))


def _filled(kind: str, template: str, secret: str) -> Sample:
    return Sample(kind, template.format(s=secret, q=quote(secret, safe="")), (secret, quote(secret, safe="")))


def _bare_values(dice: random.Random) -> Iterator[Sample]:
    for kind, make in TOKENS.items():
        first, second, third, fourth = (make(dice) for _ in range(4))
        yield Sample(kind, {"note": first, "items": [{"deep": (1, second)}]}, (first, second))
        yield Sample(kind, json.dumps({"body": json.dumps({"note": third})}), (third,))
        yield Sample(kind, {"log": "answer was " + json.dumps({"n": json.dumps([fourth])})}, (fourth,))
        fifth = make(dice)
        yield Sample(kind, {fifth: "as a key"}, (fifth,))


# secrets that only their name reveals

NAMES = words(
    """password passwd pwd secret token api_key apiKey api-key API_KEY X-Api-Key DB_PASSWORD stripeSecretKey
client_secret clientSecret access_token refresh_token id_token auth_token private_key access_key secret_key
aws_secret_access_key AWS_SESSION_TOKEN session_id sessionId csrf_token XSRF-TOKEN passphrase credentials
connection_string database.password spring.datasource.password PGPASSWORD MYSQL_PWD SECRET_KEY_BASE JWT_SECRET
webhook_secret signing_key encryption_key TWILIO_AUTH_TOKEN DD_API_KEY user_password dbPassword newPassword
password_hash bot_token x-auth-token AccountKey SharedAccessKey"""
)

HELD_OUT_NAMES = words(
    """
    pass_phrase redis_password rootPassword SMTP_PASS admin-password ApiSecret consumer_secret
    oauth_token_secret GITHUB_TOKEN HEROKU_API_KEY masterKey storage_key app.secret X-CSRF-Token
    JSESSIONID PHPSESSID x-amz-security-token proxy_password keystorePassword trust_store_password
    ldap_bind_password hmac_secret accessKeySecret deploy_key license_key personal_access_token
    sessionToken recovery_code SSH_PRIVATE_KEY verification_token authToken userPassword apikey
    """
)

NAMED = [
    '{{"user": "ada", "{n}": "{s}", "retries": 3}}',
    "{{'user': 'ada', '{n}': '{s}', 'retries': 3}}",
    "{n}={s}",
    "PATH=/usr/bin\n{n}={s}\nHOME=/root\n",
    'level=info user=ada {n}="{s}" status=200',
    "level=info user=ada {n}={p} status=200",
    "{n}: {p}",
    "config:\n  user: ada\n  {n}: {p}\n  retries: 3\n",
    "connect(host='db', {n}='{s}', port=5432)",
    "Settings(host='db', {n}='{s}')",
    "user=ada&{n}={q}&page=2",
    "https://example.com/login?user=ada&{n}={q}&page=2",
    "HTTPSConnectionPool(host='x.io', port=443): Max retries exceeded with url: /v1?{n}={q}&a=1 (Caused)",
    'body was {{\\"user\\": \\"ada\\", \\"{n}\\": \\"{p}\\"}} and then failed',
    'body was "{{\\\\\\"{n}\\\\\\": \\\\\\"{p}\\\\\\"}}"',
    "deploy --verbose --{n} {p} --region eu",
    "deploy --{n}={p} --region eu",
    "environ({{'HOME': '/root', '{n}': '{s}'}})",
    "[parameters: {{'id': 7, '{n}': '{s}'}}]",
    "export {n}='{s}'",
    "Server=db;User Id=sa;{n}={p};Encrypt=true",
    "<{n}>{p}</{n}>",
    "[('host', 'db'), ('{n}', '{s}')]",
    "b'HOME=/root\\n{n}={p}\\nLANG=C\\n'",
    'locals: user = "ada", {n} = "{s}", count = 3',
]

HELD_OUT_NAMED = [
    'request failed: {{"meta":{{"{n}":"{s}"}},"ok":false}}',
    "| {n}: {p} |",
    '{n} = "{s}"',
    "set {n}={p}",
    "INFO  config loaded ({n}={p}, pool=5)",
    "    {n}   = '{s}'\n    host  = 'db'",
    "KeyError while reading {{'{n}': '{s}'}}: 'host'",
    "{n} => {p}",
    "Cfg(a=1, b=Inner({n}='{s}'))",
    "docker run -e {n}={p} -e MODE=prod image",
    "/callback?state=1&{n}={q}#top",
    '- name: web\n  env:\n    {n}: "{s}"\n',
    "ERROR [{n}={p}] rejected",
    "argv: ['tool', '--{n}', '{s}']",
    "user[{n}]={p}&commit=1",
]


# Harder: from secret scanners and from incidents. {s} is a machine-made secret.
HARD = _lines(r"""
password is {s}
db_password -> {s}
mysql://root:{s}@tcp(127.0.0.1:3306)/db
root:{s}@tcp(127.0.0.1:3306)/db?parseTime=true
jdbc:oracle:thin:scott/{s}@host:1521:db
http --auth bob:{s} GET x.io
sshpass -p {s} ssh host
mysql -u root -p{s} db
redis-cli -h cache -a {s} ping
docker login -u ada -p {s} registry.example.com
&quot;password&quot;:&quot;{s}&quot;
<Password Type="text">{s}</Password>
<add key="ApiKey" value="{s}"/>
<user name="a" password="{s}"/>
token {s} rejected
invalid token '{s}'
the api key {s} is invalid
Incorrect API key provided: {s}.
password: |⏎  {s}
secret = '''{s}'''
('password', '{s}')
setPassword("{s}")
auth=('bob', '{s}')
auth=BasicAuth('bob', '{s}')
SecretStr('{s}')
Config(secret=Secret(value='{s}'))
{{"credentials": {{"user": "a", "key": "{s}"
token={s}\u0026page=1
token={s}&amp;page=1
#access_token={s}&token_type=bearer
;jsessionid={s}?x=1
Cookie: a=1; b={s}\r\nHost: x
ENV API_TOKEN {s}
AWS4-HMAC-SHA256 Credential=x/20240101/s3, SignedHeaders=host, Signature={s}{s}{s}
SharedAccessSignature sr=x&sig={s}{s}%3D&se=1&skn=k
git clone https://{s}{s}@github.com/a/b
ldap bind dn=cn=admin password {s}
let password: String = "{s}"
SET PASSWORD FOR 'a' = '{s}'
token(value={s})
token <{s}>
*password*: {s}
**API key**: {s}
password | {s}
␛[36mpassword␛[0m=␛[35m{s}␛[0m
%7B%22password%22%3A%22{s}%22%7D
{{'name': 'DB_PASSWORD', 'value': '{s}'}} failed
curl -ubob:{s} http://x.io
login(bob, {s})
INSERT INTO t (user, password) VALUES ('a', '{s}')
u=bob&p={s}
""")

UNSEEN = _lines(r"""
{s} => rejected secret
(using token "{s}")
error: authentication with password '{s}' failed for ada
rabbitmq: amqp://ops:{s}@mq.internal:5672/%2fprod unreachable
kafka sasl.jaas.config=org.apache.kafka.PlainLoginModule required username="ada" password="{s}";
spring.datasource.hikari.password={s}
[redis] requirepass={s} maxmemory=1gb
{{"level":"error","ctx":{{"headers":{{"x-api-key":"{s}"}}}},"msg":"denied"}}
Error: Request failed {{"config":{{"headers":{{"Authorization":"Bearer {s}"}}}}}}
RuntimeError: Client(base_url='https://x.io', api_key='{s}', timeout=30)
httpx.Headers({{'host': 'x.io', 'authorization': 'Bearer {s}'}})
<Request [POST] url=https://x.io/v1?access_token={s}>
subprocess.CalledProcessError: Command 'curl -H "PRIVATE-TOKEN: {s}" x.io' returned 22
aws configure set aws_secret_access_key {s}
export GITHUB_TOKEN={s}; ./deploy.sh
set -x; VAULT_TOKEN={s} vault read kv/app
kubectl create secret generic db --from-literal=password={s}
helm upgrade app . --set auth.rootPassword={s} --wait
terraform apply -var db_password={s} -auto-approve
ansible-playbook site.yml -e "ansible_become_password={s}"
psql "postgresql://ada:{s}@db.internal/app?sslmode=require" -c 'select 1'
mongosh "mongodb+srv://ada:{s}@cluster0.example.mongodb.net/test"
SMTPAuthenticationError: (535, b'5.7.8 bad credentials') login='ada' password='{s}'
Traceback ... locals: {{'self': <Client>, 'client_secret': '{s}', 'n': 3}}
E       assert 'Basic' in headers == {{'X-Auth-Token': '{s}'}}
config.yml:12:   secret_access_key: {s}
[DEBUG] login attempt user=ada&passwd={s}&remember=1
event="auth.failed" session_token={s} ip=10.0.0.1
WebSocket wss://x.io/live?ticket=1&jwt={s} closed
{{"query": "mutation {{ login(user: \"ada\", password: \"{s}\") }}"}}
client.set_password('{s}')
refresh_token: '{s}',
MAIL_PASSWORD = "{s}"  # rotate
"pass":"{s}","user":"ada"
[('authorization', 'Bearer {s}'), ('accept', '*/*')]
OAuth oauth_consumer_key="a", oauth_signature="{s}{s}", oauth_token="{s}"
X-Encryption-Token:{s}
connection_string='Server=db;Uid=sa;Pwd={s};'
passphrase for key '/home/ada/.ssh/id': {s}
unlock code / PIN: {s}
""")

UNSEEN_CLEAN = _lines("""
token refresh scheduled in {number} s
refreshing token (attempt {number} of 5)
password rotation policy: {number} days
secret rotation finished for {word}
no password supplied
password mismatch for {email}
user {email} changed their password on {date}
session {number} of {number} started
session timeout={number}
keys: {number}, values: {number}
api: {word}, key: {number}
api_version={date} key_count={number}
authenticated={word} authz=ok
auth: ok
authorization: denied
credentials: missing
cookie: none
pin {ident} to {number}
otp required
signing in {email}
signature mismatch
certificate fingerprint {sha256}
fingerprint: {md5}
docker.io/{word}/{word}@sha256:{sha256}
{word}@{number}.{number}.0
git clone https://github.com/{word}/{ident}.git
pulled https://user@example.com/{word}.git
mailto:{email}?subject={order}
redis://cache:6379/0
postgresql://db.internal:5432/{word}
amqp://mq.internal:5672/%2f
traceback in {ident}.py:{number}: {ident}()
req_{md5} took {number} ms
cus_{short}{short} paid inv_{short}{short}
pk_{word}_{number}
evt_{number} of type charge.failed
job:{uuid}:attempt:{number}
lock key {ident}:{uuid}
partition key {number}, sort key {date}
GET /oauth/token 404
POST /v1/sessions 201
POST /password/reset 302
/api/keys/{uuid} not found
"X-Request-Id": "{uuid}"
If-None-Match: {etag}
Content-MD5: {md5}
x-amz-request-id: {md5}
traceparent=00-{md5}-{short}{short}00-01
{{"password_strength": "weak", "token_type": "bearer", "expires_in": {number}}}
{{"sessions": [{number}, {number}], "keyboard_layout": "{word}"}}
{{"key": "{word}", "value": "{ident}"}}
{{"name": "{word}", "value": "{uuid}"}}
[["token_count", {number}], ["author", "{word}"]]
IntegrityError: duplicate key value violates unique constraint "users_pkey"
ValueError: token must be a string
TypeError: 'NoneType' object is not subscriptable: password
PermissionError: [Errno 13] Permission denied: '/run/secrets/{word}'
FileNotFoundError: /etc/{word}/api_key.txt
ssl.SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:{number})
jwt.exceptions.ExpiredSignatureError: Signature has expired
botocore.exceptions.NoCredentialsError: Unable to locate credentials
stripe.error.CardError: Your card was declined ({order})
openai.RateLimitError: Limit {number}, Used {number}, Requested {number} tokens
Expected token type COMMA, got EOF at line {number}
tokens: prompt={number} completion={number}
pass: {number}, fail: {number}
secret santa list has {number} entries
the author's key point: {word}
key takeaways: {word}, {word}
bearer of bad news: {word}
pin-{number} on board {order}
""")


def _named(names: list[str], templates: list[str], rounds: int, dice: random.Random) -> Iterator[Sample]:
    for _ in range(rounds):
        for template in templates:
            name, strong, plain = dice.choice(names), password(dice), plain_password(dice)
            text = template.format(n=name, s=strong, p=plain, q=quote(strong, safe=""))
            used = strong if "{s}" in template else quote(strong, safe="") if "{q}" in template else plain
            yield Sample("by_name", text, (used,))


def _hard(templates: list[str], kind: str, rounds: int, dice: random.Random) -> Iterator[Sample]:
    for _ in range(rounds):
        for template in templates:
            secret = _some(ALNUM, 12)(dice) + "x7Q"
            yield Sample(kind, template.format(s=secret).replace("⏎", "\n").replace("␛", "\x1b"), (secret,))


def _named_values(names: list[str], dice: random.Random) -> Iterator[Sample]:
    for name in names:
        one, two, three, four = (password(dice) for _ in range(4))
        yield Sample("by_name", {"user": "ada", name: one}, (one,))
        yield Sample("by_name", {"a": [{"b": {name: {"old": two, "new": [three]}}}]}, (two, three))
        yield Sample("by_name", json.dumps({"inner": json.dumps({name: four, "n": 1})}), (four,))
        number = dice.randrange(10**9, 10**10)
        yield Sample("by_name", {name: number}, (str(number),))
        yield Sample("by_name", {name: one.encode()}, (one,))
        yield Sample("by_name", {"env": [{"name": name, "value": two}]}, (two,))


# headers, URLs, commands and the rest


def _headers(dice: random.Random) -> Iterator[Sample]:
    token, pair = _some(ALNUM + "-._~", 40)(dice) + "7", f"ada:{plain_password(dice)}"
    basic = base64.b64encode(pair.encode()).decode()
    cookie = _some(HEX, 32)(dice)
    yield Sample("bearer", f"Authorization: Bearer {token}", (token,))
    yield Sample("bearer", f"sent header Bearer {token} to x.io", (token,))
    yield Sample("bearer", f"curl -H 'Authorization: Bearer {token}' https://x.io/v1", (token,))
    yield Sample("bearer", f"headers={{'authorization': 'bearer {token}', 'accept': '*/*'}}", (token,))
    yield Sample("bearer", {"headers": {"Authorization": f"Bearer {token}"}}, (token,))
    yield Sample("bearer", {"headers": [["authorization", f"Bearer {token}"], ["accept", "*/*"]]}, (token,))
    yield Sample("bearer", {"headers": [(b"authorization", f"Bearer {token}".encode())]}, (token,))
    yield Sample("basic", f"Authorization: Basic {basic}\r\nHost: x.io", (basic,))
    yield Sample("basic", f"retrying with Basic {basic} now", (basic,))
    yield Sample("basic", {"args": f"-H 'Proxy-Authorization: Basic {basic}'"}, (basic,))
    yield Sample("authorization", f"Authorization: Token {cookie}", (cookie,))
    yield Sample("authorization", f"Authorization: {cookie}", (cookie,))
    yield Sample(
        "authorization",
        f'Authorization: Digest username="ada", realm="x", nonce="1", response="{cookie}"\nHost: x.io',
        (cookie,),
    )
    yield Sample("cookie", f"Cookie: theme=dark; sid={cookie}; lang=en\nHost: x.io", (cookie,))
    yield Sample("cookie", f"Set-Cookie: sid={cookie}; Path=/; HttpOnly", (cookie,))
    yield Sample("cookie", f'curl --cookie "sid={cookie}" https://x.io', (cookie,))
    yield Sample("cookie", {"set-cookie": [f"sid={cookie}; Path=/"]}, (cookie,))


def _urls(dice: random.Random) -> Iterator[Sample]:
    secret, plain = quote(password(dice), safe=""), plain_password(dice)
    odd = plain + "@" + _some(ALNUM, 8)(dice)
    for scheme in ("postgresql", "mysql+pymysql", "redis", "amqp", "https", "mongodb+srv", "ftp"):
        yield Sample(
            "url_password", f"cannot reach {scheme}://ada:{secret}@db.example.com:5432/app?x=1", (secret,)
        )
    yield Sample("url_password", f"redis://:{plain}@cache:6379/0", (plain,))
    yield Sample("url_password", f"(psycopg.OperationalError) bad dsn 'postgres://ada:{odd}@db/app'", (odd,))
    yield Sample("url_password", {"database_url": f"postgres://ada:{secret}@db/app"}, (secret,))
    yield Sample("url_password", json.dumps({"urls": [f"amqp://guest2:{plain}@mq//"]}), (plain,))
    yield Sample("url_password", f"postgres://ada:{plain}/{plain}@db/app", (plain,))
    token = _some(HEX, 40)(dice)
    yield Sample("url_token", f"fatal: unable to access 'https://{token}@git.example.com/a/b.git/'", (token,))


def _queries(dice: random.Random) -> Iterator[Sample]:
    secret, signature = _some(ALNUM, 30)(dice) + "1", quote(_some(BASE64, 43)(dice) + "=", safe="")
    for name in (
        "token",
        "access_token",
        "api_key",
        "apikey",
        "sig",
        "signature",
        "X-Amz-Signature",
        "X-Goog-Signature",
    ):
        yield Sample("query", f"GET https://x.io/file?id=7&{name}={secret}&v=2 failed", (secret,))
        yield Sample("query", f"/file?{name}={secret}", (secret,))
    yield Sample("query", f"https://maps.example.com/json?address=Bonn&key={secret}", (secret,))
    yield Sample("query", f"https://x.io/callback?code={secret}&state=ok", (secret,))
    yield Sample("query", f"next=https%3A%2F%2Fx.io%2F%3Ftoken%3D{secret}%26page%3D2", (secret,))
    sas = f"https://acct.blob.core.windows.net/c/f.txt?sv=2022-11-02&ss=b&se=2030-01-01T00:00:00Z&sp=r&sig={signature}"
    yield Sample("azure_sas", sas, (signature,))
    yield Sample(
        "azure_sas",
        f"BlobEndpoint=https://a.blob.core.windows.net/;SharedAccessSignature=sv=2022&sig={signature}",
        (signature,),
    )


def _clouds(dice: random.Random) -> Iterator[Sample]:
    identity, secret = TOKENS["aws_access_key_id"](dice), _some(BASE64, 39)(dice) + "x"
    key = TOKENS["azure_storage_key"](dice)
    pem = PEMS["pem_pkcs8"](dice)
    account = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": pem,
        "client_email": "a@b",
    }
    body = pem.split("\n")[1]
    yield Sample(
        "aws_secret",
        f"[default]\naws_access_key_id = {identity}\naws_secret_access_key = {secret}\n",
        (identity, secret),
    )
    yield Sample("aws_secret", f"AWS_SECRET_ACCESS_KEY={secret}", (secret,))
    yield Sample("aws_secret", f"keys: {identity}, {secret}", (identity, secret))
    yield Sample("aws_secret", f"Access key ID,Secret access key\n{identity},{secret}", (identity, secret))
    yield Sample(
        "aws_secret", {"aws": {"accessKeyId": identity, "secretAccessKey": secret}}, (identity, secret)
    )
    yield Sample(
        "azure_connection",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={key};EndpointSuffix=core.windows.net",
        (key,),
    )
    yield Sample(
        "azure_connection",
        f"Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={key[:43]}=",
        (key[:43],),
    )
    yield Sample("service_account", account, (body,))
    yield Sample("service_account", json.dumps(account), (body,))
    yield Sample("service_account", "loading " + json.dumps(account) + " failed", (body,))
    yield Sample("service_account", json.dumps({"env": json.dumps(account)}), (body,))
    hook = f"T{_some(UPPER, 8)(dice)}/B{_some(UPPER, 8)(dice)}/{_some(ALNUM, 24)(dice)}"
    yield Sample("slack_webhook", f"POST https://hooks.slack.com/services/{hook} 404", (hook,))
    yield Sample("slack_webhook", {"url": f"https://hooks.slack.com/services/{hook}"}, (hook,))
    number, tail = str(dice.randrange(10**17, 10**18)), _some(URLSAFE, 68)(dice)
    yield Sample("discord_webhook", f"https://discord.com/api/webhooks/{number}/{tail}", (tail,))
    telegram = TOKENS["telegram_bot"](dice)
    yield Sample("telegram_bot", f"404 for https://api.telegram.org/bot{telegram}/sendMessage", (telegram,))
    yield Sample("heroku", {"HEROKU_API_KEY": str(uuid.UUID(int=dice.getrandbits(128)))}, ())
    twilio = _some(HEX, 32)(dice)
    yield Sample("twilio_token", f"TWILIO_AUTH_TOKEN={twilio}", (twilio,))
    yield Sample("twilio_token", {"account_sid": "AC" + "0" * 32, "auth_token": twilio}, (twilio,))


def _pems(dice: random.Random) -> Iterator[Sample]:
    for kind, make in PEMS.items():
        pem = make(dice)
        lines = tuple(pem.split("\n")[1:-1])
        half = "\n".join(pem.split("\n")[:-1])[:-10]
        yield Sample(kind, pem, lines)
        yield Sample(kind, f"could not load key:\n{pem}\nfrom disk", lines)
        yield Sample(kind, {"files": [pem]}, lines)
        yield Sample(kind, json.dumps({"pem": pem}), lines)
        yield Sample(kind, f"parse error in {pem!r}", lines)
        yield Sample(kind, f"ValueError: {half}", lines[:-1])
        yield Sample(kind, "dump: " + json.dumps({"k": json.dumps(pem)}) + " end", lines)


def _cards(dice: random.Random) -> Iterator[Sample]:
    for make in (_card, _spaced_card):
        card = make(dice)
        yield Sample("card", f"charge of 12.50 EUR to {card} was declined", (card,))
        yield Sample("card", {"payment": {"number": card, "exp": "12/29"}}, (card,))
        yield Sample("card", f"pan={card};exp=1229", (card,))
        yield Sample("card", json.dumps({"n": card}), (card,))
        yield Sample("card", f"card {card}, 12/29", (card,))
    card = _card(dice)
    yield Sample("card", {"number": int(card)}, (card,))


def _short_codes(dice: random.Random) -> Iterator[Sample]:
    for name in ("pin", "otp", "cvv", "cvc", "ssn", "one_time_code", "security_code", "totp"):
        code = _some("3456789", 3)(dice) + "0" + _some("3456789", 4)(dice)
        yield Sample("short_code", {name: code}, (code,))
        yield Sample("short_code", {name: int(code)}, (code,))
        yield Sample("short_code", f"checked {name}={code} for user 12", (code,))
        yield Sample("short_code", f'{{"{name}": {code}}} refused', (code,))


def _commands(dice: random.Random) -> Iterator[Sample]:
    plain, other = plain_password(dice), plain_password(dice)
    yield Sample("command", f"curl -u ada:{plain} https://x.io/v1", (plain,))
    yield Sample("command", f"curl --user 'ada:{plain}' -X POST https://x.io", (plain,))
    yield Sample("command", f"mysqldump --user=ada --password={plain} app", (plain,))
    yield Sample("command", {"argv": ["tool", "--password", plain, "--token=" + other]}, (plain, other))
    yield Sample(
        "command",
        f"subprocess.CalledProcessError: Command '['psql', '--password', '{plain}']' returned 1",
        (plain,),
    )
    yield Sample("command", f"ALTER USER ada WITH PASSWORD '{plain}'", (plain,))
    yield Sample("command", f"CREATE USER 'ada'@'%' IDENTIFIED BY '{plain}'", (plain,))
    yield Sample("command", f"docker login -u ada --password {plain} registry.example.com", (plain,))


def _messages(dice: random.Random) -> Iterator[Sample]:
    plain, strong = plain_password(dice), password(dice)
    yield Sample(
        "message",
        f"1 validation error for Login\npassword\n  String should have at most 8 characters "
        f"[type=string_too_long, input_value='{strong}', input_type=str]",
        (strong,),
    )
    yield Sample(
        "message", {"type": "string_too_long", "loc": ("body", "password"), "input": strong}, (strong,)
    )
    yield Sample("message", f"DETAIL:  Key (api_token)=({plain}) already exists.", (plain,))
    yield Sample("message", f"login failed for ada with password: {plain}", (plain,))
    yield Sample("message", f"API key: {plain} is not valid here", (plain,))
    yield Sample("message", f"the client secret = {plain}", (plain,))
    yield Sample(
        "message", f'  File "a.py", line 3, in f\n    login(password="{strong}")\nTypeError: no', (strong,)
    )


_OTHERS = (_headers, _urls, _queries, _clouds, _pems, _cards, _short_codes, _commands, _messages)


def secret_samples(seed: int = 20240501) -> list[Sample]:
    """The set that the patterns were written with."""
    dice = random.Random(seed)
    samples = [
        *_bare(BARE, dice),
        *_bare_values(dice),
        *_hard(HARD, "hard", 3, dice),
        *_named(NAMES, NAMED, 20, dice),
        *_named_values(NAMES, dice),
    ]
    for _ in range(3):
        samples += [sample for group in _OTHERS for sample in group(dice)]
    return samples


def held_out_samples(seed: int = 977) -> list[Sample]:
    """A set with another seed, other templates and other names than `secret_samples`."""
    dice = random.Random(seed)
    samples = [*_bare(HELD_OUT_BARE, dice), *_bare_values(dice)]
    samples += [*_named(HELD_OUT_NAMES, HELD_OUT_NAMED, 20, dice), *_named_values(HELD_OUT_NAMES, dice)]
    samples += [*_named(HELD_OUT_NAMES, NAMED, 10, dice), *_named(NAMES, HELD_OUT_NAMED, 10, dice)]
    for _ in range(3):
        samples += [sample for group in _OTHERS for sample in group(dice)]
    return samples


def unseen_samples(seed: int = 5) -> list[Sample]:
    return list(_hard(UNSEEN, "unseen", 5, random.Random(seed)))


# clean texts that look like secrets


def _unlucky(dice: random.Random) -> str:
    body = dice.choice("345") + _some(string.digits, 14)(dice)
    return body + str((check_digit(body) + dice.randrange(1, 10)) % 10)


FILLERS: dict[str, Make] = {
    "uuid": lambda dice: str(uuid.UUID(int=dice.getrandbits(128), version=4)),
    "sha1": _some(HEX, 40),
    "sha256": _some(HEX, 64),
    "md5": _some(HEX, 32),
    "short": _some(HEX, 7),
    "date": lambda dice: f"20{dice.randrange(10, 30)}-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}",
    "time": lambda dice: (
        f"{dice.randrange(24):02}:{dice.randrange(60):02}:{dice.randrange(60):02}.{dice.randrange(1000):03}Z"
    ),
    "order": lambda dice: f"{dice.choice(['ORD', 'INV', 'PO', 'TKT'])}-{dice.randrange(10**4, 10**9)}",
    "phone": lambda dice: f"+49 {dice.randrange(100, 999)} {dice.randrange(10**6, 10**8)}",
    "usphone": lambda dice: (
        f"({dice.randrange(200, 999)}) {dice.randrange(200, 999)}-{dice.randrange(1000, 9999)}"
    ),
    "number": lambda dice: str(dice.randrange(1, 10**6)),
    "millis": lambda dice: str(dice.randrange(1_600_000_000_000, 1_800_000_000_000)),
    "micros": lambda dice: str(dice.randrange(1_600_000_000_000_000, 1_800_000_000_000_000)),
    "unlucky": _unlucky,
    "image": lambda dice: base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20) + dice.randbytes(300)).decode(),
    "ident": lambda dice: "_".join(
        dice.choices(["customer", "order", "handler", "retry", "worker", "batch", "index"], k=5)
    ),
    "host": lambda dice: f"ip-10-{dice.randrange(255)}-{dice.randrange(255)}.eu-west-1.compute.internal",
    "float": lambda dice: repr(dice.random() * 10),
    "email": lambda dice: f"{dice.choice(['ada', 'grace'])}.{dice.randrange(99)}@example.com",
    "word": lambda dice: dice.choice(["alpha", "north", "billing", "checkout", "Monday", "invoice"]),
    "etag": lambda dice: f'W/"{_some(HEX, 16)(dice)}"',
    "isbn": lambda dice: f"978-3-{dice.randrange(10, 99)}-{dice.randrange(10**5, 10**6)}-{dice.randrange(9)}",
}

CLEAN = _lines("""
{date}T{time} INFO worker[{number}] finished run {uuid} in {number} ms
commit {sha1} by {email}
sha256:{sha256}
checksum {md5} does not match {md5}
HEAD is now at {short} fix the {word} handler
order {order} for {phone} shipped on {date}
call {usphone} about {order}
number {unlucky} is no card
ids {micros}, {millis} and {number}
data:image/png;base64,{image}
{ident} took {float} s
/var/lib/{word}/{uuid}/{ident}.json not found
https://example.com/{word}/{uuid}?page={number}&sort={word}
https://example.com:8080/{word}?email={email}
GET /v1/orders/{order} 200 {number}ms
token count: {number}
token count is {number}, limit {number}
used {number} tokens of {number}
tokens: {number}
tokens_used={number} max_tokens={number}
prompt_tokens: {number}, completion_tokens: {number}
password reset requested by {email} on {date}
Your password reset link was sent to {email}.
password_reset_at={date}T{time}
password_changed_at: {date}
the secretary of {word} wrote on {date}
author: {word} <{email}>
author={email} authority={word} authored={date}
keyboard: {word}, monkey: {word}, turkey={number}
keyword={word} primary_key={number} foreign_key={ident} cache_key={ident}:{number}
idempotency_key={uuid} sort_key={word} partition_key={number} public_key_id={short}
KeyError: '{ident}'
KeyError: 'password'
Missing required field: 'api_key'
TypeError: connect() missing 1 required positional argument: 'password'
SyntaxError: Unexpected token < in JSON at position {number}
json.decoder.JSONDecodeError: Expecting value: line {number} column 1 (char 0)
Invalid token: signature has expired
Invalid token: expired
password: must be at least {number} characters long
password: required
the password is required
password authentication failed for user "{word}"
Access denied for user '{word}'@'{host}' (using password: YES)
secret not found: {ident}
secretName: {word}
secret_name={word}-{number}
Error: cookie consent missing for {host}
cookie_consent=true cookie_policy={word}
session expired after {number} minutes
session_count={number} session_duration={float}
sessions: {number}
authorization failed for {email}
authorization_endpoint=https://example.com/{word}
token_endpoint: https://example.com/oauth/{word}
token_type=bearer expires_in={number}
auth_method={word}
Basic understanding of {word} is needed
Bearer authentication is required
the bearer of {order} may enter
pinned {number} items, shipping to {word}
spinning up {host}
opinion: {word}
signal: {word} (signature {word})
signed by {word} at {date}
assigned={word} design={word}
class TokenBucket(rate={number}, burst={number})
def login(user: str, password: str) -> Session:
def call(self, token: str | None = None, *, api_key: Optional[str] = None)
    return connect(user=user, password=password)
    client = Client(token=self.token, api_key=settings.API_KEY)
    password = getpass.getpass()
    token=get_token()
password=None token=null secret=""
password=*** token=**** api_key=<redacted>
password=${{DB_PASSWORD}} token=$TOKEN
api_key: <your-api-key>
PASSWORD_MIN_LENGTH={number} TOKEN_TTL={number}
has_password=true is_secret=false
1. enter your password 2. press enter
change password? yes/no
traceparent: 00-{md5}-{md5}-01
ETag: {etag}
{host} up {number} days
latitude {float}, longitude {float}
ISBN {isbn} costs {float}
version 1.{number}.{number} released {date}
queue={word} attempt={number} delay={float}
{{"tokens_used": {number}, "max_tokens": {number}}}
{{"author": "{word}", "keyboard": "{word}", "monkey": {number}}}
{{"id": "{uuid}", "hash": "{sha256}", "at": "{date}T{time}"}}
{{'order': '{order}', 'state': 'FAILED', 'attempt': {number}}}
  File "/srv/{word}/{ident}.py", line {number}, in {ident}
Traceback (most recent call last): File "a.py", line {number}
psycopg.errors.UniqueViolation: duplicate key value violates unique constraint "{ident}"
DETAIL:  Key (order_id)=({number}) already exists.
botocore.exceptions.ClientError: An error occurred (InvalidAccessKeyId) when calling the GetObject operation
openai.AuthenticationError: Incorrect API key provided
npm ERR! code E{number}
pip install pypi-simple=={number}
sk-learn style pipeline {ident}
hf_hub_download({word})
SG.{word}
AKIA is the prefix of key ids
eyJ is how a base64 brace begins
-----BEGIN CERTIFICATE----- {image} -----END CERTIFICATE-----
-----BEGIN PUBLIC KEY----- {image} -----END PUBLIC KEY-----
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{sha1} {email}
sha512-{sha256}{short}==
docker run -u 1000:1000 -p 8080:80 {word}
curl -u ada https://example.com/{word}
http://[::1]:{number}/{word}
git@github.com:{word}/{ident}.git
ssh://git@example.com/{word}/{ident}.git
Cannot read property 'token' of undefined
the key: {word}
key={word} value={number}
key: {uuid}
code={number} status=404
?code=404&key={word}
pass={number} fail={number} skip={number}
passed: {number}, failed: {number}
bypass={word} compass: {word} passenger={word}
""")

HELD_OUT_CLEAN = _lines("""
run {uuid} of {word} was moved to the dead letters on {date}
lease expired, token bucket refilled ({number} tokens)
{{"usage": {{"prompt_tokens": {number}, "completion_tokens": {number}, "total_tokens": {number}}}}}
{{"next": null, "previous": "https://example.com/?page={number}", "count": {number}}}
{{"secretary": "{word}", "passenger": "{word}", "tokenizer": "{word}-{number}"}}
file:///home/{word}/{ident}/{date}.log
s3://{word}-bucket/{date}/{uuid}.parquet
arn:aws:sqs:eu-west-1:{number}:{ident}
Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/{number}.0.0.0
model=gpt-4 max_output_tokens={number} temperature={float}
reading keys from {ident}: {number} keys
monkey patching {ident} at {date}
wrong password
forgot your password?
Password must contain a digit.
The token has expired
invalid api key
token expired at {date}T{time}
tokenizer={word} detokenize={number}
secret_version={number} secret_arn=arn:aws:x:{number}
credential type: {word}
authors: {word}, {word}
retry-after: {number}
x-request-id: {uuid}
x-correlation-id={md5}
x-ratelimit-remaining-tokens: {number}
content-length: {number}
content-type: application/json; charset=utf-8
last-modified: Wed, 21 Oct 2015 07:28:00 GMT
access-control-allow-headers: Authorization, X-Api-Key
IBAN check failed
pinning {ident}=={number}
ping {host}: {number} ms
option {word}: {number}
pincushion={word}
sigterm received, draining {number} steps
designer: {word}
sideways={number} inside={word}
{phone} / {usphone}
order {unlucky} on {date} {time}
{micros}{number} nanoseconds
blob {image}
{sha256}  {ident}.tar.gz
diff --git a/{ident}.py b/{ident}.py
index {short}..{short} 100644
Bearer tokens are not logged
Basic plan costs {number}
authentication scheme: Basic
psycopg.OperationalError: connection to server at "{host}" failed: Connection refused
redis.exceptions.ConnectionError: Error 111 connecting to {host}:6379. Connection refused.
asyncio.exceptions.TimeoutError: {ident} took longer than {float} s
requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='x', port=443): Read timed out ({number})
ValueError: invalid literal for int() with base 10: '{word}'
AttributeError: 'NoneType' object has no attribute 'token'
pydantic_core.ValidationError: 1 validation error for Order\\nnumber\\n  Input should be a valid integer
self.password = password
if token is None: raise ValueError("token is required")
    api_key = os.environ["{word}"]
    session = Session(bind=engine)
    with open(secret_path) as file:
raise InvalidToken(token_id={number})
cursor: {number} of {number}
""")


def _clean_values(dice: random.Random) -> Iterator[Any]:
    make = {name: filler(dice) for name, filler in FILLERS.items()}
    yield {"tokens_used": 15, "max_tokens": 4096, "usage": {"tokens": 12, "total_tokens": 3.5}}
    yield {"id": make["uuid"], "commit": make["sha1"], "image": make["image"], "at": make["date"]}
    yield {"author": make["word"], "keyboard": "qwertz", "monkey": 1, "secretary": "Ms Moneypenny"}
    yield {"password_reset_at": make["date"], "password_changed": True, "has_password": False}
    yield {"password": None, "token": "", "secret": False, "cookie": {}, "api_key": []}
    yield {"numbers": [int(make["unlucky"]), int(make["micros"]), 17, -3.5]}
    yield {"idempotency_key": make["uuid"], "primary_key": 7, "cache_key": make["ident"], "key": make["word"]}
    yield {
        "token_type": "bearer",
        "expires_in": 3600,
        "token_count": 9,
        "session_count": 2,
        "public_key": make["md5"],
    }
    yield [["name", make["word"]], ["email", make["email"]]]
    yield json.dumps({"payload": json.dumps({"order": make["order"], "tokens": 9})})
    yield {"env": [{"name": "LOG_LEVEL", "value": "debug"}, {"name": "PORT", "value": "80"}]}
    yield {1: make["uuid"], None: make["float"], False: [make["phone"]], (1, 2): make["isbn"]}


def _clean(templates: list[str], rounds: int, seed: int) -> list[Any]:
    dice = random.Random(seed)
    texts: list[Any] = []
    for _ in range(rounds):
        fills = {name: filler(dice) for name, filler in FILLERS.items()}
        texts += [template.format(**fills) for template in templates]
        texts += _clean_values(dice)
    return texts


def clean_contents(seed: int = 31) -> list[Any]:
    return _clean(CLEAN, 15, seed)


def held_out_clean_contents(seed: int = 4711) -> list[Any]:
    return _clean(HELD_OUT_CLEAN, 15, seed)


def unseen_clean_contents(seed: int = 6) -> list[Any]:
    return _clean(UNSEEN_CLEAN, 5, seed)


# measuring


def survives(secret: str, redacted: Any) -> bool:
    """Tell whether a piece of six or more characters of the secret is still there."""
    rest = MARKER.sub("", redacted if isinstance(redacted, str) else repr(redacted))
    size = min(PIECE, len(secret))
    return any(secret[start : start + size] in rest for start in range(len(secret) - size + 1))


def missed(samples: Iterable[Sample], redactor: Redactor) -> list[tuple[Sample, Any]]:
    results = ((sample, redactor.value(sample.content)) for sample in samples)
    return [
        (sample, out) for sample, out in results if any(survives(secret, out) for secret in sample.secrets)
    ]


def wrongly_redacted(contents: Iterable[Any], redactor: Redactor) -> list[tuple[Any, Any]]:
    results = ((content, redactor.value(content)) for content in contents)
    return [(content, out) for content, out in results if out != content]


SETS: dict[str, tuple[Callable[[], list[Sample]], Callable[[], list[Any]]]] = {
    "written beside": (secret_samples, clean_contents),
    "held out": (held_out_samples, held_out_clean_contents),
    "unseen": (unseen_samples, unseen_clean_contents),
}


def report() -> Iterator[str]:
    redactor = Redactor()
    for name, (samples, cleans) in SETS.items():
        secret, clean = samples(), cleans()
        misses, wrong = missed(secret, redactor), wrongly_redacted(clean, redactor)
        yield (
            f"{name:15} {len(secret):5} secret samples, recall {1 - len(misses) / len(secret):7.2%}"
            f" | {len(clean):5} clean, false positives {len(wrong) / len(clean):6.2%}"
        )
        yield from (f"    missed: {text}" for text in sorted({repr(sample.content) for sample, _ in misses}))
        yield from (f"    wrong:  {text}" for text in sorted({repr(content) for content, _ in wrong}))


if __name__ == "__main__":
    for line in report():
        print(line)
