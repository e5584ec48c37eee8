"""Secrets of others: in whatever form a text has one, it leaves the platform by no way."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from datetime import datetime, timezone
from urllib.parse import quote

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets import cli
from dedp_assets.commands import setup
from dedp_assets.graph.mail.alert_outbox import AlertOutbox
from dedp_assets.graph.outcomes import failures
from dedp_assets.graph.outcomes.failures import cause_of, failure, sentence, unexpected
from dedp_assets.graph.resources.environments import CHECKOUT
from dedp_assets.graph.resources.masking import shown
from dedp_assets.patterns.connectors.web import parts
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.secret import masked
from dedp_assets.patterns.delta import LocalStore
from tests.graph.run.test_observed import Platform

CANARY = "c4n4ry7"
NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
AROUND = st.text(st.sampled_from("aZ3-_.~!@:/?#&=+%;,*()'\"|\\^$[]{}<>"), max_size=4)
SECRETS = st.builds("{}{}{}".format, AROUND, st.just(CANARY), AROUND)


def escaped(text):
    return quote(text, safe="")


NAMES = (
    "token", "api_key", "apikey", "access_token", "X-Amz-Signature", "X-Amz-Credential", "sig", "password", "pwd",
    "client_secret", "auth_token", "AccountKey", "session_token", "jwt_secret", "private_key", "passphrase", "SAS",
    "code", "anything", "PROVIDER_KEY", "passwort",
)  # fmt: skip
TOLD = (
    "mysql -u root -pX -h db", "mysqldump --user=root -pX shop", "sshpass -p X ssh db", "docker login -u ada -p X",
    "redis-cli -h cache -a X ping", "curl --user ada:X https://host", "dump --db-pass=X", "dump --pw X db",
    "mysql -p'my X' shop", "sqlplus ada/X@shop", "scott/X@//db:1521/shop", "machine host login ada password X",
    "the password is X", "your password is 'X', ada", "the token was: X", "auth=('ada', 'X')", 'auth = ("ada", "X")',
    "{'auth': ['ada', 'X']}", "HTTPBasicAuth('ada', 'X')", "token=('ada', 'X')", "password -> X", "password := X",
    "API key: X", "Incorrect API key provided: X.", "fs.s3a.access.key=X", "password: |\n  X\nuser: ada",
    "https://hooks.slack.com/services/T1/B1/X", "https://discord.com/api/webhooks/123/X gave 404",
    "https://api.telegram.org/bot123456:X/sendMessage", "Max retries exceeded with url: /services/T1/B1/X (by x)",
)  # fmt: skip
"""What programs and people write, with X for a secret."""
NAMED = (
    "secret_key_base X", "client_secret X", "fs.s3a.secret.key X", "token X is invalid", "api key X was refused",
    "CREATE ROLE ada PASSWORD X", "https://hooks.slack.com/services/T1/B1/X", "password X",
)  # fmt: skip
"""As above, where only a digit beside letters tells a secret from a word."""
FORMS = {
    "user of a URL": lambda s: f"cannot open https://{escaped(s)}@host.example/path: refused",
    "password of a URL": lambda s: f"connection to postgresql://ada:{escaped(s)}@db:5432/shop failed",
    "password of a URL as it is": lambda s: f"connection to postgresql://ada:{s}@db:5432/shop failed",
    "password alone": lambda s: f"redis://:{escaped(s)}@cache:6379/0 timed out",
    "password in brackets": lambda s: f"(tried: 'amqp://ada:{escaped(s)}@mq:5672/v')",
    "fragment": lambda s: f"GET https://host/cb#access_token={escaped(s)} gave 401",
    "query without a name": lambda s: f"GET https://host/cb?{escaped(s)} gave 401",
    "path of a webhook": lambda _: f"POST https://hooks.example/services/T0001/B0001/{CANARY}XXXXXXXXXXXX4XX. gave 404",
    "path of a client": lambda s: f"Max retries exceeded with url: /v1/rates?token={escaped(s)} (Caused by Timeout())",
    "connection string": lambda s: f"host=db user=ada password='{s.replace(chr(39), '')}' dbname=shop: refused",
    "JDBC": lambda s: f"jdbc:postgresql://db/shop?user=ada&password={escaped(s)}&ssl=true: refused",
    "JDBC of others": lambda s: f"jdbc:sqlserver://db;user=ada;password={escaped(s)};encrypt=true",
    "Kafka": lambda s: (
        f'sasl.jaas.config=org.x.PlainLoginModule required username="a" password="{s.replace(chr(34), "")}";'
    ),
    "header": lambda s: f"sent {{'Authorization': 'Bearer {escaped(s)}', 'Accept': '*/*'}}",
    "header as text": lambda s: f"> Authorization: Basic {b64encode(f'ada:{s}'.encode()).decode()}",
    "other header": lambda s: f"curl -H 'X-Api-Key: {escaped(s)}' failed",
    "JSON": lambda s: f"body {json.dumps({'user': 'ada', 'password': s})} was refused",
    "JSON in JSON": lambda s: json.dumps({"body": json.dumps({"client_secret": s})}),
    "mapping": lambda s: f"options { ({'user': 'ada', 'password': s})!r}",
    "environment": lambda s: f"AWS_SECRET_ACCESS_KEY={escaped(s)} AWS_REGION=eu",
    "option": lambda s: f"dump --password {escaped(s)} --host db ended with 1",
    "user of curl": lambda s: f"curl -u ada:{escaped(s)} https://host ended with 22",
    "SQL": lambda s: f"syntax error at: CREATE ROLE ada PASSWORD '{escaped(s)}'",
    "SQL of others": lambda s: f"ALTER USER ada IDENTIFIED BY '{escaped(s)}' failed",
    "XML": lambda s: f"<user>ada</user><password>{escaped(s)}</password>",
    "cookie": lambda s: f"> Cookie: session={escaped(s)}; path=/\n> Accept: */*",
    "Oracle": lambda s: f"jdbc:oracle:thin:ada/{escaped(s)}@//db:1521/shop: refused",
    "parameter of a path": lambda s: f"GET https://host/cb;jsessionid={escaped(s)}?day=5 gave 401",
    "key of a file": lambda _: f"-----BEGIN RSA PRIVATE KEY-----\nMII{CANARY}\nx==\n-----END RSA PRIVATE KEY-----",
    "token of a service": lambda _: f"ghp_{CANARY}{CANARY}{CANARY} was refused",
    "webhook with an at": lambda _: f"POST https://host/webhook/{CANARY}12-aaaa@1111-2222-3333/x gave 404",
    "YAML": lambda s: f"password: {escaped(s)}\nuser: ada",
    "token of the web": lambda _: f"refused eyJhbGciOiJIUzI1NiJ9.{CANARY}payload.{CANARY}sign",
    **{f"in {text}": (lambda s, t=text: t.replace("X", escaped(s))) for text in TOLD},
    **{f"of letters and a digit in {text}": (lambda _, t=text: t.replace("X", CANARY)) for text in NAMED},
    "password of a URL with a blank": lambda s: f"connection to postgresql://ada:my {escaped(s)}@db:5432/shop failed",
    "password of a web URL with a blank": lambda s: f"GET https://ada:my old {escaped(s)}@host/x gave 401",
    **{f"query {name}": (lambda s, n=name: f"GET https://host/rates?day=5&{n}={escaped(s)}: 401") for name in NAMES},
}


def hides(text):
    """Whether a text has neither the canary nor what Base64 makes of it."""
    return CANARY not in text and b64encode(f"ada:{CANARY}".encode()).decode()[:12] not in text


@pytest.mark.parametrize("form", FORMS)
@given(SECRETS)
def test_a_secret_is_masked_in_whatever_form(form, secret):
    """With any characters around it, alone and within a longer text."""
    for text in (FORMS[form](secret), f"first {FORMS[form](secret)} last", f"a\n{FORMS[form](secret)}\nb"):
        assert hides(masked(text)), masked(text)


KEPT = (
    "gold/sales 2026-01-05: amount is negative in 3 of 40 rows",
    "s3://lake/silver/visits/_delta_log/00000000000000000012.json is damaged",
    "part-00000-5c1b7c9e-1f7f-4b5e-9d0b-7b1c9f0e2a11.c000.snappy.parquet is missing",
    "http://localhost:3000 does not answer: start it, or mail ada@example.com",
    "write postgresql://user:password@host:port/database",
    "the password is wrong; no token was given",
    'dedp approve gold/sales 2026-01-05 --by NAME --because "WHY"',
    "file:///home/ada/lake/x.csv line 5: 'a:b' is no number",
    "the password is required", "token must be TEXT, not 5", "the password is too short", "password is not set",
    "password is 5 characters long", "the token has expired", "token is expired: ask for another one",
    "password authentication failed for user ada", "column token is STRING, not BIGINT", "api key is missing",
    "unexpected token FROM at position 5", "is no SQL after token ','", "bronze/token: rows are late",
    "the secret is read from DEDP_SECRETS", "a secret must be a text of at least 4 characters, not one of 0",
    "author=('a', 'b'), columns=('id', 'name')", "git add -p src; tail -p 5", "mkdir -p lake && mysql -h db shop",
    "kafka://broker:9092 is down: mail ada@example.org", "https://docs.example.org/latest/delta-update.html",
    "the secret is stored beside the settings", "Basic statistics of 3 columns", "password is a secret",
)  # fmt: skip


@pytest.mark.parametrize("text", KEPT)
def test_a_text_without_a_secret_stays(text):
    """Names of files, tables and hosts, commands, and this library's own examples."""
    assert masked(text) == text


