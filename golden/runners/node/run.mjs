// Replays the cases of one configuration against a server: render, derender whole, derender streamed, and any other
// route. Node 20 or newer, nothing else.
//
//     node golden/runners/node/run.mjs URL SERVER [GOLDEN]
//
// Prints one JSON object a line, {id, check, ok, difference?} or {id, check, ok, offered: false}, and counts on stderr.
// Exit status: 0 when all is equal, or equivalent, to what was recorded, 1 when not, 2 when something could not be asked:
// a route that the server does not have, a server that is gone, an unknown SERVER. It knows no declared divergences, and
// does not derender messages and responses, for which vLLM has no route. The server may have any name for its model.
// docs/conformance-format.md explains each step.

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const REFERENCE = "vllm-0.33.0";
const PATHS = { chat: "/v1/chat/completions", completion: "/v1/completions" };
// How long an answer may take, in milliseconds, and how many may take longer before the server counts as gone.
const [TIMEOUT, LATE] = [60_000, 5];

// Why nothing can be asked, a sentence.
class Unaskable extends Error {}

// What the server calls its model, and what the recordings call it.
let [model, recordedModel] = [null, null];

const lines = (path) => readFileSync(path, "utf8").split("\n").filter(Boolean);
// The text of an object's member. JSON.parse puts keys like "10" first, and JSON.stringify writes 1.0 as 1: a prompt has both.
function source(object, name) {
  let [depth, key, start] = [0, null, null];
  for (const { 0: token, index } of object.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]/g)) {
    if (depth === 1 && start !== null && "},".includes(token)) return object.slice(start, index);
    if (depth === 1 && token === ":" && key === name) start = index + 1;
    if (depth === 1 && token.startsWith('"')) key = token.slice(1, -1);
    depth += "{[".includes(token) - "}]".includes(token);
  }
  return undefined;
}
// A line of the recordings with the server's own name for the model. JSON in a text has its quotes escaped.
function renamed(line) {
  if (model === recordedModel) return line;
  const name = recordedModel.replace(/[^\w-]/g, "\\$&");
  const inText = (said) => JSON.stringify(said).slice(1, -1);
  const places = `(\\\\?"(?:model|id)\\\\?": ?\\\\?")${name}(?=\\\\?")|(Valid aliases: )${name}(?=\\.)|(")${name}(?= is not a multimodal model)`;
  return line.replace(new RegExp(places, "g"), (_, ...found) => {
    const before = found.slice(0, 3).join("");
    return before + (before.includes("\\") ? inText(inText(model)) : inText(model));
  });
}
const absentAsNull = (value) => (value === undefined ? null : value);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// ---- comparing -----------------------------------------------------------------------------------------------------

const masked = (text) => text.replace(/(?<![0-9a-f])(?:[89ab][0-9a-f]{15}|[0-9a-f]{32})(?![0-9a-f])/g, "*");
const digitless = (id) => id.replace(/[0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]*)/g, "*");
// An error says "<path>" for a name of the model that is a path, or for part of it.
const anonymous = (said) => (typeof said !== "string" ? said : said.replace(/(?<=cmpl-|resp_)[0-9a-f]{8,}/g, "*")
  .replace(/(?<=Valid aliases: )\S*<path>\S*$|^\S*<path>\S*(?= is not a multimodal model)/, (_, at) => model + (at ? "." : "")));
const same = (want, got) => absentAsNull(want) === absentAsNull(got);
const rules = {
  anything: () => true,
  identifier: (want, got) =>
    typeof want === "string" && typeof got === "string" ? masked(want) === masked(got) : same(want, got),
  requestId: (want, got) =>
    rules.identifier(want, got) || [want, got].every((id) => typeof id === "string") && digitless(want) === digitless(got),
  callId: (want, got) => rules.identifier(want, got) || [want, got].every((id) => /^[A-Za-z0-9]{9}$/.test(id)),
  timestamp: (want, got) => Number.isInteger(got) && got > 0,
  text: (want, got) => (want ?? "") === (got ?? ""),
  logprob: (want, got) =>
    typeof want === "number" && typeof got === "number"
      ? Math.abs(want - got) <= Math.max(1e-3, 1e-3 * Math.max(Math.abs(want), Math.abs(got)))
      : same(want, got),
  unlessNull: (want, got) => absentAsNull(got) === null || equal(want, got),
  state: (want, got) => Boolean(got?.parser_state) || !difference(want, got, { "last_tool_call_ids[*]": rules.callId }, false),
  number: (want, got) => typeof got === "number",
  sameLength: (want, got) => (Array.isArray(want) && Array.isArray(got) ? want.length === got.length : equal(want, got)),
};
const equal = (want, got) => difference(want, got, {}, true) === null;

