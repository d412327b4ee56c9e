import { type IOption, prefixAt, together } from './completion';

describe('what is being completed', () => {
  it.each([
    ['/ex', 3, { sign: '/', word: 'ex', start: 0 }],
    ['look at @data/s', 15, { sign: '@', word: 'data/s', start: 8 }],
    ['@', 1, { sign: '@', word: '', start: 0 }],
    ['me@home', 7, null],
    ['a / b', 3, null],
    ['@done ', 6, null]
  ])('%j at %i', (text, cursor, partial) => {
    expect(prefixAt(text, cursor)).toEqual(partial);
  });
});

describe('what is offered', () => {
  const options = (name: string, count: number): IOption[] =>
    Array.from({ length: count }, (_, place) => {
      const label = `${name} ${place}`;
      return { label, note: '', text: label };
    });

  it('is what is near alone, until the files are known', () => {
    expect(together(options('Cell', 2), [])).toEqual(options('Cell', 2));
  });

  it('leaves room for files beside many cells', () => {
    const offered = together(options('Cell', 40), options('file', 40)).map(({ label }) => label);
    expect(offered).toHaveLength(12);
    expect(offered.slice(5, 7)).toEqual(['Cell 5', 'file 0']);
  });
});
