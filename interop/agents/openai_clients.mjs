// openai-node: plain, by its streaming helper, and by the two forms of `runTools`.

const callOf = (call) => [call.id, call.function.name, call.function.arguments];

function answered(job, { id, choices: [choice], usage }) {
  const { content, tool_calls: calls } = choice.message;
  job.answered(
    id,
    content ?? '',
    choice.finish_reason,
    [usage?.prompt_tokens, usage?.completion_tokens],
    (calls ?? []).map(callOf),
  );
}

function asked(job) {
  const tools = job.declared();
  return {
    model: job.model,
    messages: job.messages,
    ...(tools && { tools }),
    ...(job.user && { user: job.user }),
  };
}

async function loop(job, ask) {
  for (;;) {
    const completion = await ask(asked(job));
    answered(job, completion);
    const { message } = completion.choices[0];
    job.messages.push(message);
    if (!message.tool_calls?.length) {
      return;
    }
    for (const call of message.tool_calls) {
      const content = job.pickColor(JSON.parse(call.function.arguments));
      job.messages.push({ role: 'tool', tool_call_id: call.id, content });
    }
  }
}

// The tools as `runTools` takes them: with the function that answers the call.
function runnable(job) {
  return (job.declared() ?? []).map(({ type, function: declared }) => ({
    type,
    function: {
      ...declared,
      parse: JSON.parse,
      function: (args) => {
        if (declared.name !== 'pick_color') {
          throw new Error(`${declared.name} was called here`);
        }
        return job.pickColor(args);
      },
    },
  }));
}

export function clients({ OpenAI }) {
  const completionsOf = (job) =>
    new OpenAI({ baseURL: job.url, apiKey: job.key, maxRetries: 0 }).chat.completions;
  const usage = { stream_options: { include_usage: true } };

  async function create(job) {
    const completions = completionsOf(job);
    await loop(job, (request) => completions.create(request, { signal: job.signal }));
  }

  async function stream(job) {
    const completions = completionsOf(job);
    await loop(job, (request) => {
      const events = completions.stream({ ...request, ...usage }, { signal: job.signal });
      events.on('content', (delta) => job.saw(delta));
      return events.finalChatCompletion();
    });
  }

  async function runTools(job) {
    const request = { ...asked(job), tools: runnable(job) };
    const runner = completionsOf(job).runTools(request, { signal: job.signal });
    runner.on('chatCompletion', (completion) => answered(job, completion));
    await runner.done();
  }

  async function runToolsStream(job) {
    const request = { ...asked(job), ...usage, tools: runnable(job), stream: true };
    const runner = completionsOf(job).runTools(request, { signal: job.signal });
    runner.on('content', (delta) => job.saw(delta));
    runner.on('chatCompletion', (completion) => answered(job, completion));
    await runner.done();
  }

  return {
    'openai-node create': create,
    'openai-node stream': stream,
    'openai-node runTools': runTools,
    'openai-node runTools stream': runToolsStream,
  };
}