// Paths have [*] for any index: choices[*].message.content
const LOGPROBS = {
  "choices[*].logprobs.content[*].logprob": rules.logprob,
  "choices[*].logprobs.content[*].top_logprobs[*].logprob": rules.logprob,
};
const CREATED = { created: rules.timestamp, "data[*].created": rules.timestamp, "data[*].permission[*].created": rules.timestamp,
  "data[*].permission[*].id": rules.anything, "data[*].root": rules.anything, version: rules.anything };
const HTTP = { ...CREATED, id: rules.identifier, request_id: rules.identifier, stream_state: rules.state,
  "choices[*].message.tool_calls[*].id": rules.callId, "chunk.created": rules.timestamp, "chunk.id": rules.identifier,
  "chunk.choices[*].delta.tool_calls[*].id": rules.callId, ...LOGPROBS,
  ...Object.fromEntries(Object.entries(LOGPROBS).map(([path, rule]) => [`chunk.${path}`, rule])) };
const GENERATED = { request_id: rules.identifier, "choices[*].logprobs.content[*].logprob": rules.number,
  "choices[*].logprobs.content[*].rank": rules.anything, "choices[*].logprobs.content[*].top_logprobs": rules.sameLength };
// An engine's routes: which tokens were likely, and how likely, is the engine's affair. Behind [*][*] are events.
const ENGINE = { ...CREATED, prompt_logprobs: rules.sameLength, ...GENERATED,
  ...Object.fromEntries(Object.entries(GENERATED).map(([path, rule]) => [`[*][*].${path}`, rule])) };
const RENDER = { request_id: rules.requestId, "[*].request_id": rules.requestId,
  prompt_text: rules.anything, "[*].prompt_text": rules.anything };
const BATCH = { system_fingerprint: rules.anything,
  created: rules.timestamp, "choices[*].message.tool_calls[*].id": rules.callId, ...LOGPROBS };
const STREAM = { "choices[*].message.content": rules.text, "choices[*].message.reasoning": rules.text,
  "choices[*].message.tool_calls[*].id": rules.callId, ...LOGPROBS };

// The first place where `got` is not what is wanted, null where there is none. `alike` may allow a difference.
function difference(want, got, special, nullIsAbsent, path = "", alike = () => false) {
  const rule = special[path];
  if (rule) return rule(want, got) ? null : { path, want, got };
  if (isObject(want) && isObject(got)) {
    for (const key of new Set([...Object.keys(want), ...Object.keys(got)])) {
      const found = difference(want[key], got[key], special, nullIsAbsent, path ? `${path}.${key}` : key, alike);
      if (found) return found;
    }
    return null;
  }
  if (Array.isArray(want) && Array.isArray(got) && want.length === got.length) {
    for (let at = 0; at < want.length; at++) {
      const found = difference(want[at], got[at], special, nullIsAbsent, `${path}[*]`, alike);
      if (found) return found;
    }
    return null;
  }
  return (nullIsAbsent ? same(want, got) : want === got) || alike(path, want, got) ? null : { path, want, got };
}

// Two answers: with other statuses, errors, or compared as `difference` does.
const answerDifference = (wantStatus, want, gotStatus, got, ...how) =>
  wantStatus !== gotStatus || wantStatus >= 400
    ? errorDifference(wantStatus, want, gotStatus, got) : difference(want, got, ...how);

