import { diffLines, previewLines, tally } from './diff';

describe('what a call would do', () => {
  it('is shown line by line, whole', () => {
    const preview =
      'Insert and run a code cell at 2:\n+y = 1\nChange code cell 0 @12ab:\n+x = 1\nThen run:\n-1\nx = 1';
    expect(previewLines(preview)).toEqual([
      { kind: 'title', text: 'Insert and run a code cell at 2:' },
      { kind: 'added', text: 'y = 1' },
      { kind: 'title', text: 'Change code cell 0 @12ab:' },
      { kind: 'added', text: 'x = 1' },
      { kind: 'title', text: 'Then run:' },
      { kind: 'same', text: '-1' },
      { kind: 'same', text: 'x = 1' }
    ]);
  });
});

describe('a diff', () => {
  it('counts what went and came', () => {
    expect(tally(['@@ -1 +1,2 @@\n-a\n+b\n+c', '+d'])).toEqual({ added: 3, removed: 1 });
  });

  it('keeps lines that look like the names of files', () => {
    expect(diffLines('--- a')).toEqual([{ kind: 'removed', text: '-- a' }]);
  });

  it('shows what would hide in it, as a question does', () => {
    const hidden = 'admin\u202e = 1\u200b';
    const shown = 'admin⟨U+202E⟩ = 1⟨U+200B⟩';
    expect(diffLines(`-${hidden}`)).toEqual([{ kind: 'removed', text: shown }]);
    expect(previewLines(`+${hidden}`)).toEqual([{ kind: 'added', text: shown }]);
  });
});
