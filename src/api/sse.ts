/** Milliseconds between two heartbeats of the server, which sends a comment where nothing happens. */
const HEARTBEAT = 15_000;

/** Milliseconds without a byte after which a stream is taken for dead: two heartbeats were missed. */
const SILENCE = 2.5 * HEARTBEAT;

/** Nothing came for so long: a proxy may keep a connection open whose server is gone. */
export class SilentStream extends Error {}

/** The data of an event, once its whole line and the empty line after it are there. */
const DATA = /^data: ?(.*)\r?\n\r?\n/m;

/**
 * The data of the first of a response's server-sent events; null where the stream ends before it.
 *
 * The others come on the page's channel: the rest of the stream is not read.
 *
 * @throws SilentStream - no byte came for `silence` milliseconds.
 */
export async function firstEvent(response: Response, silence = SILENCE): Promise<string | null> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const read = await within(reader?.read(), silence);
      if (read?.done !== false) {
        return null;
      }
      text += decoder.decode(read.value, { stream: true });
      const data = DATA.exec(text)?.[1];
      if (data !== undefined) {
        return data;
      }
    }
  } finally {
    // A connection that is dead may not say that it was closed.
    void reader?.cancel().catch(() => undefined);
  }
}

async function within<T>(
  promise: Promise<T> | undefined,
  milliseconds: number
): Promise<T | undefined> {
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
