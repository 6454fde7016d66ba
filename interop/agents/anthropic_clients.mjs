// Anthropic's client: plain, by its streaming helper, and by its tool runner.

import { DESCRIPTION, PARAMETERS } from './job.mjs';

const OUTPUT_TOKENS_MAX = 1000;

function declared(job) {
  return job.declared()?.map(({ function: { parameters, ...body } }) => ({
    ...body,
    // The server puts the schema of its own tools in.
    input_schema: parameters ?? { type: 'object' },
  }));
}

function asked(job) {
  const tools = declared(job);
  return {
    model: job.model,
    messages: job.messages,
    max_tokens: OUTPUT_TOKENS_MAX,
    ...(tools && { tools }),
    ...(job.user && { metadata: { user_id: job.user } }),
  };
}

function answered(job, { id, content, stop_reason: finish, usage }) {
  const calls = content.filter(({ type }) => type === 'tool_use');
  const texts = content.filter(({ type }) => type === 'text');
  job.answered(
    id,
    texts.map(({ text }) => text).join(''),
    finish,
    [usage.input_tokens, usage.output_tokens],
    calls.map((call) => [call.id, call.name, JSON.stringify(call.input)]),
  );
  return calls;
}

async function loop(job, ask) {
  for (;;) {
    const message = await ask(asked(job));
    const calls = answered(job, message);
    job.messages.push({ role: 'assistant', content: message.content });
    if (!calls.length) {
      return;
    }
    const results = calls.map(({ id, input }) => ({
      type: 'tool_result',
      tool_use_id: id,
      content: job.pickColor(input),
    }));
    job.messages.push({ role: 'user', content: results });
  }
}

export function clients({ Anthropic }) {
  const clientOf = (job) =>
    new Anthropic({ baseURL: job.url.replace(/\/v1$/, ''), apiKey: job.key, maxRetries: 0 });

  async function create(job) {
    const { messages } = clientOf(job);
    await loop(job, (request) => messages.create(request, { signal: job.signal }));
  }

  async function stream(job) {
    const { messages } = clientOf(job);
    await loop(job, (request) => {
      const events = messages.stream(request, { signal: job.signal });
      events.on('text', (delta) => job.saw(delta));
      return events.finalMessage();
    });
  }

  // The client's own loop, which asks at `/v1/messages?beta=true`.
  async function toolRunner(job) {
    const { tools, ...request } = asked(job);
    const runnable = (tools ?? []).map((entry) =>
      entry.name === 'pick_color'
        ? {
            name: entry.name,
            description: DESCRIPTION,
            input_schema: PARAMETERS,
            parse: (input) => input,
            run: (args) => job.pickColor(args),
          }
        : entry,
    );
    const { messages } = clientOf(job).beta;
    const runner = messages.toolRunner({ ...request, tools: runnable }, { signal: job.signal });
    for await (const message of runner) {
      answered(job, message);
    }
  }

  return {
    'anthropic-node create': create,
    'anthropic-node stream': stream,
    'anthropic-node toolRunner': toolRunner,
  };
}
