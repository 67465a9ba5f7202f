"""What the document cannot tell a generator of requests, and nothing else."""

import re
import zlib

import schemathesis
from hypothesis import strategies as st

# The rules for keys are told in words, so valid ones are made here, of every kind. A few names come up again and
# again, so that sessions meet; `ana.txt` and `bo.txt` are held from the beginning.
names = st.sampled_from(["a", "src", "lib.rs", "ä", "with space"])
paths = st.lists(names, min_size=1, max_size=2).map("/".join)
keys = st.one_of(
    st.sampled_from(["ana.txt", "bo.txt"]),
    paths,
    paths.map(lambda path: path + "/"),
    paths.map(lambda path: path + "/**/*.rs"),
    paths.map(lambda path: "file:" + path + "/[id].ts"),
    st.sampled_from([
        "api:GET /v1/users", "db:migration-slot", "event:user.created", "flag:billing/*", "env:shared-fixtures",
        "contract:openapi/v1.yaml", "feature:F-1:pause", "github://acme/app/issues/42", "deploy://api-prod",
    ]),
)
schemathesis.openapi.format("dibs-key", keys)

sessions = {"ana", "bo", "carl", "dora"}


@schemathesis.hook
def after_call(context, case, response):
    if case.operation.label == "POST /api/sessions" and response.status_code == 201:
        sessions.add(response.json()["sessionId"])


@schemathesis.hook
def before_call(context, case, kwargs):
    # Any name is a repository's name as far as the document knows; there is one repository.
    body = case.body if isinstance(case.body, dict) else {}
    for part in (case.query or {}, body):
        if isinstance(part.get("repo"), str):
            part["repo"] = "app"

    # Any id is a session's id; calls are about those that are there. Three of them do not end, and two keep what they
    # hold, or little else happens.
    session = (case.path_parameters or {}).get("id")
    if isinstance(session, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", session):
        if session not in sessions:
            session = ("ana", "bo")[zlib.crc32(repr((session, body)).encode()) % 2]
        if case.operation.label.endswith("/release-all") and session in ("ana", "bo"):
            session = "carl"
        if case.operation.label.endswith("/end") and session in ("ana", "bo", "carl"):
            session = "dora"
        case.path_parameters["id"] = session

    # A check has one content for each path, which the document cannot tell.
    for check in (body, body.get("check")):
        if isinstance(check, dict) and isinstance(check.get("blobs"), list):
            paths = check.get("paths") or check.get("filePaths") or []
            if isinstance(paths, list) and len(paths) != len(check["blobs"]):
                check["blobs"] = [(check["blobs"] or ["0" * 40])[0]] * len(paths)

    # A hold has one kind of time. The document says so in words.
    for hold in (body, body.get("check")):
        if isinstance(hold, dict) and hold.get("idleSeconds") is not None:
            hold["whileSession"] = True
        if isinstance(hold, dict) and hold.get("whileSession") is True:
            hold.pop("ttlSeconds", None)

    # Long waits are as good as short ones, and there is not time for all of them.
    if type(body.get("waitSeconds")) in (int, float) and 1 < body["waitSeconds"] <= 300:
        body["waitSeconds"] = 1
