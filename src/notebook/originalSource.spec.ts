import { originalSource } from './originalSource';

describe('originalSource', () => {
  it('takes every hunk of a diff back', () => {
    const diff = '@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -9 +9,2 @@\n i\n+j\n';
    expect(originalSource('A\nb\nc\nd\ne\nf\ng\nh\ni\nj', diff)).toBe('a\nb\nc\nd\ne\nf\ng\nh\ni');
  });

  it('knows a hunk that only removed lines', () => {
    expect(originalSource('a\nc', '@@ -2 +1,0 @@\n-b\n')).toBe('a\nb\nc');
  });

  it('says where the source was edited since', () => {
    expect(originalSource('mine', '@@ -1 +1 @@\n-a\n+A\n')).toBeNull();
  });

  const lines = (...texts: string[]): string => texts.join('\n');
  const diff = '@@ -1,4 +1,4 @@\n-a\n+A\n+B\n b\n-c\n d\n@@ -8,2 +8,3 @@\n h\n-i\n+I\n+J\n';
  const before = lines('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i');

  it.each([
    ['nothing', lines('A', 'B', 'b', 'd', 'e', 'f', 'g', 'h', 'I', 'J')],
    ['the first', lines('a', 'b', 'd', 'e', 'f', 'g', 'h', 'I', 'J')],
    ['the second', lines('A', 'B', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'I', 'J')],
    ['the last', lines('A', 'B', 'b', 'd', 'e', 'f', 'g', 'h', 'i')],
    ['everything', before]
  ])('knows what it was where a person took back: %s', (_, now) => {
    expect(originalSource(now, diff)).toBe(before);
  });

  it('distinguishes a removed line from an equal one', () => {
    expect(originalSource('a\nb', '@@ -1,3 +1,2 @@\n a\n-a\n b\n')).toBe('a\na\nb');
    expect(originalSource('a\na', '@@ -1,2 +1 @@\n a\n-a\n')).toBe('a\na');
  });
});
