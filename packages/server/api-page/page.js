/**
 * Shows the document of the server that this page came from, with a form to try each operation. The token
 * stays in the page; whatever comes from the server is shown as text.
 */
const list = document.querySelector("#operations");
const token = document.querySelector("#token");

function element(name, text = "", ...children) {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  made.append(...children);
  return made;
}

function field(label, about, input) {
  return element("label", "", element("code", label), ` ${about ?? ""}`, input);
}

/** A value that fits a schema, to start from. */
function example(schema = {}) {
  const [type] = [schema.type].flat();
  if (type === "object") {
    const required = schema.required ?? [];
    const fields = Object.entries(schema.properties ?? {}).filter(([name]) =>
      required.includes(name),
    );
    return Object.fromEntries(fields.map(([name, each]) => [name, example(each)]));
  }
  if (type === "array") return schema.minItems ? [example(schema.items)] : [];
  if (type === "integer" || type === "number") return schema.minimum ?? 0;
  return type === "boolean" ? false : "hello";
}

function formOf({ path, method, operation }) {
  const inputs = (operation.parameters ?? []).map((parameter) => ({
    parameter,
    input: element("input"),
  }));
  const schema = operation.requestBody?.content["application/json"]?.schema;
  const body = schema === undefined ? undefined : element("textarea");
  if (body !== undefined) body.value = JSON.stringify(example(schema), undefined, 2);
  const answer = element("pre");
  const send = element("button", "Send");
  const form = element(
    "form",
    "",
    ...inputs.map(({ parameter, input }) => field(parameter.name, parameter.description, input)),
    ...(body === undefined ? [] : [field("body", "JSON", body)]),
    send,
    answer,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer.textContent = "Waiting for the answer.";
    ask({ path, method, inputs, body }).then(
      (text) => {
        answer.textContent = text;
      },
      (error) => {
        answer.textContent = String(error);
      },
    );
  });
  return form;
}

async function ask({ path, method, inputs, body }) {
  const query = new URLSearchParams();
  let target = path;
  for (const { parameter, input } of inputs) {
    if (parameter.in === "path") {
      target = target.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    } else if (input.value !== "") query.set(parameter.name, input.value);
  }
  const url = query.size === 0 ? target : `${target}?${query}`;
  const reply = await fetch(url, {
    method: method.toUpperCase(),
    headers: token.value === "" ? {} : { authorization: `Bearer ${token.value}` },
    ...(body === undefined ? {} : { body: body.value }),
  });
  const code = reply.headers.get("codeq-error");
  const head = `${reply.status} ${reply.statusText}${code === null ? "" : ` (${code})`}`;
  if (reply.headers.get("content-type")?.startsWith("text/event-stream")) {
    const { value } = await reply.body.pipeThrough(new TextDecoderStream()).getReader().read();
    return `${head}\n${value}\nThe feed goes on; it is closed with this page.`;
  }
  return `${head}\n${pretty(await reply.text())}`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    // Metrics and empty answers are no JSON.
    return text;
  }
}

function section(entry) {
  const { method, path, operation } = entry;
  const refusals = Object.entries(operation.responses).map(([status, { description }]) =>
    element("li", `${status}: ${description}`),
  );
  return element(
    "details",
    "",
    element(
      "summary",
      "",
      element("code", `${method.toUpperCase()} ${path}`),
      ` ${operation.summary}`,
    ),
    element("p", operation.description ?? ""),
    formOf(entry),
    element("h3", "Answers"),
    element("ul", "", ...refusals),
  );
}

const reply = await fetch("/openapi.json");
const { tags, paths } = await reply.json();
const entries = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
list.replaceChildren(
  ...tags.flatMap(({ name, description }) => [
    element("h2", name),
    element("p", description),
    ...entries.filter(({ operation }) => operation.tags.includes(name)).map(section),
  ]),
);
