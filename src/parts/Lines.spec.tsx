import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render } from '@testing-library/react';

import { diffLines } from './diff';
import { Lines } from './Lines';

afterEach(cleanup);

it('shows where lines are left out, and no numbers of hunks', () => {
  const diff = '@@ -1,2 +1,2 @@\n a\n-b\n+c\n@@ -9 +9 @@\n-d';
  const trans = nullTranslator.load('tk-ai-extension');
  const { container } = render(<Lines lines={diffLines(diff)} trans={trans} />);
  const shown = [...container.querySelectorAll('.tk-Line')].map(each => each.textContent);
  expect(shown).toEqual([' a', '−b', '+c', ' ⋯', '−d']);
});
