/** Server-sent events, read from a stream as they come. */

/** One event of a stream. */
export interface IFrame {
  /** What `Last-Event-ID` says to go on after it; empty where the server gave none. */
  id: string;
  data: string;
}

/**
 * Puts the pieces of a stream together to events.
 *
 * A piece ends anywhere: in the middle of a line, between the two characters of a line's end.
 * Comments (which keep the line alive) are left out. Each piece is looked through once, however long the line is that it
 * belongs to: pictures make lines of megabytes.
 */
export class FrameParser {
  /** The events that this piece completes. */
  feed(piece: string): IFrame[] {
    const frames: IFrame[] = [];
    const lines = piece.split('\n');
    const rest = lines.pop() ?? '';
    for (const end of lines) {
      const whole = [...this._begun, end].join('');
      const line = whole.endsWith('\r') ? whole.slice(0, -1) : whole;
      this._begun = [];
      if (line !== '') {
        this._line(line);
      } else {
        if (this._data.length > 0) {
          frames.push({ id: this._id, data: this._data.join('\n') });
        }
        this._data = [];
      }
    }
    this._begun.push(rest);
    return frames;
  }

  private _line(line: string): void {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === 'data') {
      this._data.push(value ?? '');
    } else if (name === 'id') {
      this._id = value ?? '';
    }
  }

  /** The pieces of a line whose end has not come. */
  private _begun: string[] = [];
  private _id = '';
  private _data: string[] = [];
}

/** Milliseconds between two heartbeats of the server, which sends a comment where nothing happens. */
const HEARTBEAT = 15_000;

/** Milliseconds without a byte after which a stream is taken for dead: two heartbeats were missed. */
export const SILENCE = 2.5 * HEARTBEAT;

/** Nothing came for so long: a proxy may keep a connection open whose server is gone. */
export class SilentStream extends Error {}

/**
 * The events of a response, until it ends or is cut.
 *
 * @throws SilentStream - no byte came for `silence` milliseconds.
 */
export async function* frames(
  response: Response,
  silence = SILENCE
): AsyncGenerator<IFrame, void, undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) {
    return;
  }
  const decoder = new TextDecoder();
  const parser = new FrameParser();
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), silence);
      if (done) {
        return;
      }
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    // A connection that is dead may not say that it was closed.
    void reader.cancel().catch(() => undefined);
  }
}

async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SilentStream()), milliseconds);
  });
  try {
    return await Promise.race([promise, silent]);
  } finally {
    clearTimeout(timer);
  }
}
