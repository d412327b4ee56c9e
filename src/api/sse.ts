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
 * Comments (which keep the line alive) are left out.
 */
export class FrameParser {
  /** The events that this piece completes. */
  feed(piece: string): IFrame[] {
    const frames: IFrame[] = [];
    this._rest += piece;
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(this._rest);
      if (end === null) {
        return frames;
      }
      const line = this._rest.slice(0, end.index);
      this._rest = this._rest.slice(end.index + end[0].length);
      if (line === '') {
        if (this._data.length > 0) {
          frames.push({ id: this._id, data: this._data.join('\n') });
        }
        this._data = [];
      } else {
        this._line(line);
      }
    }
  }

  private _line(line: string): void {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === 'data') {
      this._data.push(value ?? '');
    } else if (name === 'id') {
      this._id = value ?? '';
    }
  }

  private _rest = '';
  private _id = '';
  private _data: string[] = [];
}

/** The events of a response, until it ends or is cut. */
export async function* frames(response: Response): AsyncGenerator<IFrame, void, undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) {
    return;
  }
  const decoder = new TextDecoder();
  const parser = new FrameParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
