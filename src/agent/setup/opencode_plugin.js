// Written by git dibs setup. Changes are lost at the next one; git dibs setup opencode --remove removes this file.
//
// Tells git-dibs what opencode is about to do. An edit of a file that another session holds is refused. Where git-dibs is
// not installed, nothing happens.
import { spawn } from "node:child_process"

const EDITS = ["edit", "write", "apply_patch", "patch", "multiedit"]
const TIMEOUT_MS = 10_000

export const GitDibs = async ({ directory, client }) => {
  const parents = new Map() // session -> the session that started it
  const contexts = new Map() // topmost session -> what its model is told
  let isInstalled = true

  // Calls git-dibs with an event. Whatever goes wrong, the answer is "go ahead".
  const call = (event) =>
    new Promise((resolve) => {
      if (!isInstalled) return resolve({})
      const child = spawn("git-dibs", ["agent-hook", "opencode"], {
        cwd: directory,
        stdio: ["pipe", "pipe", "ignore"],
        timeout: TIMEOUT_MS,
      })
      let text = ""
      child.on("error", (error) => {
        if (error.code === "ENOENT") isInstalled = false
        resolve({})
      })
      child.stdin.on("error", () => {})
      child.stdout.on("data", (data) => (text += data))
      child.on("close", () => {
        try {
          resolve(JSON.parse(text) ?? {})
        } catch {
          resolve({})
        }
      })
      child.stdin.end(JSON.stringify({ ...event, cwd: directory }))
    })

  // The topmost session: subagents have sessions of their own.
  const root = async (session) => {
    let top = session
    for (let depth = 0; depth < 16; depth++) {
      if (!parents.has(top)) {
        const found = await client?.session?.get({ path: { id: top } }).catch(() => undefined)
        parents.set(top, found?.data?.parentID)
      }
      if (!parents.get(top)) break
      top = parents.get(top)
    }
    return top
  }

  const ids = async (session) => {
    const top = await root(session)
    return top === session ? { sessionID: session } : { sessionID: session, parentID: top }
  }

  // Starts the session of the topmost session once, and keeps what the model is told.
  const start = async (session) => {
    const top = await root(session)
    if (!contexts.has(top)) {
      contexts.set(top, call({ event: "session.start", sessionID: top }).then((answer) => answer.context))
    }
    return contexts.get(top)
  }

  const end = async (session) => {
    if (contexts.delete(session)) await call({ event: "session.end", sessionID: session })
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info) parents.set(info.id, info.parentID)
      if (event.type === "session.deleted" && info) await end(info.id)
    },
    "experimental.chat.system.transform": async (input, output) => {
      if (!input.sessionID) return
      const context = await start(input.sessionID)
      if (context) output.system.push(context)
    },
    "tool.execute.before": async (input, output) => {
      if (!EDITS.includes(input.tool) && input.tool !== "bash") return
      await start(input.sessionID)
      const event = { event: "tool.execute.before", ...(await ids(input.sessionID)), tool: input.tool, args: output.args }
      const answer = await call(event)
      if (answer.deny) throw new Error(answer.deny)
    },
    "tool.execute.after": async (input, output) => {
      if (input.tool !== "bash") return
      const event = { event: "tool.execute.after", ...(await ids(input.sessionID)), tool: input.tool, args: input.args }
      const answer = await call(event)
      if (answer.context && typeof output?.output === "string") output.output += "\n" + answer.context
    },
    "shell.env": async (input, output) => {
      if (input.sessionID) output.env.DIBS_OPENCODE_SESSION = await root(input.sessionID)
    },
    dispose: async () => {
      await Promise.all([...contexts.keys()].map(end))
    },
  }
}
