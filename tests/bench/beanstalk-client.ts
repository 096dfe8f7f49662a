/**
 * A client of beanstalkd's text protocol that costs as little as it can: commands of one turn of the
 * event loop leave in one write, and replies, which come in the order of the commands, go to functions.
 * A reserve holds up everything behind it on its connection until there is a job.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

const lineEnd = "\r\n";
const priority = 0;
const delaySeconds = 0;
/** Longer than any run, so that no job comes back. */
const runSeconds = 3600;

/** Takes the words of the reply and, after RESERVED, the body. */
type Answer = (words: readonly string[], body: string) => void;

export class BeanstalkConnection {
  readonly #socket: Socket;
  readonly #answers: { readonly expected: string; readonly done: Answer }[] = [];
  #answered = 0;
  #outgoing = "";
  #received = "";

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => this.#take(chunk));
    socket.on("close", () => {
      throw new Error("beanstalkd closed a connection");
    });
  }

  static async open(port: number): Promise<BeanstalkConnection> {
    const socket = connect({ host: "127.0.0.1", port, noDelay: true });
    await once(socket, "connect");
    return new BeanstalkConnection(socket);
  }

  put(body: string, done: () => void): void {
    const head = `put ${priority} ${delaySeconds} ${runSeconds} ${body.length}`;
    this.#ask(`${head}${lineEnd}${body}${lineEnd}`, "INSERTED", done);
  }

  reserve(done: (id: string, body: string) => void): void {
    this.#ask(`reserve${lineEnd}`, "RESERVED", ([, id = ""], body) => done(id, body));
  }

  delete(id: string, done: () => void): void {
    this.#ask(`delete ${id}${lineEnd}`, "DELETED", done);
  }

  #ask(command: string, expected: string, done: Answer): void {
    this.#answers.push({ expected, done });
    if (this.#outgoing === "") setImmediate(() => this.#flush());
    this.#outgoing += command;
  }

  #flush(): void {
    this.#socket.write(this.#outgoing, "latin1");
    this.#outgoing = "";
  }

  #take(chunk: string): void {
    const text = this.#received === "" ? chunk : this.#received + chunk;
    let at = 0;
    for (;;) {
      const end = text.indexOf(lineEnd, at);
      if (end < 0) break;
      const words = text.slice(at, end).split(" ");
      let next = end + lineEnd.length;
      let body = "";
      if (words[0] === "RESERVED") {
        const bodyEnd = next + Number(words[2]);
        if (text.length < bodyEnd + lineEnd.length) break;
        body = text.slice(next, bodyEnd);
        next = bodyEnd + lineEnd.length;
      }
      at = next;
      this.#answer(words, body);
    }
    this.#received = text.slice(at);
  }

  #answer(words: readonly string[], body: string): void {
    const answer = this.#answers[this.#answered];
    if (answer === undefined || answer.expected !== words[0]) {
      throw new Error(`beanstalkd said ${words.join(" ")} instead of ${answer?.expected}`);
    }
    this.#answered += 1;
    if (this.#answered === this.#answers.length) {
      this.#answers.length = 0;
      this.#answered = 0;
    }
    answer.done(words, body);
  }
}