def test_prose_stays_readable():
    """Of the lines of the documentation, those few are masked in which a secret's name has a value."""
    lines = [line for page in sorted((CHECKOUT / "docs").rglob("*.md")) for line in page.read_text().splitlines()]
    assert len([line for line in lines if masked(line) != line]) * 500 < len(lines)


@pytest.mark.parametrize("part", ["a", "secret_", "a.b-", "--a", "auth", "x://a:b ", "mysql ", "token is ", "url: /a/"])
def test_a_long_line_is_masked_in_time(part):
    """Ten times the text takes far less than the hundred times of a search from each place to the end."""
    short, long = (min(timed(masked, part * count) for _ in range(3)) for count in (300, 3000))
    assert long < 50 * short


def timed(call, text):
    begun = time.process_time()
    call(text)
    return time.process_time() - begun


def every(secret):
    """A text with a secret in every form."""
    return "\n".join(form(secret) for form in FORMS.values())


class Broken:
    """A channel that quotes what it was told."""

    name, address = "broken", "nowhere"

    def __init__(self, error):
        self.error = error

    def send(self, _):
        raise self.error


def of_channel(tmp_path, error):
    outbox = AlertOutbox(LocalStore(str(tmp_path)))
    outbox.raise_alert(Trouble(kind="a", table="b/c", reason=str(error), figure=str(error)), NOW)
    report = outbox.deliver([Broken(error)], NOW)
    return [str(report), *(file.read_text() for file in tmp_path.rglob("*.json"))]


