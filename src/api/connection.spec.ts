import type { ServerConnection } from '@jupyterlab/services';

import { Connection, LATE, SILENCE } from './connection';

/** A WebSocket that the test controls. */
class Socket {
  static readonly made: Socket[] = [];
  static readonly OPEN = 1;

  constructor(readonly url: string) {
    Socket.made.push(this);
  }

  readyState = 0;
  closed: number | null = null;
  onopen: () => void = () => undefined;
  onclose: () => void = () => undefined;
  onmessage: (event: { data: string }) => void = () => undefined;

  open(): void {
    this.readyState = 1;
    this.onopen();
  }

  receive(message: object): void {
    this.onmessage({ data: JSON.stringify(message) });
  }

  /** The other end may never answer. */
  close(code: number): void {
    this.closed = code;
    this.readyState = 2;
  }

  send(): void {
    // Nobody reads it.
  }
}

describe('the connection of a page', () => {
  let connection: Connection;
  let received: string[];
  const last = (): Socket => Socket.made.at(-1) as Socket;

  beforeEach(() => {
    jest.useFakeTimers();
    Object.assign(window, { WebSocket: Socket });
    Socket.made.length = 0;
    const settings = { wsUrl: 'ws://localhost/', appendToken: false, token: '' };
    const made = { ...settings, WebSocket: Socket } as unknown as ServerConnection.ISettings;
    connection = new Connection(made, 'c'.repeat(16));
    received = [];
    connection.opened.connect(() => received.push('opened'));
    connection.lost.connect(() => received.push('lost'));
    connection.received.connect((_, message) => received.push(JSON.stringify(message)));
    connection.open();
    last().open();
  });

  afterEach(() => {
    connection.dispose();
    jest.useRealTimers();
  });

  it('stays open while messages or heartbeats arrive', () => {
    for (let beat = 0; beat < 10; beat++) {
      jest.advanceTimersByTime(SILENCE * 0.9);
      last().receive({ heartbeat: true });
    }
    expect([connection.isOpen, Socket.made.length]).toEqual([true, 1]);
  });

  it('is lost after a silence without a close frame, and opened again', () => {
    jest.advanceTimersByTime(SILENCE + 1000);
    const [first, second] = Socket.made as [Socket, Socket];
    expect(first.closed).toBe(4000);
    second.open();
    first.receive({ late: true });
    first.onclose();
    expect(received).toEqual(['opened', 'lost', 'opened']);
    expect(connection.isOpen).toBe(true);
  });

  it('is dropped with all that came late, whatever the clock of the server', () => {
    const server = Date.now() - 3_600_000;
    last().receive({ listed: 1, sent: server });
    jest.setSystemTime(Date.now() + LATE);
    last().receive({ id: 1, sent: server });
    expect(received.at(-1)).toBe(`{"id":1,"sent":${server}}`);
    // The page is suspended: what was sent in that time arrives before the end of the connection.
    jest.setSystemTime(Date.now() + 1);
    last().receive({ id: 2, sent: server });
    last().receive({ id: 3, sent: Date.now() - 3_600_000 });
    expect(received.slice(2)).toEqual([received[2], 'lost']);
    jest.advanceTimersByTime(1000);
    last().open();
    last().receive({ id: 4, sent: server });
    expect(received.at(-1)).toBe(`{"id":4,"sent":${server}}`);
  });

  it('is lost when the browser goes offline, and opened when it is online', () => {
    window.dispatchEvent(new Event('offline'));
    expect(received).toEqual(['opened', 'lost']);
    expect(connection.send({})).toBe(false);
    window.dispatchEvent(new Event('online'));
    expect(Socket.made).toHaveLength(2);
  });

  const STATES: [string, (socket: Socket) => void][] = [
    ['opening', () => undefined],
    ['open', socket => socket.open()],
    ['closing', socket => socket.close(1001)]
  ];

  it.each(STATES)('is given up after a silence in each state: %s', (_, reach) => {
    jest.advanceTimersByTime(SILENCE + 1000);
    const silent = last();
    reach(silent);
    jest.advanceTimersByTime(SILENCE + 1000);
    expect([silent.closed, Socket.made.length]).toEqual([4000, 3]);
    silent.open();
    expect(connection.isOpen).toBe(false);
    last().open();
    expect(received.slice(-2)).toEqual(['lost', 'opened']);
  });

  it.each(STATES)('is opened again at once on request, if it is not open: %s', (state, reach) => {
    last().onclose();
    jest.advanceTimersByTime(1000);
    reach(last());
    connection.retry();
    expect(Socket.made).toHaveLength(state === 'open' ? 2 : 3);
    jest.advanceTimersByTime(1000);
    expect(Socket.made).toHaveLength(state === 'open' ? 2 : 3);
  });

  it('is retried with exponential backoff', () => {
    const tries: number[] = [];
    for (let round = 0; round < 8; round++) {
      last().onclose();
      const before = Socket.made.length;
      let waited = 0;
      while (Socket.made.length === before) {
        jest.advanceTimersByTime(50);
        waited += 50;
      }
      tries.push(waited);
    }
    expect(tries[0]).toBeLessThan(400);
    expect(tries.at(-1)).toBeGreaterThan(3000);
    expect(Math.max(...tries)).toBeLessThan(7000);
  });
});
