// openai-node: chat completions and responses, each with its streaming helper.

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

function clientOf(require, baseURL) {
  const { OpenAI } = require('openai');
  const { VERSION } = require('openai/version');
  return { client: new OpenAI({ baseURL }), name: `openai-node ${VERSION}` };
}

export function chat(require, baseURL) {
  const { client, name } = clientOf(require, baseURL);
  const { completions } = client.chat;

  async function read(request, streamed) {
    const completion = streamed
      ? await completions.stream(request).finalChatCompletion()
      : await completions.create(request);
    return { choices: completion.choices.map(choiceOf), id: completion.id };
  }

  return { name, read };
}

function answerOf(response) {
  const parts = response.output.flatMap((item) => (item.type === 'message' ? item.content : []));
  const refusal = parts.map((part) => part.refusal ?? '').join('');
  const thoughts = response.output
    .filter(({ type }) => type === 'reasoning')
    .flatMap((item) => [...item.summary, ...(item.content ?? [])]);
  return {
    text: parts.map((part) => part.text ?? '').join(''),
    refusal: refusal || null,
    finish: response.incomplete_details?.reason ?? response.status,
    function: null,
    calls: response.output
      .filter(({ type }) => type === 'function_call' || type === 'custom_tool_call')
      .map((call) => ({
        id: call.call_id,
        name: call.name,
        arguments: call.arguments ?? call.input,
      })),
    kinds: response.output.map(({ type }) => type),
    thought: thoughts.map(({ text }) => text).join(''),
    usage: response.usage && [response.usage.input_tokens, response.usage.output_tokens],
  };
}

export function responses(require, baseURL) {
  const { client, name } = clientOf(require, baseURL);

  async function read(request, streamed) {
    const response = streamed
      ? await client.responses.stream(request).finalResponse()
      : await client.responses.create(request);
    return { choices: [answerOf(response)], id: response.id };
  }

  return { name, read };
}
