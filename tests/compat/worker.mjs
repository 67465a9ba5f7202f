// A worker as its users write it: reserve every file, stop at the first conflict, work, and release all in a `finally`.
// Only the base URL and the token are git-dibs'.
import assert from "node:assert/strict";

const { BASE_URL, ANA_TOKEN, BO_TOKEN } = process.env;

class FileReservations {
  constructor(sessionId, token) {
    this.base = `${BASE_URL}/api/sessions/${sessionId}`;
    this.headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  }

  async call(method, path, body) {
    const init = { method, headers: this.headers, body: body === undefined ? undefined : JSON.stringify(body) };
    const response = await fetch(this.base + path, init);
    return { status: response.status, body: await response.json() };
  }

  checkConflicts(paths) {
    return this.call("GET", `/files/check-conflicts?paths=${encodeURIComponent(paths.join(","))}`);
  }

  async withFiles(paths, work) {
    const { body: check } = await this.checkConflicts(paths);
    if (check.conflicts.length > 0) return { blockedBy: check.conflicts[0].reservedBy };
    try {
      for (const filePath of paths) {
        const { status, body } = await this.call("POST", "/files/reserve", { filePath, ttlSeconds: 120 });
        if (status === 409) return { blockedBy: body.reservedBy };
        assert.equal(status, 200, JSON.stringify(body));
        assert.ok(body.reservationId && body.expiresAt && body.sessionId);
      }
      return { result: await work() };
    } finally {
      const { body } = await this.call("POST", "/files/release-all");
      assert.equal(typeof body.releasedCount, "number");
      this.released = body.releasedPaths;
    }
  }
}

const ana = new FileReservations("ana", ANA_TOKEN);
const bo = new FileReservations("bo", BO_TOKEN);
const files = ["src/services/user-service.ts", "src/models/user.ts"];

const outcome = await ana.withFiles(files, async () => {
  const listed = (await ana.call("GET", "/reserved-files")).body.reservations.map((one) => one.filePath);
  assert.deepEqual(listed, files);
  assert.deepEqual(await bo.withFiles(files, async () => assert.fail("two workers at once")), { blockedBy: "ana" });
  const race = await bo.call("POST", "/files/reserve", { filePath: files[0], ttlSeconds: 120 });
  assert.equal(race.status, 409);
  assert.equal(race.body.error, "File already reserved");
  assert.equal(race.body.reservedBy, "ana");
  // The shipped client asks for several at once and reads this shape.
  const many = await bo.call("POST", "/files/reserve", { filePaths: files, reason: "refactoring" });
  assert.deepEqual(many.body.reserved, []);
  assert.equal(many.body.conflicts[0].filePath, files[0]);
  assert.equal(many.body.conflicts[0].heldBy.sessionId, "ana");
  assert.ok(many.body.conflicts[0].heldBy.reservedAt);
  return "done";
});
assert.deepEqual(outcome, { result: "done" });
assert.deepEqual(ana.released, files);

await assert.rejects(ana.withFiles(files, async () => { throw new Error("the work failed"); }), /the work failed/);
assert.deepEqual(await bo.withFiles(files, async () => "after a failure"), { result: "after a failure" });

const spaced = await bo.call("GET", `/files/check-conflicts?paths=${encodeURIComponent("a, ,b,")}`);
assert.deepEqual(spaced.body.clear, ["a", "b"]);
const again = await ana.call("POST", "/files/release", { filePath: files[0] });
assert.deepEqual(again.body, { ok: true, released: false, releasedCount: 0 });
console.log("ok");
