/** @jest-environment node */

import { FrameParser, frames, SilentStream } from './sse';

const STREAM =
  'id: 1\nevent: text\ndata: {"a": 1}\n\n: still here\n\nid: 2\r\ndata: one\r\ndata: two\r\n\r\n';
const FRAMES = [
  { id: '1', data: '{"a": 1}' },
  { id: '2', data: 'one\ntwo' }
];

describe('events of a stream', () => {
  it('are read whole', () => {
    expect(new FrameParser().feed(STREAM)).toEqual(FRAMES);
  });

  it('are the same wherever the stream is cut into pieces', () => {
    for (let size = 1; size < STREAM.length; size++) {
      const parser = new FrameParser();
      const frames = [];
      for (let at = 0; at < STREAM.length; at += size) {
        frames.push(...parser.feed(STREAM.slice(at, at + size)));
      }
      expect(frames).toEqual(FRAMES);
    }
  });

  it('are not there before their empty line', () => {
    expect(new FrameParser().feed('data: half\n')).toEqual([]);
  });

  it('are as much work as they are long, in however many pieces a line comes', () => {
    const MB = 2 ** 20;
    const parser = new FrameParser();
    const piece = 'x'.repeat(64 * 1024);
    const looks = jest.spyOn(RegExp.prototype, 'exec');
    const splits = jest.spyOn(String.prototype, 'split');
    parser.feed('data: ');
    for (let size = 0; size < 20 * MB; size += piece.length) {
      parser.feed(piece);
    }
    const [frame] = parser.feed('\n\n');
    const looked = looks.mock.calls.reduce((sum, [text]) => sum + text.length, 0);
    const split = (splits.mock.contexts as unknown as string[]).reduce(
      (sum, text) => sum + text.length,
      0
    );
    looks.mockRestore();
    splits.mockRestore();
    expect(frame?.data.length).toBe(20 * MB);
    // Once for the ends of lines, once for the name before the colon.
    expect(looked + split).toBeLessThan(41 * MB);
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
    const all = async (): Promise<void> => {
      for await (const frame of frames(response, 60)) {
        expect(frame).toBeUndefined();
      }
    };
    await expect(all()).rejects.toBeInstanceOf(SilentStream);
    expect(beats).toBe(5);
  });
});