// Answers that are errors: status, type, param and message count; of two schema errors neither the message nor how much
// of the way to the place is said; beside a 200 the status alone.
function errorDifference(wantStatus, want, gotStatus, got) {
  if (wantStatus !== gotStatus) return { path: "status", want: wantStatus, got: gotStatus };
  const [left, right] = [want, got].map((body) => (isObject(body?.error) ? body.error : { message: JSON.stringify(body) }));
  const schema = left.type === "Bad Request" && right.type === "Bad Request";
  const prose = schema || /^(\d+ validation errors? for |invalid conversation JSON: )/.test(String(left.message));
  for (const key of prose ? ["type"] : ["type", "param", "message"])
    if (!same(anonymous(left[key]), anonymous(right[key]))) return { path: key, want: left[key], got: right[key] };
  if (!prose) return null;
  const places = [left.param, ...[...String(left.message).matchAll(/'loc': '([^']*)'/g)].map((found) => found[1])];
  return places.some((place) => samePlace(place, right.param)) ? null : { path: "param", want: left.param, got: right.param };
}

function samePlace(want, got) {
  if (typeof want !== "string" || typeof got !== "string") return same(want, got);
  const way = got.split(".");
  let at = 0;
  for (const segment of want.split(".").filter((one) => !/^\p{Lu}/u.test(one))) {
    at = way.indexOf(segment, at) + 1;
    if (at === 0) return false;
  }
  return true;
}

// ---- a stream put together -----------------------------------------------------------------------------------------

function assembled(chunks) {
  const answer = { prompt_token_ids: null, choices: [], usage: null };
  const choices = new Map();
  for (const chunk of chunks) {
    answer.prompt_token_ids = chunk.prompt_token_ids ?? answer.prompt_token_ids;
    answer.usage = chunk.usage ?? answer.usage;
    for (const news of chunk.choices) {
      if (!choices.has(news.index))
        choices.set(news.index, { index: news.index, logprobs: null, finish_reason: null, stop_reason: null, token_ids: null });
      addTo(choices.get(news.index), news);
    }
  }
  answer.choices = [...choices.values()].sort((a, b) => a.index - b.index);
  return answer;
}

function addTo(choice, news) {
  if (news.delta) {
    const message = (choice.message ??= { role: null, content: "", reasoning: "", tool_calls: [] });
    message.role ??= news.delta.role ?? null;
    message.content += news.delta.content ?? "";
    message.reasoning += news.delta.reasoning ?? "";
    for (const call of news.delta.tool_calls ?? []) {
      const known = (message.tool_calls[call.index] ??= {
        id: call.id, type: call.type, function: { name: call.function.name, arguments: "" } });
      known.function.arguments += call.function?.arguments ?? "";
    }
  } else {
    choice.text = (choice.text ?? "") + (news.text ?? "");
  }
  if (news.logprobs) {
    choice.logprobs ??= {};
    for (const [key, value] of Object.entries(news.logprobs))
      choice.logprobs[key] = Array.isArray(value) ? [...(choice.logprobs[key] ?? []), ...value] : (choice.logprobs[key] ?? value);
  }
  if (news.token_ids) choice.token_ids = [...(choice.token_ids ?? []), ...news.token_ids];
  if (news.prompt_token_ids) choice.prompt_token_ids = news.prompt_token_ids;
  if (news.finish_reason != null) [choice.finish_reason, choice.stop_reason] = [news.finish_reason, news.stop_reason ?? null];
}

// What stands around the news of a chunk, by what has it: all keys that vLLM writes.
const KEYS = {
  chunk: "id object created model choices usage system_fingerprint prompt_token_ids prompt_text kv_transfer_params metrics",
  choice: "index delta text logprobs finish_reason stop_reason token_ids prompt_token_ids weight_versions",
  delta: "role content reasoning tool_calls", call: "index id type function", function: "name arguments" };

// Chunks of another answer or model, of no time, or with keys of their own.
function envelopeDifference(chunks, id) {
  for (const chunk of chunks) {
    const found = difference({ id, model, created: 1 }, { id: chunk.id, model: chunk.model, created: chunk.created }, { "chunk.created": rules.timestamp }, true, "chunk");
    if (found) return found;
    const calls = chunk.choices.flatMap((choice) => choice.delta?.tool_calls ?? []);
    const parts = { chunk: [chunk], choice: chunk.choices, delta: chunk.choices.map((choice) => choice.delta ?? {}), call: calls,
      function: calls.map((call) => call.function ?? {}) };
    for (const [kind, ones] of Object.entries(parts))
      for (const key of ones.flatMap(Object.keys))
        if (!KEYS[kind].split(" ").includes(key)) return { path: `${kind}.${key}`, want: "no such key", got: key };
  }
  return null;
}

const events = (sse) =>
  sse.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6))
    .filter((data) => data !== "[DONE]").map((data) => JSON.parse(data));

// ---- asking --------------------------------------------------------------------------------------------------------

const [given, server, golden = fileURLToPath(new URL("../../", import.meta.url))] = process.argv.slice(2);
const url = given?.replace(/\/+$/, "");

// What an engine does not notice: by field, the values that mean what its absence means.
let defaults = {};
// How many tokens prompt and answer may have together.
let window;

