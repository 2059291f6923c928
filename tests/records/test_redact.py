from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.journal.layout import RunFolder, read_json
from epochal.records.redact import REDACTED, Redactor
from tests.conftest import StartRun
from tests.doubles.archives import write_archive
from tests.doubles.journals import of_kind
from tests.store.journals import Journal

SECRET = "hunter22x"


def everything_in(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.parametrize(
    "name",
    "password db_password dbPassword DB-PASSWORD userpassword passwd client_secret clientSecret"
    " credentials aws.credentials authorization api_key apiKey APIKey OPENAI_API_KEY apikey"
    " api_key_file hf_token accessToken token key ssh-key private.key wandb_key token2"
    " pw db_pw dbPw auth basic-auth cookie session.cookie cookies dsn SENTRY_DSN bearer".split(),
)
def test_these_names_are_secret(name: str) -> None:
    assert Redactor().config({name: SECRET}) == {name: REDACTED}


@pytest.mark.parametrize(
    "name",
    "max_tokens tokenizer tokenizer_name eos_token bos_token pad_token unk_token sep_token"
    " mask_token cls_token key_dim num_key_value_heads monkey keys token_type keyboard_layout"
    " secretary lr passes author authors author_name authorship pw_layers pwlayers power"
    " cookie_name cookiecutter dsn_pool_size dsnet bearer_type auth_mode use_authors".split(),
)
def test_these_names_stay_readable(name: str) -> None:
    assert Redactor().config({name: "<|endoftext|>"}) == {name: "<|endoftext|>"}


@pytest.mark.parametrize("value", [12345678, 0.12345678, True, False, None, "short", [1, 2, 3]])
def test_numbers_booleans_and_short_texts_stay_readable(value: Any) -> None:
    config = {"pad_token_id": value, "api_key": value, "password": value}
    assert Redactor().config(config) == config


def test_nested_values_are_redacted_and_those_below_a_secret_name() -> None:
    config = {
        "db": {"user": "somebody", "password": SECRET},
        "secrets": {"openai": SECRET, "port": 80},
        "passwords": [SECRET, "short"],
        "servers": [{"token": SECRET}],
        "cookies": {"session": SECRET},
        "auth": ["me", SECRET],
        "key": ["a list of keys"],
    }
    assert Redactor().config(config) == {
        "db": {"user": "somebody", "password": REDACTED},
        "secrets": {"openai": REDACTED, "port": 80},
        "passwords": [REDACTED, "short"],
        "servers": [{"token": REDACTED}],
        "cookies": {"session": REDACTED},
        "auth": ["me", REDACTED],
        "key": ["a list of keys"],
    }


@pytest.mark.parametrize(
    ("words", "redacted"),
    [
        (["--password", SECRET], ["--password", REDACTED]),
        ([f"--password={SECRET}"], [f"--password={REDACTED}"]),
        ([f"PASSWORD={SECRET}", "python"], [f"PASSWORD={REDACTED}", "python"]),
        ([f"+db.password={SECRET}"], [f"+db.password={REDACTED}"]),
        (["--password", "12345678"], ["--password", REDACTED]),
        (["-c", f"PASSWORD={SECRET} python x"], ["-c", f"PASSWORD={REDACTED} python x"]),
        ([f'--args={{"token": "{SECRET}"}}'], [f'--args={{"token": "{REDACTED}"}}']),
        ([f"https://h/x?token={SECRET}&a=1"], [f"https://h/x?token={REDACTED}&a=1"]),
        ([f"pg://me:{SECRET}@host/db"], [f"pg://me:{REDACTED}@host/db"]),
        (["--use_auth_token", "--output_folder"], ["--use_auth_token", "--output_folder"]),
        (["--max_tokens", "12345678"], ["--max_tokens", "12345678"]),
        (["--tokenizer", "gpt2-medium"], ["--tokenizer", "gpt2-medium"]),
        (["-c", "sorted(a, key=operator.neg(1))"], ["-c", "sorted(a, key=operator.neg(1))"]),
        (["-H", f"Authorization: Bearer {SECRET}"], ["-H", f"Authorization: {REDACTED}"]),
        ([f"-HAuthorization:Basic {SECRET}"], [f"-HAuthorization:Basic {REDACTED}"]),
        ([f"--header=Cookie: a={SECRET}; b"], [f"--header=Cookie: {REDACTED}"]),
        (["-c", f"curl -H 'X-Api-Key: {SECRET}' u"], ["-c", f"curl -H 'X-Api-Key: {REDACTED}' u"]),
        (["--auth", f"Bearer {SECRET}"], ["--auth", REDACTED]),
        (["--scheme", f"bearer {SECRET}"], ["--scheme", f"bearer {REDACTED}"]),
        (["--note", "a bearer certificate"], ["--note", "a bearer certificate"]),
        (["-c", "def f(token: Sequence): pass"], ["-c", "def f(token: Sequence): pass"]),
        (["--author", "Somebody Else"], ["--author", "Somebody Else"]),
    ],
)
def test_a_command_line_is_redacted(words: list[str], redacted: list[str]) -> None:
    assert Redactor().command(words) == redacted


def test_passwords_and_tokens_inside_urls_are_redacted_and_plain_users_are_not() -> None:
    redact = Redactor().text
    assert redact(f"https://me:{SECRET}@host/x") == f"https://me:{REDACTED}@host/x"
    token = "ghp_0123456789abcdefghij"
    assert redact(f"https://{token}@github.com/a/b") == f"https://{REDACTED}@github.com/a/b"
    assert redact("ssh://git@github.com/a/b") == "ssh://git@github.com/a/b"


@pytest.mark.parametrize(
    "token",
    [
        "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
        "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL",
        "sk-proj-a-B_c9XyZabcdefghijklmnop-qrstuvwxyz",
        "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_11ABCDEFG0abcdefghij_klmnopqrst",
        "glpat-abcdefghij_0123456789",
        "xoxb-123456789012-abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        f"ep_{'aB3-' * 10}xyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzb21lYm9keSJ9.c2lnbmF0dXJl",
        f"AIza{'aB3-x' * 7}",
    ],
)
def test_what_looks_like_a_token_is_redacted_whatever_its_name(token: str) -> None:
    redactor = Redactor()
    assert redactor.config({"x": token, "y": [f"login({token})"]}) == {
        "x": REDACTED,
        "y": [f"login({REDACTED})"],
    }
    assert redactor.command(["--x", token, f"--y={token}"]) == ["--x", REDACTED, f"--y={REDACTED}"]


@pytest.mark.parametrize(
    "text",
    [
        "hf_internal_testing/tiny_random_llama_for_causal_lm",
        "sk-learn-randomforestclassifier",
        "sk-bert-base-multilingual-cased-v2",
        "task-abcdefghijklmnopqrstuvwxyz",
        "ep_20_resnet50_pretrained_on_imagenet_and_more_images",
        "ghp_ui",
        "4bdc862a0c1e3c6d7f8a9b0c1d2e3f4a5b6c7d8e",
        "wandb is at commit 4bdc862a0c1e3c6d7f8a9b0c1d2e3f4a5b6c7d8e",
        "password=getpass.getpass()",
        "the cache key=tokenized-texts is new; the password=short",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_only_begins_like_a_token_stays_readable(text: str) -> None:
    assert Redactor().config({"x": text}) == {"x": text}


HEX = "4bdc862a0c1e3c6d7f8a9b0c1d2e3f4a5b6c7d8e"
SAID = {
    f"the password={SECRET} was refused": f"the password={REDACTED} was refused",
    f"Server=db;User Id=sa;Password={SECRET};": f"Server=db;User Id=sa;Password={REDACTED};",
    f"see https://u:{SECRET}@h": f"see https://u:{REDACTED}@h",
    "https://hooks.slack.com/services/T0001/B0001/abcdefgh0123": (
        f"https://hooks.slack.com/services/{REDACTED}"
    ),
    f"WANDB_API_KEY={HEX}": f"WANDB_API_KEY={REDACTED}",
    f"wandb login {HEX}": f"wandb login {REDACTED}",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nend": f"{REDACTED}\nend",
    "-----BEGIN PRIVATE KEY-----\nMIIE": REDACTED,
}


@pytest.mark.parametrize("said", SAID)
def test_what_a_program_says_is_redacted_on_every_way_in(start_run: StartRun, said: str) -> None:
    run = start_run(config={"c": said})
    run.message(said)
    run.alert("a", said)
    run.event("e", why=said)
    run.log({"t": said})
    run.summary["s"] = said
    run.config["d"] = {"inner": [said]}
    run.write({"log": "message", "t": 1.0, "level": "info", "text": said})
    run.finish("failed", reason=said)
    expected = SAID[said]
    found = {kind: of_kind(run.dir, kind) for kind in ("message", "text", "summary", "option")}
    assert [r["text"] for r in found["message"]] == [expected] * 2
    assert [r["text"] for r in found["text"]] == [expected]
    assert [r["value"] for r in found["summary"]] == [expected]
    assert found["option"][-1]["value"] == {"inner": [expected]}
    events = of_kind(run.dir, "event")
    assert [e[f] for e in events for f in ("text", "why") if f in e] == [expected] * 2
    assert of_kind(run.dir, "finish")[0]["reason"] == expected
    assert run.config["c"] == said


@pytest.mark.parametrize("secret", [SECRET, SECRET.encode(), bytearray(SECRET.encode())])
def test_values_under_a_secret_name_are_redacted_on_every_way_in(
    start_run: StartRun, secret: Any
) -> None:
    run = start_run(config={"api_key": secret})
    run.summary["api_token"] = secret
    run.summary["of"] = {"password": secret, "lr": 0.1}
    run.event("e", token=secret)
    run.config["passwords"] = [secret]
    run.log({"api_key": secret, "sub": {"password": secret}})
    run.finish()
    assert SECRET not in everything_in(run.dir)


def test_the_fields_of_an_event_are_redacted_and_named_once(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_run() as run:
        for _ in range(2):
            run.event("login", password=SECRET, user="somebody", db={"pw": SECRET}, tries=3)
    (first, _) = [one for one in everything_in(run.dir).splitlines() if '"login"' in one]
    fields = {name: json.loads(first)[name] for name in ("password", "user", "db", "tries")}
    assert fields == {"password": REDACTED, "user": "somebody", "db": {"pw": REDACTED}, "tries": 3}
    assert SECRET not in everything_in(run.dir)
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "not recorded" in one]
    assert "password, db.pw" in line


def test_given_names_are_redacted_and_names_with_a_mark_stay_readable() -> None:
    redactor = Redactor(["cluster", "internal_.*", "!image_key"])
    config = {"cluster": "a", "internal_host": 7, "image_key": "observation", "b": {"cluster": {}}}
    assert redactor.config(config) == {
        "cluster": REDACTED,
        "internal_host": REDACTED,
        "image_key": "observation",
        "b": {"cluster": REDACTED},
    }
    assert redactor.command(["--cluster", "a"]) == ["--cluster", REDACTED]


@pytest.mark.parametrize("redact", [7, ["ok", 3], "(", {"a": 1}.values()])
def test_what_cannot_be_a_pattern_is_refused(start_run: StartRun, redact: Any) -> None:
    with pytest.raises(UsageError, match="redact"):
        start_run(redact=redact)


SCRIPT = """
import epochal, sys
with epochal.init("p", "r", dir=sys.argv[1], config={"password": "hunter22x", "lr": 0.1}) as run:
    run.config.update({"api_key": "hunter22x-too"})
    run.log({"loss": 1.0})
    assert run.config["password"] == "hunter22x"
    assert run.config["api_key"] == "hunter22x-too"
"""


def test_no_secret_reaches_the_run_folder_or_the_archive_and_one_notice_says_so(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for words in (
        ["config", "user.email", "a@b"],
        ["config", "user.name", "a"],
        ["remote", "add", "origin", f"https://me:{SECRET}@host/repo.git"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    command = [sys.executable, str(script), str(tmp_path / "runs"), "--hf-token", SECRET]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    folder = tmp_path / "runs/p/r"
    write_archive(folder, tmp_path / "run.html")
    assert SECRET not in everything_in(folder)
    assert SECRET not in (tmp_path / "run.html").read_text()
    identity = read_json(RunFolder(folder).identity)
    assert identity["git"]["remote"] == f"https://me:{REDACTED}@host/repo.git"
    assert identity["command"][-2:] == ["--hf-token", REDACTED]
    assert identity["config"] == {"password": REDACTED, "lr": 0.1}
    notices = [line for line in done.stderr.splitlines() if "not recorded" in line]
    assert len(notices) == 2  # at the start, and of what was added later
    assert "password, hf-token, a password in a URL" in notices[0]
    assert "api_key" in notices[1]


def test_redaction_can_be_turned_off(start_run: StartRun, tmp_path: Path) -> None:
    with start_run(config={"password": SECRET}, redact=False) as run:
        run.config.update({"api_key": SECRET})
    assert read_json(run.dir / "run.json")["config"] == {"password": SECRET}
    write_archive(run.dir, tmp_path / "run.html")
    assert SECRET in (tmp_path / "run.html").read_text()


def test_the_environment_turns_it_off_or_adds_names(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_REDACT", "0")
    with start_run("off", config={"password": SECRET}) as run:
        pass
    assert read_json(run.dir / "run.json")["config"] == {"password": SECRET}
    monkeypatch.setenv("EPOCHAL_REDACT", "cluster, internal_.*")
    with start_run("more", config={"cluster": "a", "password": SECRET}) as run:
        pass
    assert read_json(run.dir / "run.json")["config"] == {"cluster": REDACTED, "password": REDACTED}


def test_an_archive_of_an_older_run_is_redacted(tmp_path: Path) -> None:
    Journal(tmp_path, config={"password": SECRET}, command=["python", f"--password={SECRET}"])
    write_archive(tmp_path / "p/x", tmp_path / "run.html")
    assert SECRET not in (tmp_path / "run.html").read_text()


def test_the_logger_of_one_file_records_the_command_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    with epochal.TrainingRunLogger(tmp_path / "log.json", verbosity=-2) as logger:
        logger.log_cmd(["train", "--password", SECRET])
        logger.log_options({"token": SECRET})
    assert SECRET not in (tmp_path / "log.json").read_text()


def test_a_sink_gets_the_redacted_value(start_run: StartRun, tmp_path: Path) -> None:
    with start_run(config={"password": SECRET}) as run:
        run.config.update({"api_key": SECRET})
        run.log({"loss": 1.0}, step=1)
    main(["sync", str(run.dir), "--to", "json_log,plain_log,tensorboard"])
    assert SECRET not in everything_in(tmp_path)


def test_resuming_asks_for_the_secret_and_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "pass", "--password", REDACTED]
    Journal(tmp_path, command=command, cwd=str(tmp_path)).finish("failed")
    assert main(["resume", "x", "--dir", str(tmp_path)]) == 0
    assert "secrets were not recorded" in capsys.readouterr().out
    assert main(["resume", "x", "--run", "-y", "--dir", str(tmp_path)]) == 2
    assert "--args" in capsys.readouterr().err
    given = f"--args=--password {SECRET}"
    assert main(["resume", "x", "--json", given, "--dir", str(tmp_path)]) == 0
    assert REDACTED not in json.loads(capsys.readouterr().out)["shell"]
