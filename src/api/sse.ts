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
 * Comments (which keep the line alive) are left out. Each piece is looked through once, however long
 * the line is that it belongs to: pictures make lines of megabytes.
 */
export class FrameParser {
  /** The events that this piece completes. */
  feed(piece: string): IFrame[] {
    const frames: IFrame[] = [];
    const ends = /\r\n|\n|\r/g;
    // The rest of a line's end that began in the piece before.
    let begin = this._returned && piece.startsWith('\n') ? 1 : 0;
    ends.lastIndex = begin;
    for (let end = ends.exec(piece); end !== null; end = ends.exec(piece)) {
      const line = [...this._begun, piece.slice(begin, end.index)].join('');
      this._begun = [];
      begin = ends.lastIndex;
      if (line !== '') {
        this._line(line);
      } else {
        if (this._data.length > 0) {
          frames.push({ id: this._id, data: this._data.join('\n') });
        }
        this._data = [];
      }
    }
    if (piece !== '') {
      this._begun.push(piece.slice(begin));
      this._returned = piece.endsWith('\r');
    }
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
  private _returned = false;
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
