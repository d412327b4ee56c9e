/** @jest-environment node */

import { firstEvent, SilentStream } from './sse';

const STREAM =
  ': a comment\n\nid: 1\r\nevent: message\r\ndata: {"a": 1}\r\n\r\nid: 2\ndata: {"b": 2}\n\n';

/** A response that comes in these pieces; whether the rest of it was given up. */
function inPieces(...pieces: string[]): { response: Response; cancelled: () => boolean } {
  const encoder = new TextEncoder();
  let cancelled = false;
  const response = new Response(
    new ReadableStream({
      pull: controller => {
        const piece = pieces.shift();
        if (piece === undefined) {
          controller.close();
        } else {
          controller.enqueue(encoder.encode(piece));
        }
      },
      cancel: () => {
        cancelled = true;
      }
    })
  );
  return { response, cancelled: () => cancelled };
}

describe('the first event of a stream', () => {
  it('is read, and no more', async () => {
    const { response, cancelled } = inPieces(STREAM, STREAM, STREAM);
    expect(await firstEvent(response)).toBe('{"a": 1}');
    expect(cancelled()).toBe(true);
  });

  it('is the same wherever the stream is cut into pieces', async () => {
    for (let size = 1; size < STREAM.length; size++) {
      const pieces = STREAM.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
      expect(await firstEvent(inPieces(...pieces).response)).toBe('{"a": 1}');
    }
  });

  it('is not there before its empty line', async () => {
    expect(await firstEvent(inPieces('data: half\n').response)).toBeNull();
  });
});

describe('a stream that says nothing', () => {
  it('is taken for dead when heartbeats are missed, and not while they come', async () => {
    const encoder = new TextEncoder();
    let beats = 0;
    const read = async (): Promise<object> => {
      if (beats++ < 4) {
        await new Promise(resolve => setTimeout(resolve, 20));
        return { done: false, value: encoder.encode(': still here\n\n') };
      }
      return new Promise(() => undefined);
    };
    const cancel = (): Promise<void> => new Promise(() => undefined);
    const response = { body: { getReader: () => ({ read, cancel }) } } as unknown as Response;
    await expect(firstEvent(response, 60)).rejects.toBeInstanceOf(SilentStream);
    expect(beats).toBe(5);
  });
});
