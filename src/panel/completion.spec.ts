import { partialAt } from './completion';

describe('what is being completed', () => {
  it.each([
    ['/ex', 3, { sign: '/', word: 'ex', start: 0 }],
    ['look at @data/s', 15, { sign: '@', word: 'data/s', start: 8 }],
    ['@', 1, { sign: '@', word: '', start: 0 }],
    ['me@home', 7, null],
    ['a / b', 3, null],
    ['@done ', 6, null]
  ])('%j at %i', (text, cursor, partial) => {
    expect(partialAt(text, cursor)).toEqual(partial);
  });
});
