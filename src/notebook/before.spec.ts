import { beforeOf } from './before';

describe('beforeOf', () => {
  it('takes every hunk of a diff back', () => {
    const diff = '@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -9 +9,2 @@\n i\n+j\n';
    expect(beforeOf('A\nb\nc\nd\ne\nf\ng\nh\ni\nj', diff)).toBe('a\nb\nc\nd\ne\nf\ng\nh\ni');
  });

  it('knows a hunk that only removed lines', () => {
    expect(beforeOf('a\nc', '@@ -2 +1,0 @@\n-b\n')).toBe('a\nb\nc');
  });

  it('says where the source was edited since', () => {
    expect(beforeOf('mine', '@@ -1 +1 @@\n-a\n+A\n')).toBeNull();
  });
});
