import { act, cleanup, fireEvent, screen } from '@testing-library/react';

import { DONE, MESSAGE, story } from '../testing/events';
import { Stage } from '../testing/panel';

const HEIGHT = 300;

/** The layout of a log, which jsdom lacks. */
class Layout {
  content = 2_000;
  isShown = true;
  private _top = 0;
  private readonly _node: HTMLElement;

  constructor(private readonly _resized: () => void) {
    this._node = screen.getByRole('log');
    Object.defineProperties(this._node, {
      clientHeight: { get: () => (this.isShown ? HEIGHT : 0) },
      scrollHeight: { get: () => (this.isShown ? Math.max(this.content, HEIGHT) : 0) },
      scrollTop: { get: () => this.top, set: (top: number) => (this.top = top) }
    });
    this.emit();
  }

  get top(): number {
    return this._top;
  }

  set top(top: number) {
    this._top = this.isShown ? Math.max(0, Math.min(top, this.content - HEIGHT)) : 0;
  }

  get below(): number {
    return this.content - HEIGHT - this.top;
  }

  scroll(by: number): void {
    this.top += by;
    fireEvent.scroll(this._node);
  }

  change(by: number): void {
    this.content += by;
    this.emit();
  }

  show(isShown: boolean): void {
    this.isShown = isShown;
    this.top = 0;
    fireEvent.scroll(this._node);
    this.emit();
  }

  /** The observers are called, and what they did is scrolled. */
  emit(): void {
    act(this._resized);
    fireEvent.scroll(this._node);
  }
}

describe('the view of a chat', () => {
  afterEach(cleanup);

  it('follows the end until somebody scrolls up, and then stays where they read', async () => {
    let resized = (): void => undefined;
    const { ResizeObserver } = window;
    window.ResizeObserver = class extends ResizeObserver {
      constructor(private readonly _callback: ResizeObserverCallback) {
        super(_callback);
      }

      override observe(node: Element): void {
        if (node.getAttribute('role') === 'log') {
          resized = () => this._callback([], this);
        }
      }
    };
    const stage = new Stage({}, 'c');
    stage.past = story(MESSAGE, { kind: 'began' }, DONE);
    await stage.settle();
    const layout = new Layout(() => resized());
    let follows = true;
    for (let step = 0; step < 400; step++) {
      const { top } = layout;
      switch (Math.floor(Math.random() * 5)) {
        case 0:
          layout.change(Math.ceil(Math.random() * 200));
          expect(follows || layout.top === top).toBe(true);
          break;
        case 1:
          layout.scroll(-Math.ceil(Math.random() * 15));
          follows = layout.top === top && follows;
          break;
        case 2:
          layout.scroll(-Math.ceil(Math.random() * 500));
          follows = layout.top === top && follows;
          break;
        case 3:
          layout.scroll(Math.ceil(Math.random() * 600));
          follows ||= layout.below < 40 && layout.top > top;
          break;
        default:
          layout.show(false);
          layout.change(Math.random() < 0.5 ? 0 : 100);
          layout.show(true);
          expect(follows || layout.top === top).toBe(true);
      }
      if (follows) {
        layout.emit();
        expect(layout.below).toBe(0);
      }
      expect(screen.queryByText('↓ Latest') === null).toBe(follows);
    }
    window.ResizeObserver = ResizeObserver;
  });

  it('stays as it was while the history has its place', async () => {
    const stage = new Stage({}, 'c');
    stage.past = story(MESSAGE, { kind: 'began' }, DONE);
    await stage.settle();
    const log = screen.getByRole('log');
    fireEvent.click(screen.getByRole('button', { name: 'History' }));
    await stage.settle();
    expect(screen.queryByRole('log')).toBeNull();
    expect(screen.getByRole('region', { name: 'History' })).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'History' }));
    await stage.settle();
    expect(screen.getByRole('log')).toBe(log);
  });
});
