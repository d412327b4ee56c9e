import type { RefObject } from 'react';
import { useEffect, useRef, useState } from 'react';

/** Milliseconds for which a question is on the screen, in its place, before it can be answered. */
export const ARM_AFTER = 500;
/** Milliseconds between two looks at where it is. */
const SAMPLE_EVERY = 100;
/** Pixels by which it may move and is still in its place. */
const TOLERANCE = 4;
/** Pixels of something tall that have to be visible. */
const ENOUGH = 60;

/**
 * Whether a question was on the screen long enough to be seen.
 *
 * It is armed once all its parts have been visible, in one place, for `ARM_AFTER`. Whatever moves,
 * hides or covers it by scrolling disarms it: a click may be meant for what was there before.
 */
export class AnswerGuard {
  /**
   * @param _parts - What has to be visible: what it asks, and the buttons. The last one has to stay
   *   in its place.
   * @param _changed - Called when it was armed or disarmed.
   */
  constructor(
    private readonly _parts: readonly HTMLElement[],
    private readonly _changed: (armed: boolean) => void
  ) {
    this._observer = new IntersectionObserver(entries => this._onSeen(entries), {
      threshold: [0, 0.1, 0.25, 0.5, 0.75, 1]
    });
    _parts.forEach(part => this._observer.observe(part));
    document.addEventListener('visibilitychange', this._restart);
    this._timer = window.setInterval(() => this._look(), SAMPLE_EVERY);
  }

  /** Whether it can be answered at this moment. */
  get armed(): boolean {
    return this._armed && this._isInPlace();
  }

  /** Begin again: something may have happened in front of it. */
  restart(): void {
    this._since = null;
    this._set(false);
  }

  dispose(): void {
    this._observer.disconnect();
    window.clearInterval(this._timer);
    document.removeEventListener('visibilitychange', this._restart);
  }

  private _onSeen(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting, intersectionRatio, intersectionRect } of entries) {
      const isEnough = intersectionRatio >= 0.5 || intersectionRect.height >= ENOUGH;
      if (isIntersecting && isEnough) {
        this._seen.add(target);
      } else {
        this._seen.delete(target);
      }
    }
  }

  private _look(): void {
    const isSeen = this._parts.every(part => this._seen.has(part));
    if (!isSeen || document.hidden || !this._isInPlace()) {
      this._place = this._now();
      this.restart();
      return;
    }
    this._since ??= performance.now();
    this._set(performance.now() - this._since >= ARM_AFTER);
  }

  private _isInPlace(): boolean {
    const [place, now] = [this._place, this._now()];
    return (
      place !== null &&
      Math.abs(place.top - now.top) <= TOLERANCE &&
      Math.abs(place.left - now.left) <= TOLERANCE
    );
  }

  private _now(): { top: number; left: number } {
    const { top, left } = (this._parts.at(-1) as HTMLElement).getBoundingClientRect();
    return { top, left };
  }

  private _set(armed: boolean): void {
    if (armed !== this._armed) {
      this._armed = armed;
      this._changed(armed);
    }
  }

  private readonly _restart = (): void => this.restart();
  private readonly _observer: IntersectionObserver;
  private readonly _timer: number;
  private readonly _seen = new Set<Element>();
  private _place: { top: number; left: number } | null = null;
  private _since: number | null = null;
  private _armed = false;
}

/** Arms a question for as long as it is rendered: whether it is, to show, and a check to act on. */
export function useAnswerGuard(...parts: RefObject<HTMLElement>[]): [boolean, () => boolean] {
  const [armed, setArmed] = useState(false);
  const guard = useRef<AnswerGuard | null>(null);
  const nodes = useRef(parts);
  useEffect(() => {
    const found = nodes.current.flatMap(({ current }) => (current === null ? [] : [current]));
    const made = (guard.current = new AnswerGuard(found, setArmed));
    return () => {
      guard.current = null;
      made.dispose();
    };
  }, []);
  return [armed, () => guard.current?.armed === true];
}