// Says whether two values in a rendered request mean the same to an engine.
const alikeIn = (rendered) => (path, want, got) => {
  const field = path.replace(/^\[\*\]\.?/, "");
  const same = [undefined, ...(defaults[field] ?? [])];
  // Without a limit an engine generates until its window is full.
  if (field === "sampling_params.max_tokens")
    same.push(...[rendered].flat().map((prompt) => window - prompt.token_ids.length));
  const texts = same.map((value) => JSON.stringify(value));
  return [want, got].every((value) => texts.includes(JSON.stringify(value)));
};

// A body that is no JSON is its text. A connection that was closed is opened again, once: it may have been idle too long. A
// call without an answer fails its check, as long as others are answered.
let late = 0;
async function ask(path, options, again = true) {
  try {
    const answer = await fetch(url + path, { redirect: "manual", ...options, signal: AbortSignal.timeout(TIMEOUT) });
    const text = await answer.text();
    let body = text;
    try { body = JSON.parse(text); } catch { /* no JSON */ }
    return { status: answer.status, headers: answer.headers, body };
  } catch (error) {
    const timedOut = error.name === "TimeoutError";
    if (again && !timedOut) return ask(path, options, false);
    late += timedOut;
    const why = `${url}${path}: ${error.cause?.message || error.cause?.code || error.message}`;
    if (path === "/v1/models" || late >= LATE) throw new Unaskable(why);
    await ask("/v1/models");
    throw new Error(`no answer: ${why}`);
  }
}

const post = (path, body) => postText(path, JSON.stringify(body));
const postText = (path, body) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });

// A body that lacks everything is a 400 where there is such a route.
const LACKING = [404, 405, 501];
const known = new Map();
async function offers(path, method = "POST") {
  const key = `${method} ${path}`;
  if (!known.has(key)) known.set(key, !LACKING.includes((await (method === "POST" ? post(path, {}) : ask(path, { method }))).status));
  return known.get(key);
}

const NOT_OFFERED = Symbol("not offered");

// What a check finds. An answer of another form, nested too deeply, or none is a difference.
async function judged(check) {
  try {
    const found = await check();
    JSON.stringify(found);
    return found;
  } catch (error) {
    if (error instanceof Unaskable) throw error;
    return { path: "", want: "an answer of the recorded form", got: error.message };
  }
}

// Any route, asked as the case has it.
async function httpDifference(one, recording) {
  const { method, path, headers, text } = one.request;
  const sent = source(one.sent, "json") ?? text;
  const answer = await ask(path, { method, headers: headers ?? (sent === undefined ? {} : { "Content-Type": "application/json" }),
    body: sent && Buffer.from(sent) }); // a string would be given a content type
  const [want, got] = [[recording.body, recording.headers["content-type"]], [answer.body, answer.headers.get("content-type")]]
    .map(([body, type]) => (type?.startsWith("text/event-stream") ? eventsByChoice(body) : body));
  let found = answerDifference(recording.status, want, answer.status, got, server === "engine" ? ENGINE : HTTP, false, "",
    path.endsWith("/render") ? alikeIn(recording.body) : undefined);
  for (const [name, value] of Object.entries(recording.headers)) {
    const header = answer.headers.get(name);
    if (header?.split(";")[0] !== value.split(";")[0]) found ??= { path: `header ${name}`, want: value, got: header };
  }
  return found && LACKING.includes(answer.status) && !(await offers(path, method)) ? NOT_OFFERED : found;
}

// In what order choices take turns does not count.
function eventsByChoice(sse) {
  const found = {};
  for (const event of events(sse)) (found[event.choices?.[0]?.index ?? "none"] ??= []).push(event);
  return Object.values(found);
}

// Yields [check, NOT_OFFERED or a difference or null].
async function* replay(one, recording) {
  if (one.api === "http") {
    yield ["http", await judged(() => httpDifference(one, recording))];
    return;
  }
  const path = PATHS[one.api];
  yield ["render", await judged(async () => {
    if (!(await offers(`${path}/render`))) return NOT_OFFERED;
    const { status, body } = await postText(`${path}/render`, one.sent);
    return answerDifference(recording.status, recording.render, status, body, RENDER, false, "", alikeIn(recording.render));
  })];
  if (recording.generate === undefined) return;

  let offered = false;
  const chat = one.api === "chat";
  const ids = recording.prompt_token_ids;
  const generated = chat ? recording.generate : recording.generate[0];
  const common = { model: one.request.model, [`${one.api}_request`]: one.request };
  yield ["batch", await judged(async () => {
    offered = await offers(`${path}/derender`);
    if (!offered) return NOT_OFFERED;
    const { status, body } = await post(`${path}/derender`, chat
      ? { ...common, prompt_token_ids: ids, prompt_tokens: ids.length, generate_response: generated }
      : { ...common, prompt_token_ids: ids, prompt_tokens: ids.map((prompt) => prompt.length), generate_responses: recording.generate });
    const witness = recording.batch ? { status: 200, body: recording.batch } : recording.derender_batch;
    // The id is that of what was generated; a coupled server has one of its own.
    const want = witness.status === 200 ? { ...witness.body, id: generated.request_id, model } : witness.body;
    return answerDifference(witness.status, want, status, body, BATCH, true);
  })];
  // Of several prompts each has a stream of its own.
  if (offered && (chat || recording.generate.length === 1))
    yield ["stream", await judged(() => streamDifference(one, recording, common))];
}

