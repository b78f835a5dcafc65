// Starts `dslc lsp` and connects VS Code to it.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

/** Return the command from the settings, with the first folder for `${workspaceFolder}`. */
function command() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  const words = vscode.workspace.getConfiguration("symbiont").get("server.command") ?? [];
  const [program = "dslc", ...rest] = words.map((word) => word.replaceAll("${workspaceFolder}", folder));
  return { command: program, args: rest, transport: TransportKind.stdio };
}

async function start() {
  const run = command();
  client = new LanguageClient(
    "symbiont",
    "Symbiont",
    { run, debug: run },
    { documentSelector: [{ language: "symbiont" }] },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const answer = await vscode.window.showErrorMessage(
      `\`${[run.command, ...run.args].join(" ")}\` could not be started: install Symbiont with the extra [lsp], or set the command in the settings.`,
      "Open settings",
    );
    if (answer) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "symbiont.server.command");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.dispose();
}

async function restart() {
  await stop();
  await start();
}

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("symbiont.restartServer", restart),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("symbiont.server.command")) {
        await restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
