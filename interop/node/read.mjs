// Reads chat answers with openai-node at its default retries.
//
// One argument: the base URL. Each line of standard input is {"request", "streamed"}; each line
// of standard output is what came of it, in the form that ../python/clients.py describes.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// The client is installed outside of the checkout, where an import would not look for it.
const require = createRequire(`${process.env.INTEROP_NODE}/package.json`);
const { OpenAI } = require('openai');
const { VERSION } = require('openai/version');

const { completions } = new OpenAI({ baseURL: process.argv[2] }).chat;

function callOf(call) {
  const body = call.type === 'custom' ? call.custom : call.function;
  return { id: call.id, name: body.name, arguments: body.arguments ?? body.input };
}

function choiceOf({ message, finish_reason: finish }) {
  const called = message.function_call;
  return {
    text: message.content ?? '',
    refusal: message.refusal ?? null,
    finish,
    function: called ? { name: called.name, arguments: called.arguments } : null,
    calls: (message.tool_calls ?? []).map(callOf),
  };
}

async function read({ request, streamed }) {
  try {
    const completion = streamed
      ? await completions.stream(request).finalChatCompletion()
      : await completions.create(request);
    return { choices: completion.choices.map(choiceOf), error: null, id: completion.id };
  } catch (error) {
    const { name } = error.constructor;
    const shown = { class: name, status: error.status ?? null, message: error.message };
    return { choices: [], error: shown, id: null };
  }
}

function say(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

say({ version: VERSION });
for await (const line of createInterface({ input: process.stdin })) {
  say(await read(JSON.parse(line)));
}
