// Takeback: tells `takeback-hook` what opencode is about to do, and what it has done.
// Written by `takeback install opencode`, removed by `takeback uninstall opencode`.
import { spawn } from "node:child_process"

const COMMAND = ["takeback-hook", "opencode"]
const WAIT_MS = 60_000
const GONE =
  "Takeback does not work any more: it, or the Python that it was installed for, is gone or broken. Nothing that is " +
  "done here is recorded, and none of it can be taken back. Install Takeback again, or remove this plugin."

// One event in, one answer out. Whatever becomes of the program, opencode goes on: only an answer can refuse.
const tell = (event) =>
  new Promise((resolve) => {
    const out = { failed: false, stdout: "" }
    let hook
    const end = (failed) => {
      clearTimeout(timer)
      resolve({ ...out, failed })
    }
    const failed = () => end(true)
    const timer = setTimeout(() => {
      hook?.kill("SIGKILL")
      failed()
    }, WAIT_MS)
    try {
      hook = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
      hook.stdout.on("data", (text) => (out.stdout += text))
      hook.on("error", failed)
      hook.on("close", (code) => end(code !== 0))
      hook.stdin.on("error", () => {})
      hook.stdin.end(JSON.stringify(event))
    } catch {
      failed()
    }
  })

let warned = false

const answer = async (event) => {
  const { failed, stdout } = await tell(event)
  let said = {}
  try {
    said = JSON.parse(stdout)
  } catch {}
  if (said.refused) throw new Error(said.refused)
  if (!failed || warned) return said
  warned = true
  return { warning: GONE }
}

export const Takeback = async ({ client, directory, worktree }) => {
  const place = { directory, worktree }
  const ask = async (event) => {
    const said = await answer({ ...event, ...place })
    if (said.warning) {
      // Shown where there is a window to show it in, and written into opencode's log.
      const log = { service: "takeback", level: "warn", message: said.warning }
      client.tui.showToast({ body: { message: said.warning, variant: "warning" } }).catch(() => {})
      client.app.log({ body: log }).catch(() => {})
    }
    return said
  }
  return {
    "chat.message": async (input, output) => {
      const text = output.parts.map((part) => part.text ?? "").join("")
      await ask({ event: "chat.message", sessionID: input.sessionID, messageID: output.message.id, text })
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const { command } = await ask({ event: "tool.execute.before", tool, sessionID, callID, args })
      if (command) args.command = command
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
      const { exit } = output?.metadata ?? {}
      const { context } = await ask({ event: "tool.execute.after", tool, sessionID, callID, args, exit })
      if (context && output) output.output = `${output.output ?? ""}\n\n${context}`
    },
    event: async ({ event }) => {
      if (!["session.created", "session.idle", "session.deleted"].includes(event.type)) return
      const { info, sessionID } = event.properties
      await ask({ event: event.type, sessionID: sessionID ?? info?.id, parentID: info?.parentID })
    },
  }
}