async function streamDifference(one, recording, common) {
  const chat = one.api === "chat";
  const path = `${PATHS[one.api]}/derender`;
  const [prompt, { request_id }, sse] = ["prompt_token_ids", "generate", "generate_sse"]
    .map((key) => (chat ? recording[key] : recording[key][0]));
  const states = new Map(); // a choice of n has a state of its own
  const chunks = [];
  let refused = null;
  for (const event of events(sse)) {
    const index = event.choices[0]?.index ?? 0;
    const answer = await post(path, { ...common, stream: true, prompt_token_ids: prompt,
      prompt_tokens: prompt.length, generate_chunk: event, stream_state: states.get(index) ?? null });
    if (answer.status !== 200) { refused = answer; break; }
    if (!Array.isArray(answer.body?.chunk?.choices)) return { path: "chunk.choices", want: "a list", got: answer.body };
    states.set(index, answer.body.stream_state);
    chunks.push(answer.body.chunk);
  }
  const theirs = recording.stream ? { status: 200, chunks: recording.stream } : recording.derender_stream;
  const want = theirs.chunks.map((chunk) => chunk.chunk ?? chunk);
  if (refused || theirs.status >= 400)
    return errorDifference(theirs.status, want.at(-1), refused?.status ?? 200, refused?.body ?? {});
  // What a choice's own stream cannot know: the reasoning tokens of all choices together.
  const special = one.request.n > 1 ? { ...STREAM, "usage.completion_tokens_details": rules.unlessNull } : STREAM;
  return difference(assembled(want), assembled(chunks), special, true) ?? envelopeDifference(chunks, request_id);
}

async function main() {
  if (!server) throw new Unaskable("usage: node run.mjs URL SERVER [GOLDEN]");
  const paths = [`${golden}/cases/${server}.jsonl`, `${golden}/recorded/${REFERENCE}/${server}.jsonl`];
  for (const path of paths)
    if (!existsSync(path)) throw new Unaskable(`no configuration ${server}: there is no ${path}`);
  defaults = JSON.parse(readFileSync(`${golden}/defaults.json`, "utf8"));
  const models = await ask("/v1/models");
  if (models.status !== 200 || !models.body?.data?.[0]?.id)
    throw new Unaskable(`${url}/v1/models, ${models.status}, does not say which model is served`);
  ({ id: model, max_model_len: window } = models.body.data[0]);
  const [cases, recorded] = paths.map(lines);
  const names = cases.map((line) => JSON.parse(line).request).map(({ json, model }) => json?.model ?? model)
    .filter((name) => typeof name === "string").sort();
  recordedModel = names[names.length >> 1] ?? model; // the one that most requests have
  const recordings = new Map(recorded.map((line) => JSON.parse(renamed(line))).map((one) => [one.id, one]));

  const counts = { ok: 0, different: 0, notOffered: 0 };
  for (const line of cases.map(renamed)) {
    const one = { ...JSON.parse(line), sent: source(line, "request") };
    if (!(one.api in PATHS) && one.api !== "http") continue;
    if (!recordings.has(one.id)) throw new Unaskable(`${one.id}: nothing is recorded`);
    for await (const [check, found] of replay(one, recordings.get(one.id))) {
      const offered = found !== NOT_OFFERED;
      counts[!offered ? "notOffered" : found ? "different" : "ok"]++;
      const why = offered ? found && { difference: found } : { offered };
      console.log(JSON.stringify({ id: one.id, check, ok: !found, ...why }));
    }
  }
  console.error(`${url} as ${server}: ${counts.ok} checks equal, ${counts.different} different` +
    (counts.notOffered ? `, ${counts.notOffered} not offered by the server` : ""));
  return counts.different ? 1 : counts.notOffered ? 2 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof Unaskable)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
