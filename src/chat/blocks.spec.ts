import { blocksOf } from './blocks';

const texts = (text: string): string[] => blocksOf(text).map(block => block.text);

describe('the blocks of an answer', () => {
  it('are its paragraphs and its code', () => {
    expect(blocksOf('One.\n\nTwo.\n```python\nx = 1\n\ny = 2\n```\nThree.')).toEqual([
      { kind: 'markdown', text: 'One.\n', language: '', closed: true },
      { kind: 'markdown', text: 'Two.', language: '', closed: true },
      { kind: 'code', text: 'x = 1\n\ny = 2', language: 'python', closed: true },
      { kind: 'markdown', text: 'Three.', language: '', closed: true }
    ]);
  });

  it('hold code that is still being written', () => {
    expect(blocksOf('```py\nx =')).toEqual([
      { kind: 'code', text: 'x =', language: 'py', closed: false }
    ]);
  });

  it('leave shorter fences inside longer ones alone', () => {
    expect(texts('````md\n```\ninner\n```\n````')).toEqual(['```\ninner\n```']);
  });

  it('never cut a formula or an item of a list', () => {
    expect(texts('$$\na\n\nb\n$$')).toHaveLength(1);
    expect(texts('- one\n\n  more of one\n')).toHaveLength(1);
  });

  it('only change at the end while the answer grows', () => {
    const answer = Array.from(
      { length: 20 },
      (_, n) => `Text ${n}.\n\n\`\`\`\ncode ${n}\n\`\`\`\n`
    ).join('');
    let before = blocksOf('');
    for (let end = 1; end <= answer.length; end++) {
      const now = blocksOf(answer.slice(0, end));
      const same = Math.max(0, before.length - 2);
      expect(now.slice(0, same)).toEqual(before.slice(0, same));
      before = now;
    }
  });
});