def of_failure(_, error):
    broken = unexpected("b/c", "2026-01-05", error)
    refused = failure({"x": error}, {"x": sentence("b/c", "x", error)})
    return [str(broken.description), str(broken.metadata), str(refused.description), str(cause_of(error))]


def of_parts(_, error):
    texts = [parts.error_text(error), parts.sentence(str(error))]
    with pytest.raises((ContractError, NotReady)) as raised, parts.calling("a part"):
        raise type("Foreign", (Exception,), {})(str(error))
    return [*texts, str(raised.value)]


WAYS = {"alerts and channels": of_channel, "failures of runs": of_failure, "errors of external parts": of_parts}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [NotReady, ContractError, RuntimeError, OSError])
def test_no_way_out_tells_a_secret(way, kind, tmp_path):
    """Of an error of the library, of a bug, and of the system."""
    for text in WAYS[way](tmp_path, kind(every(f"p{CANARY}@/x"))):
        assert hides(text), text


@pytest.mark.parametrize("error", [ConfigError, NotReady, OSError, KeyError])
def test_a_command_tells_no_secret(error, monkeypatch, capsys):
    """On either stream, also of a bug with the stack."""

    def breaks(*_):
        raise error(every(CANARY))

    monkeypatch.setattr(setup, "run", breaks)
    assert cli.main(["setup"]) > 0
    assert hides("".join(capsys.readouterr()))


def test_known_secrets_of_the_settings_are_masked_without_a_form(monkeypatch):
    """Also with characters by which a URL would be taken apart."""
    monkeypatch.setenv("DEDP_POSTGRES", f"postgresql://ada:p@s/{CANARY}?x@db.example/shop")
    assert hides(shown(f"tried p@s/{CANARY}?x, and p%40s%2F{CANARY}%3Fx"))


@pytest.mark.parametrize("error", [RuntimeError, ContractError, NotReady, OSError])
def test_a_run_stores_and_prints_no_secret(error, tmp_path, capfd, monkeypatch):
    """Events of Dagster with their stacks, what it prints, and the event of lineage; also of a cause."""
    monkeypatch.setattr(failures, "_STEP", Backoff(attempts=3, first_seconds=0))

    def breaks(*_):
        text = every(f"p{CANARY}@/x")
        raise error(f"no answer: {text}") from ValueError(text)

    platform = Platform(tmp_path)
    platform.do = breaks
    with dg.DagsterInstance.ephemeral() as instance:
        assert not platform.run(instance=instance).success
        (run,) = instance.get_runs()
        logs = "\n".join(str(each) for each in instance.all_logs(run.run_id))
    assert "no answer" in logs
    assert hides(logs)
    assert hides("".join(capfd.readouterr()))
    assert hides(json.dumps(platform.events()))
