import type { ProposalStep } from '../api/events';
import { diffLines, stepLines, tally } from './diff';

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

  it('are distinguished by their first characters only', () => {
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
});

describe('a diff', () => {
  it('counts removed and added lines', () => {
    expect(tally(['@@ -1 +1,2 @@\n-a\n+b\n+c', '+d'])).toEqual({ added: 3, removed: 1 });
  });

  it('keeps lines that look like the names of files', () => {
    expect(diffLines('--- a')).toEqual([{ kind: 'removed', text: '-- a' }]);
  });
});
