/**
 * Reads the part of the proto3 language that our files use: messages, enums, one level of oneofs,
 * lists, services, imports and `go_package`. Anything else is an error with its line, so that a
 * file never means something that the generated code does not do.
 */
export interface ProtoFile {
  /** As other files import it. */
  readonly name: string;
  readonly package: string;
  readonly imports: readonly string[];
  readonly goPackage: string;
  readonly messages: readonly ProtoMessage[];
  readonly services: readonly ProtoService[];
}

export interface ProtoMessage {
  readonly name: string;
  readonly comment: readonly string[];
  readonly fields: readonly ProtoField[];
  readonly oneofs: readonly string[];
  readonly enums: readonly ProtoEnum[];
}

export interface ProtoField {
  readonly name: string;
  readonly comment: readonly string[];
  readonly number: number;
  readonly type: string;
  readonly repeated: boolean;
  readonly oneof: string | undefined;
}

export interface ProtoEnum {
  readonly name: string;
  readonly values: readonly { readonly name: string; readonly number: number }[];
}

export interface ProtoService {
  readonly name: string;
  readonly methods: readonly ProtoMethod[];
}

export interface ProtoMethod {
  readonly name: string;
  readonly input: string;
  readonly output: string;
  readonly clientStreaming: boolean;
  readonly serverStreaming: boolean;
}

export function parseProto(name: string, source: string): ProtoFile {
  const tokens = new Tokens(name, source);
  const messages: ProtoMessage[] = [];
  const services: ProtoService[] = [];
  const imports: string[] = [];
  let packageName = "";
  let goPackage = "";
  while (!tokens.atEnd()) {
    const comment = tokens.comment();
    const word = tokens.next();
    if (word === "syntax") tokens.expect("=", '"proto3"', ";");
    else if (word === "package") packageName = tokens.until(";");
    else if (word === "import") imports.push(unquote(tokens.until(";")));
    else if (word === "option") {
      tokens.expect("go_package", "=");
      goPackage = unquote(tokens.until(";"));
    } else if (word === "message") messages.push(parseMessage(tokens, comment));
    else if (word === "service") services.push(parseService(tokens));
    else tokens.fail(`${word} is not known here`);
  }
  return { name, package: packageName, imports, goPackage, messages, services };
}

function parseMessage(tokens: Tokens, comment: readonly string[]): ProtoMessage {
  const name = tokens.next();
  const fields: ProtoField[] = [];
  const oneofs: string[] = [];
  const enums: ProtoEnum[] = [];
  tokens.expect("{");
  while (!tokens.skip("}")) {
    const about = tokens.comment();
    if (tokens.skip("enum")) enums.push(parseEnum(tokens));
    else if (tokens.skip("oneof")) {
      const oneof = tokens.next();
      oneofs.push(oneof);
      tokens.expect("{");
      while (!tokens.skip("}")) fields.push(parseField(tokens, tokens.comment(), oneof));
    } else fields.push(parseField(tokens, about, undefined));
  }
  return { name, comment, fields, oneofs, enums };
}

function parseField(
  tokens: Tokens,
  comment: readonly string[],
  oneof: string | undefined,
): ProtoField {
  const repeated = tokens.skip("repeated");
  const type = tokens.next();
  const name = tokens.next();
  tokens.expect("=");
  const number = tokens.number();
  tokens.expect(";");
  return { name, comment, number, type, repeated, oneof };
}

function parseEnum(tokens: Tokens): ProtoEnum {
  const name = tokens.next();
  const values: { name: string; number: number }[] = [];
  tokens.expect("{");
  while (!tokens.skip("}")) {
    tokens.comment();
    const value = tokens.next();
    tokens.expect("=");
    values.push({ name: value, number: tokens.number() });
    tokens.expect(";");
  }
  return { name, values };
}

function parseService(tokens: Tokens): ProtoService {
  const name = tokens.next();
  const methods: ProtoMethod[] = [];
  tokens.expect("{");
  while (!tokens.skip("}")) {
    tokens.comment();
    tokens.expect("rpc");
    const method = tokens.next();
    tokens.expect("(");
    const clientStreaming = tokens.skip("stream");
    const input = tokens.next();
    tokens.expect(")", "returns", "(");
    const serverStreaming = tokens.skip("stream");
    const output = tokens.next();
    tokens.expect(")", ";");
    methods.push({ name: method, input, output, clientStreaming, serverStreaming });
  }
  return { name, methods };
}

const token = /\/\/[^\n]*|"[^"\n]*"|[\w.]+|[{}();=]|\n|[^\s]/g;

class Tokens {
  readonly #file: string;
  readonly #found: readonly RegExpMatchArray[];
  readonly #source: string;
  #position = 0;

  constructor(file: string, source: string) {
    this.#file = file;
    this.#source = source;
    this.#found = [...source.matchAll(token)];
  }

  atEnd(): boolean {
    this.#passLineEnds();
    return this.#position >= this.#found.length;
  }

  /** The lines of comment directly above the next word; those set off by an empty line are not. */
  comment(): string[] {
    let lines: string[] = [];
    let lineEnds = 0;
    for (; this.#position < this.#found.length; this.#position += 1) {
      const text = this.#peek();
      if (text === "\n") {
        lineEnds += 1;
        if (lineEnds > 1) lines = [];
      } else if (text.startsWith("//")) {
        lines.push(text.slice(2).trim());
        lineEnds = 0;
      } else break;
    }
    return lines;
  }

  next(): string {
    this.comment();
    const text = this.#peek();
    this.#position += 1;
    return text;
  }

  number(): number {
    const text = this.next();
    if (!/^\d+$/.test(text)) this.fail(`${text} is not a number`);
    return Number(text);
  }

  until(end: string): string {
    const text = this.next();
    this.expect(end);
    return text;
  }

  expect(...words: readonly string[]): void {
    for (const word of words) {
      const text = this.next();
      if (text !== word) this.fail(`expected ${word}, found ${text}`);
    }
  }

  /** Whether the next word is this one, which is then passed. A comment before another stays. */
  skip(word: string): boolean {
    const before = this.#position;
    if (this.next() === word) return true;
    this.#position = before;
    return false;
  }

  fail(why: string): never {
    const at = this.#found[Math.max(0, this.#position - 1)]?.index ?? 0;
    const line = this.#source.slice(0, at).split("\n").length;
    throw new Error(`${this.#file}:${line}: ${why}`);
  }

  #peek(): string {
    const found = this.#found[this.#position];
    if (found === undefined) return this.fail("the file ends in the middle");
    return found[0];
  }

  #passLineEnds(): void {
    while (/^(\n|\/\/)/.test(this.#found[this.#position]?.[0] ?? "")) {
      if (this.#restIsBlank()) this.#position = this.#found.length;
      else return;
    }
  }

  #restIsBlank(): boolean {
    return this.#found.slice(this.#position).every(([text]) => /^(\n|\/\/)/.test(text));
  }
}

function unquote(text: string): string {
  return text.replace(/^"|"$/g, "");
}
