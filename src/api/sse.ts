/** Milliseconds between two heartbeats of the server, which are comments. */
const HEARTBEAT = 15_000;

/** Milliseconds without a byte after which a stream counts as lost: two missed heartbeats. */
const SILENCE = 2.5 * HEARTBEAT;

/** No byte arrived in time: a proxy may keep a connection open whose server is gone. */
export class SilentStream extends Error {}

/** The data of a complete event, which an empty line ends. */
const DATA = /^data: ?(.*)\r?\n\r?\n/m;

/**
 * Return the data of the first server-sent event of a response; null if the stream ends before.
 *
 * The rest of the stream is not read: later events arrive on the page's channel.
 *
 * @throws SilentStream - No byte arrived for `silence` milliseconds.
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
    // Canceling a lost connection may never settle.
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
