import type { MouseEvent, PointerEvent, RefObject } from 'react';
import { useEffect, useRef, useState } from 'react';

/** Milliseconds for which a request must be visible, in its place, before it can be answered. */
export const ARM_AFTER = 500;
/** Milliseconds between two checks of its position. */
const SAMPLE_EVERY = 100;
/** Pixels by which it may move without being disarmed. */
const TOLERANCE = 4;
/** Pixels of a tall part that must be visible. */
const ENOUGH = 60;

/**
 * Guards the answers of an approval request against accidental clicks.
 *
 * It is armed once all parts have been visible, in one place, for `ARM_AFTER`. Moving, hiding or
 * scrolling them disarms it, since a click may be meant for what was there before.
 */
export class AnswerGuard {
  /**
   * @param _parts - The elements that must be visible: the request and its buttons. The last one
   *   must stay in its place.
   * @param _changed - Called when it is armed or disarmed.
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

  /** Whether the request can be answered now. */
  get armed(): boolean {
    return this._armed && this._isInPlace();
  }

  /** Disarm it, and start again. */
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

/** Guard a request while it is rendered. Return whether it is armed as a state, and a current check. */
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

interface IPressHandlers {
  onPointerDownCapture: (event: PointerEvent) => void;
  onClickCapture: (event: MouseEvent) => void;
}

/** Return handlers that stop a click unless the pointer went down on the same button when it was ready. */
export function usePress(isReady: () => boolean): IPressHandlers {
  const pressed = useRef<EventTarget | null>(null);
  return {
    onPointerDownCapture: ({ target }) => {
      pressed.current = isReady() ? target : null;
    },
    onClickCapture: event => {
      const { detail, target } = event;
      // A click without a pointer (detail 0) is a key's or a screen reader's on this very button.
      if (detail > 1 || (detail === 1 && pressed.current !== target)) {
        event.stopPropagation();
      }
      pressed.current = null;
    }
  };
}
