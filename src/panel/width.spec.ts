import { widened } from './width';

describe('the width of the panel when it is shown first', () => {
  it('is what a diff needs, and the notebook gives it', () => {
    expect(widened([0.2, 0.6, 0.2], 2, 1600)).toEqual([0.2, 0.55, 0.25]);
  });

  it('leaves the notebook most of a small window', () => {
    const [left, main, panel] = widened([0.25, 0.5, 0.25], 2, 1000);
    expect([left, main, panel].map(size => Math.round((size ?? 0) * 100))).toEqual([25, 40, 35]);
  });

  it('stays where it is wide enough', () => {
    expect(widened([0.2, 0.4, 0.4], 2, 1600)).toEqual([0.2, 0.4, 0.4]);
  });
});
