/** One immutable state, and who is notified when it is another one. */

/** What a store is read by: React's `useSyncExternalStore`, and tests. */
export interface IReadable<S> {
  readonly state: S;
  /** Calls back after each change; returns what ends that. */
  subscribe(listener: () => void): () => void;
}

/**
 * Holds a state that is replaced and never changed.
 *
 * What a person does is shown at once. What streams in (`coalesced`) is in the state at once as
 * well, but subscribers are notified once per frame: a model writes faster than anybody reads.
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

  /** Replaces the state by what `change` makes of it. */
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

/** A hidden page has no frames. */
function nextFrame(done: () => void): number {
  return document.hidden ? window.setTimeout(done, 16) : requestAnimationFrame(done);
}
