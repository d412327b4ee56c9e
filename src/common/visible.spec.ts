import { shortName, visible } from './visible';

describe('what would be hidden', () => {
  it('is written out', () => {
    expect(visible('a = "\u202e1"\u2066 # \u200bb\u0007')).toBe(
      'a = "⟨U+202E⟩1"⟨U+2066⟩ # ⟨U+200B⟩b⟨U+0007⟩'
    );
  });

  it('is nothing in code and words of any writing', () => {
    const code = 'def f():\n\treturn "é 漢字 שלום 👩‍🔬"';
    expect(visible(code)).toBe(code);
  });
});

describe('a name', () => {
  it('is one short line, whatever it was', () => {
    expect(shortName('  agent\n\n2.1 ')).toBe('agent 2.1');
    expect(Array.from(shortName('👩‍🔬x'.repeat(50))).length).toBe(60);
    expect(shortName('<b>x</b>')).toBe('<b>x</b>');
  });
});
