// Anthropic's client, with its streaming helper.

// Long enough that no answer is refused for the time that it may take.
const ANSWER_WITHIN_MS = 60_000;

// `written` has the inputs of calls as they came in a stream, by their block.
function answerOf(message, written) {
  const calls = message.content.flatMap((block, at) =>
    block.type === 'tool_use'
      ? [
          {
            id: block.id,
            name: block.name,
            arguments: written ? (written.get(at) ?? '') : JSON.stringify(block.input),
            input: block.input,
          },
        ]
      : [],
  );
  const { usage } = message;
  const texts = (type, field) =>
    message.content.filter((block) => block.type === type).map((block) => block[field]);
  return {
    text: texts('text', 'text').join(''),
    refusal: null,
    finish: message.stop_reason,
    function: null,
    calls,
    kinds: message.content.map(({ type }) => type),
    thought: texts('thinking', 'thinking').join(''),
    usage: [
      usage.input_tokens +
        (usage.cache_creation_input_tokens ?? 0) +
        (usage.cache_read_input_tokens ?? 0),
      usage.output_tokens,
    ],
  };
}

export function messages(require, baseURL) {
  const { Anthropic } = require('@anthropic-ai/sdk');
  const { VERSION } = require('@anthropic-ai/sdk/version');
  const client = new Anthropic({
    baseURL: baseURL.replace(/\/v1$/, ''),
    timeout: ANSWER_WITHIN_MS,
  });

  async function streamed(request) {
    const written = new Map();
    const stream = client.messages.stream(request);
    stream.on('streamEvent', ({ type, index, delta }) => {
      if (type === 'content_block_delta' && delta.type === 'input_json_delta') {
        written.set(index, (written.get(index) ?? '') + delta.partial_json);
      }
    });
    return answerOf(await stream.finalMessage(), written);
  }

  async function read(request, wantsStream) {
    if (wantsStream) {
      return { choices: [await streamed(request)], id: null };
    }
    const message = await client.messages.create(request);
    return { choices: [answerOf(message)], id: message.id };
  }

  return { name: `anthropic-node ${VERSION}`, read };
}
