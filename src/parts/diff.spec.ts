import type { ProposalStep } from '../api/events';
import { diffLines, type ILine, stepLines, tally, wordDiff } from './diff';

type Lines = ProposalStep['lines'];

describe('the lines of a step', () => {
  it('are verbatim, whatever they look like', () => {
    const texts = [
      'Delete old rows.',
      'Then run:',
      '-f()',
      '@decorator',
      ' indented by one',
      '+1',
      '',
      '@@ -1,2 +1,2 @@'
    ];
    const lines = texts.map(text => ({ mark: ' ', text })) as Lines;
    expect(stepLines({ lines })).toEqual(texts.map(text => ({ kind: 'same', text })));
  });

  it('are told apart by their marks alone', () => {
    const lines: Lines = [
      { mark: '@', text: '@@ -1 +1 @@' },
      { mark: '-', text: '-a' },
      { mark: '+', text: '+b' },
      { mark: ' ', text: 'c' }
    ];
    expect(stepLines({ lines }).map(line => [line.kind, line.text])).toEqual([
      ['place', '@@ -1 +1 @@'],
      ['removed', '-a'],
      ['added', '+b'],
      ['same', 'c']
    ]);
  });

  it('show what would hide in them', () => {
    const lines: Lines = [{ mark: '+', text: 'admin\u202e = 1\u200b\u00a0\u3164' }];
    expect(stepLines({ lines })[0]?.text).toBe('admin⟨U+202E⟩ = 1⟨U+200B⟩⟨U+00A0⟩⟨U+3164⟩');
  });
});

describe('a diff', () => {
  it('counts what went and came', () => {
    expect(tally(['@@ -1 +1,2 @@\n-a\n+b\n+c', '+d'])).toEqual({ added: 3, removed: 1 });
  });

  it('keeps lines that look like the names of files', () => {
    expect(diffLines('--- a')).toEqual([{ kind: 'removed', text: '-- a' }]);
  });

  it('marks what changed within a line', () => {
    const found = diffLines('-plt.title("celcius")\n+plt.title("celsius")\n other');
    const changed = (line: ILine): string[] =>
      (line.parts ?? []).filter(part => part.changed).map(part => part.text);
    expect(found.map(changed)).toEqual([['celcius'], ['celsius'], []]);
  });
});

describe('the word diff', () => {
  it('gives back both lines, and marks nothing that is in both in its order', () => {
    let seed = 3;
    const random = (below: number): number => (seed = (seed * 16807) % 2147483647) % below;
    const words = ['a', 'b', ' ', '(', 'é', '1', '"', '\t'];
    const line = (): string =>
      Array.from({ length: random(12) }, () => words[random(words.length)]).join('');
    for (let round = 0; round < 500; round++) {
      const [one, other] = [line(), line()];
      const found = wordDiff(one, other);
      if (found !== null) {
        expect(found.old.map(part => part.text).join('')).toBe(one);
        expect(found.now.map(part => part.text).join('')).toBe(other);
        const same = (parts: typeof found.old): string =>
          parts.map(part => (part.changed ? '' : part.text)).join('');
        expect(same(found.old)).toBe(same(found.now));
      }
    }
  });

  it('leaves lines alone that have little in common', () => {
    expect(wordDiff('import os', 'x = 1')).toBeNull();
  });
});
