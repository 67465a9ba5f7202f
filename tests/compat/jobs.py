"""The job service's seven routes, as its users call them. Only the base URL and the tokens are git-dibs'."""

import json
import os
import urllib.error
import urllib.request

BASE = os.environ["BASE_URL"] + "/compat"
TOKENS = {"ana": os.environ["ANA_TOKEN"], "bo": os.environ["BO_TOKEN"]}


def call(agent, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {TOKENS[agent]}", "content-type": "application/json"}
    request = urllib.request.Request(BASE + path, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def expect(actual, wanted, **fields):
    code, body = actual
    assert code == wanted, (code, body)
    for name, value in fields.items():
        assert body.get(name) == value, (name, body)
    return body


# 1: lock.
job = expect(call("ana", "POST", "/jobs/42/lock", {"agentId": "ana", "agentName": "Ana"}), 200, lockedBy="ana")
assert job["lockedAt"].endswith("Z") and job["lockedByName"] == "Ana", job
expect(call("ana", "POST", "/jobs/42/lock", {"agentId": "ana"}), 200, lockedBy="ana", lockedAt=job["lockedAt"])
expect(call("bo", "POST", "/jobs/42/lock", {"agentId": "bo"}), 409, error="Entity is already locked by Ana")
expect(call("bo", "POST", "/jobs/43/lock", {"agentId": "bo"}), 200, lockedBy="bo")

# 2: unlock, only by the holder.
expect(call("bo", "POST", "/jobs/42/unlock", {"agentId": "bo"}), 403,
       error="Only the lock holder (Ana) can unlock this entity")
status, body = call("bo", "POST", "/jobs/42/unlock", {"agentId": "ana"})
assert status == 403 and set(body) == {"error"}, (status, body)

# 3 and 4: file a request, list the requests.
status, body = call("bo", "POST", "/jobs/42/unlock-requests", {"requestedBy": "bo"})
assert status == 400 and "reason" in body["error"], (status, body)
filed = expect(call("bo", "POST", "/jobs/42/unlock-requests",
                    {"requestedBy": "bo", "requestedByName": "Bo", "reason": "a fix that cannot wait"}), 201,
               requestedBy="bo", reason="a fix that cannot wait", status="pending", respondedAt=None, respondedBy=None)
for agent in TOKENS:
    listed = expect(call(agent, "GET", "/jobs/42/unlock-requests"), 200, lockedBy="ana")["requests"]
    assert [request["id"] for request in listed] == [filed["id"]], listed

# 5: reject, only by the holder.
status, body = call("bo", "POST", f"/jobs/42/unlock-requests/{filed['id']}/reject", {"agentId": "bo"})
assert status == 403 and "Ana" in body["error"], (status, body)
rejected = expect(call("ana", "POST", f"/jobs/42/unlock-requests/{filed['id']}/reject", {"agentId": "ana"}), 200,
                  releaseLock=False, lockedBy="ana")["requests"]
assert rejected[0]["status"] == "rejected" and rejected[0]["respondedBy"] == "ana", rejected

# 6: approve: the lock is released in the same step.
again = expect(call("bo", "POST", "/jobs/42/unlock-requests", {"requestedBy": "bo", "reason": "please"}), 201)
approved = expect(call("ana", "POST", f"/jobs/42/unlock-requests/{again['id']}/approve", {"agentId": "ana"}), 200,
                  releaseLock=True, lockedBy=None, lockedAt=None)["requests"]
assert [request["status"] for request in approved] == ["rejected", "approved"], approved
expect(call("bo", "POST", "/jobs/42/lock", {"agentId": "bo"}), 200, lockedBy="bo")

# 7: delete, by the one who asked.
mine = expect(call("ana", "POST", "/jobs/42/unlock-requests", {"requestedBy": "ana", "reason": "back, please"}), 201)
status, body = call("bo", "DELETE", f"/jobs/42/unlock-requests/{mine['id']}")
assert status == 403 and "Ana" in body["error"] and "withdraw" in body["error"], (status, body)
left = expect(call("ana", "DELETE", f"/jobs/42/unlock-requests/{mine['id']}"), 200)["requests"]
assert mine["id"] not in [request["id"] for request in left], left
assert call("ana", "DELETE", "/jobs/42/unlock-requests/no-such-request")[0] == 404

expect(call("bo", "POST", "/jobs/42/unlock", {"agentId": "bo"}), 200, lockedBy=None)
expect(call("bo", "POST", "/jobs/42/unlock", {"agentId": "bo"}), 200, lockedBy=None)
print("ok")
