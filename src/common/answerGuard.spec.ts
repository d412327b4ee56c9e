import { ARM_AFTER, AnswerGuard } from './answerGuard';

let see: (visible: boolean, height?: number) => void;

class Observer {
  constructor(private readonly _callback: IntersectionObserverCallback) {}
  private readonly _targets: Element[] = [];
  observe(target: Element): void {
    this._targets.push(target);
    see = (visible, height = 20) =>
      this._callback(
        this._targets.map(each => ({
          ...{ target: each, isIntersecting: visible, intersectionRatio: visible ? 1 : 0 },
          intersectionRect: { height }
        })) as unknown as IntersectionObserverEntry[],
        this as unknown as IntersectionObserver
      );
  }
  disconnect(): void {
    this._targets.length = 0;
  }
}

describe('a question', () => {
  let top: number;
  let guard: AnswerGuard;
  let changes: boolean[];

  beforeEach(() => {
    jest.useFakeTimers();
    Object.assign(window, { IntersectionObserver: Observer });
    top = 100;
    changes = [];
    const part = (): HTMLElement => {
      const node = document.createElement('div');
      node.getBoundingClientRect = () => ({ top, left: 0 }) as DOMRect;
      return node;
    };
    guard = new AnswerGuard([part(), part()], armed => changes.push(armed));
  });

  afterEach(() => {
    guard.dispose();
    jest.useRealTimers();
  });

  it('accepts no answer before it was visible for long enough', () => {
    jest.advanceTimersByTime(10 * ARM_AFTER);
    expect(guard.armed).toBe(false);
    see(true);
    jest.advanceTimersByTime(ARM_AFTER - 100);
    expect(guard.armed).toBe(false);
    jest.advanceTimersByTime(300);
    expect(guard.armed).toBe(true);
    expect(changes).toEqual([true]);
  });

  it('accepts none after it moved, until it was in its new place for long enough', () => {
    see(true);
    jest.advanceTimersByTime(2 * ARM_AFTER);
    expect(guard.armed).toBe(true);
    top = 40;
    expect(guard.armed).toBe(false);
    jest.advanceTimersByTime(ARM_AFTER);
    expect(guard.armed).toBe(false);
    jest.advanceTimersByTime(300);
    expect(guard.armed).toBe(true);
  });

  it('accepts none while it is not visible', () => {
    see(true);
    jest.advanceTimersByTime(2 * ARM_AFTER);
    see(false);
    jest.advanceTimersByTime(100);
    expect(guard.armed).toBe(false);
  });
});
