/** An immutable state with subscribers. */

/** The interface for readers: React's `useSyncExternalStore`, and tests. */
export interface IReadable<S> {
  readonly state: S;
  /** Call back after each change. Returns the function that unsubscribes. */
  subscribe(listener: () => void): () => void;
}

/** Milliseconds for which coalesced updates are collected: a frame at 60 Hz. */
export const COLLECT = 16;

/**
 * Holds an immutable state.
 *
 * Subscribers are notified synchronously, or at most once per frame for `coalesced` updates: a model
 * streams faster than the page can render. A timer does that, not the frame's callback: what subscribers
 * render would be in one task with style, layout and paint, and a key would wait for all of it.
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
      this._timer ||= window.setTimeout(this._notify, COLLECT);
    } else {
      this._notify();
    }
  }

  private readonly _notify = (): void => {
    window.clearTimeout(this._timer);
    this._timer = 0;
    for (const listener of [...this._listeners]) {
      listener();
    }
  };

  private readonly _listeners = new Set<() => void>();
  private _timer = 0;
}
