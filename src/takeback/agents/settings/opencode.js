// Takeback: tells `takeback-hook` what opencode is about to do, and what it has done.
// Written by `takeback install opencode`, removed by `takeback uninstall opencode`.
import { spawn } from "node:child_process"

const COMMAND = ["takeback-hook", "opencode"]

// One event in, one answer out. If the program itself cannot be had, the agent goes on: `takeback doctor` tells why.
const tell = (event) =>
  new Promise((resolve) => {
    const hook = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "pipe"] })
    const out = { code: 0, stdout: "", stderr: "" }
    hook.stdout.on("data", (text) => (out.stdout += text))
    hook.stderr.on("data", (text) => (out.stderr += text))
    hook.on("error", () => resolve({ ...out, code: 1 }))
    hook.on("close", (code) => resolve({ ...out, code }))
    hook.stdin.on("error", () => {})
    hook.stdin.end(JSON.stringify(event))
  })

const answer = async (event) => {
  const { code, stdout, stderr } = await tell(event)
  if (code === 2) throw new Error(stderr.trim() || "refused by Takeback")
  try {
    return JSON.parse(stdout)
  } catch {
    return {}
  }
}

export const Takeback = async ({ client, directory, worktree }) => {
  const place = { directory, worktree }
  const ask = async (event) => {
    const said = await answer({ ...event, ...place })
    // Shown where there is a window to show it in.
    if (said.warning) client.tui.showToast({ body: { message: said.warning, variant: "warning" } }).catch(() => {})
    return said
  }
  return {
    "chat.message": async (input, output) => {
      const text = output.parts.map((part) => part.text ?? "").join("")
      await ask({ event: "chat.message", sessionID: input.sessionID, messageID: output.message.id, text })
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      await ask({ event: "tool.execute.before", tool, sessionID, callID, args })
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
