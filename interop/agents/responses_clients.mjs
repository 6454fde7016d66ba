// openai-node's Responses: plain and by its streaming helper.

function declared(job) {
  return job.declared()?.map(({ type, function: body }) => ({ type, strict: false, ...body }));
}

function asked(job) {
  const tools = declared(job);
  return {
    model: job.model,
    input: job.messages,
    ...(tools && { tools }),
    ...(job.user && { user: job.user }),
  };
}

function answered(job, { id, output, output_text: text, status, usage }) {
  const calls = output.filter(({ type }) => type === 'function_call');
  job.answered(
    id,
    text,
    status,
    [usage?.input_tokens, usage?.output_tokens],
    calls.map((call) => [call.call_id, call.name, call.arguments]),
  );
  return calls;
}

async function loop(job, ask) {
  for (;;) {
    const response = await ask(asked(job));
    const calls = answered(job, response);
    job.messages.push(...response.output);
    if (!calls.length) {
      return;
    }
    for (const call of calls) {
      const output = job.pickColor(JSON.parse(call.arguments));
      job.messages.push({ type: 'function_call_output', call_id: call.call_id, output });
    }
  }
}

export function clients({ OpenAI }) {
  const clientOf = (job) => new OpenAI({ baseURL: job.url, apiKey: job.key, maxRetries: 0 });

  async function create(job) {
    const { responses } = clientOf(job);
    await loop(job, (request) => responses.create(request, { signal: job.signal }));
  }

  async function stream(job) {
    const { responses } = clientOf(job);
    await loop(job, (request) => {
      const events = responses.stream(request, { signal: job.signal });
      events.on('response.output_text.delta', ({ delta }) => job.saw(delta));
      return events.finalResponse();
    });
  }

  return { 'openai-node responses create': create, 'openai-node responses stream': stream };
}
