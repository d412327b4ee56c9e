import { Token } from '@lumino/coreutils';

/** How many lines a page has at most: a browser allows six connections to a server, for all it asks. */
export const MAX_LINES = 4;
/** Those of a page that nobody looks at. */
export const MAX_HIDDEN = 1;
/** How long somebody waits for a line that others have, in milliseconds. */
export const SLICE = 5000;

/**
 * How much somebody needs a line: `first` what waits for the person in front of them, `next` what
 * may wait a moment, `none` what need not be known now.
 */
export type Need = 'first' | 'next' | 'none';

/** A line that somebody has until they give it back, or it is taken away: `signal` says so. */
export interface IHeld {
  readonly signal: AbortSignal;
  giveBack(): void;
}

/** The page's lines to the server that last: who wants to listen takes one of them. */
export interface ILines {
  /**
   * Waits for a line.
   *
   * @param need - how much it is needed: asked again whenever lines are dealt out.
   * @returns Null where `signal` aborted first.
   */
  take(need: () => Need, signal: AbortSignal): Promise<IHeld | null>;
  /** Deals them out anew: somebody needs one more, or less, than before. */
  deal(): void;
}

export const ILines = new Token<ILines>(
  'tk-ai-extension:ILines',
  'The few lines to the server on which a page hears what happens.'
);

/** Somebody who waits for a line or has one. */
interface IWish {
  need: () => Need;
  line: AbortController;
  granted: () => void;
}

/**
 * A few lines for all who listen.
 *
 * Who is `first` takes a line from another, but for the last one: that goes round, so that everybody
 * who waits has it in their turn.
 */
export class Lines implements ILines {
  /** @param _size - how many there are at this moment. */
  constructor(
    private readonly _size: () => number = () => (document.hidden ? MAX_HIDDEN : MAX_LINES)
  ) {
    document.addEventListener('visibilitychange', () => this.deal());
  }

  take(need: () => Need, signal: AbortSignal): Promise<IHeld | null> {
    if (signal.aborted) {
      return Promise.resolve(null);
    }
    return new Promise(resolve => {
      const line = new AbortController();
      const wish: IWish = { need, line, granted: () => resolve({ signal: line.signal, giveBack }) };
      const giveBack = (): void => {
        signal.removeEventListener('abort', end);
        this._waiting = this._waiting.filter(each => each !== wish);
        this._holders = this._holders.filter(each => each !== wish);
        this.deal();
      };
      const end = (): void => {
        line.abort();
        resolve(null);
        giveBack();
      };
      signal.addEventListener('abort', end);
      this._waiting = [...this._waiting, wish];
      this.deal();
    });
  }

  deal(): void {
    this._holders.filter(({ need }) => need() === 'none').forEach(wish => this._takeAway(wish));
    while (this._holders.length > this._size()) {
      this._takeAway(this._least());
    }
    for (let next = this._next(); next !== undefined; next = this._next()) {
      if (this._holders.length >= this._size()) {
        const kept = this._holders.filter(isFirst).length;
        if (!isFirst(next) || kept >= this._size() - 1) {
          break;
        }
        this._takeAway(this._least());
      }
      this._grant(next);
    }
    if (this._next() === undefined) {
      window.clearTimeout(this._timer);
      this._timer = 0;
    } else {
      this._timer ||= window.setTimeout(() => this._goRound(), SLICE);
    }
  }

  /** Gives a line of others to the one that has waited longest. */
  private _goRound(): void {
    this._timer = 0;
    const next = this._waiting.find(({ need }) => need() !== 'none');
    if (next !== undefined && this._holders.length >= this._size()) {
      this._takeAway(this._least());
      this._grant(next);
    }
    this.deal();
  }

  /** Who gets the next line that is free. */
  private _next(): IWish | undefined {
    return this._waiting.find(isFirst) ?? this._waiting.find(({ need }) => need() !== 'none');
  }

  /** Who gives way: of those that need it least the one that has had it longest. */
  private _least(): IWish | undefined {
    return this._holders.find(wish => !isFirst(wish)) ?? this._holders[0];
  }

  private _grant(wish: IWish): void {
    this._waiting = this._waiting.filter(each => each !== wish);
    this._holders = [...this._holders, wish];
    wish.granted();
  }

  private _takeAway(wish: IWish | undefined): void {
    this._holders = this._holders.filter(each => each !== wish);
    wish?.line.abort();
  }

  /** The one that has had its line longest comes first. */
  private _holders: readonly IWish[] = [];
  /** The one that has waited longest comes first. */
  private _waiting: readonly IWish[] = [];
  private _timer = 0;
}

function isFirst({ need }: IWish): boolean {
  return need() === 'first';
}
