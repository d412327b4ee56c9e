import { type IHeld, Lines, MAX_HIDDEN, MAX_LINES, type Need, SLICE } from './lines';

/** Somebody who listens whenever there is a line for them. */
class Listener {
  constructor(
    readonly lines: Lines,
    public need: Need
  ) {
    void this._listen();
  }

  held: IHeld | null = null;
  readonly over = new AbortController();

  private async _listen(): Promise<void> {
    while (!this.over.signal.aborted) {
      this.held = await this.lines.take(() => this.need, this.over.signal);
      const { held } = this;
      if (held !== null) {
        await new Promise<void>(resolve => held.signal.addEventListener('abort', () => resolve()));
        this.held = null;
        held.giveBack();
      }
    }
  }
}

/** Lets everything happen that needs no time. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await Promise.resolve();
  }
}

describe('the lines of a page', () => {
  let hidden: boolean;
  let lines: Lines;

  beforeEach(() => {
    jest.useFakeTimers();
    hidden = false;
    jest.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden);
    lines = new Lines();
  });

  afterEach(() => {
    jest.useRealTimers();
    jest.restoreAllMocks();
  });

  const all = (...needs: Need[]): Listener[] => needs.map(need => new Listener(lines, need));
  const names = (listeners: Listener[]): number[] =>
    listeners.flatMap((each, place) => (each.held === null ? [] : [place]));

  it('are few, however many listen, and go to who waits when one is given back', async () => {
    const listeners = all('next', 'next', 'next', 'next', 'next', 'next');
    await settled();
    expect(names(listeners)).toEqual([0, 1, 2, 3]);
    listeners[1]?.over.abort();
    await settled();
    expect(names(listeners)).toEqual([0, 2, 3, 4]);
    // Who waits and wants none any more gets none.
    listeners[5]?.over.abort();
    listeners[0]?.over.abort();
    await settled();
    expect(names(listeners)).toEqual([2, 3, 4]);
  });

  it('are taken at once by who is in front of the person', async () => {
    const others = all('next', 'next', 'next', 'next');
    await settled();
    const first = all('first', 'first');
    await settled();
    expect([names(first), names(others)]).toEqual([
      [0, 1],
      [2, 3]
    ]);
  });

  it('are had by everybody in turns, whoever comes first', async () => {
    const listeners = all('first', 'first', 'first', 'first', 'first', 'next', 'next', 'next');
    const had = new Map<number, number>();
    for (let slice = 0; slice < 40; slice++) {
      await settled();
      const now = names(listeners);
      expect(now).toHaveLength(MAX_LINES);
      now.forEach(place => had.set(place, (had.get(place) ?? 0) + 1));
      jest.advanceTimersByTime(SLICE);
    }
    expect(had.size).toBe(listeners.length);
    expect(Math.min(...had.values())).toBeGreaterThanOrEqual(4);
  });

  it('stay where they are while nobody waits', async () => {
    const listeners = all('first', 'next');
    await settled();
    const held = listeners.map(each => each.held);
    jest.advanceTimersByTime(10 * SLICE);
    await settled();
    expect(listeners.map(each => each.held)).toEqual(held);
    expect(jest.getTimerCount()).toBe(0);
  });

  it('are for those alone who are to tell of something in a page that nobody looks at', async () => {
    const listeners = all('first', 'first', 'next', 'next');
    await settled();
    listeners.forEach(each => (each.need = 'none'));
    (listeners[2] as Listener).need = 'next';
    (listeners[3] as Listener).need = 'next';
    hidden = true;
    document.dispatchEvent(new Event('visibilitychange'));
    await settled();
    expect(names(listeners)).toEqual([3]);
    expect(MAX_HIDDEN).toBe(1);
    // They go round, and all are there again when somebody looks.
    jest.advanceTimersByTime(SLICE);
    await settled();
    expect(names(listeners)).toEqual([2]);
    hidden = false;
    listeners.forEach(each => (each.need = 'next'));
    document.dispatchEvent(new Event('visibilitychange'));
    await settled();
    expect(names(listeners)).toEqual([0, 1, 2, 3]);
  });
});
