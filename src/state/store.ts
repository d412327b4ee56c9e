/** An immutable state with subscribers. */

/** The interface for readers: React's `useSyncExternalStore`, and tests. */
export interface IReadable<S> {
  readonly state: S;
  /** Call back after each change. Returns the function that unsubscribes. */
  subscribe(listener: () => void): () => void;
}

/**
 * Holds an immutable state.
 *
 * Subscribers are notified synchronously, or once per frame for `coalesced` updates: a model streams
 * faster than the page can render.
 */
export class Store<S> implements IReadable<S> {
  constructor(private _state: S) {}

  get state(): S {
    return this._state;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this._listeners.add(listener);
    return () => void this._listeners.delete(listener);
  };

  /** Replace the state by the result of `change`. */
  update(change: (state: S) => S, { coalesced = false } = {}): void {
    const state = change(this._state);
    if (state === this._state) {
      return;
    }
    this._state = state;
    if (coalesced) {
      this._frame ||= nextFrame(this._notify);
    } else {
      this._notify();
    }
  }

  private readonly _notify = (): void => {
    this._frame = 0;
    for (const listener of [...this._listeners]) {
      listener();
    }
  };

  private readonly _listeners = new Set<() => void>();
  private _frame = 0;
}

/** Call back in the next frame, or by a timer in a hidden page, which has no frames. */
function nextFrame(done: () => void): number {
  return document.hidden ? window.setTimeout(done, 16) : requestAnimationFrame(done);
}
