import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { python } from '@codemirror/lang-python';
import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render, screen, waitFor } from '@testing-library/react';

// It takes long to load: not within a test.
import '../common/linesEditor';
import { CHANGE } from '../testing/events';
import '../testing/screen';
import { ChangeLines } from './CodeLines';
import { type IPanelContext, ServicesProvider } from './services';

const asked: unknown[] = [];
const languages = {
  findByMIME: (mime: string) => (asked.push(mime), { name: 'python' }),
  getLanguage: () => Promise.resolve({ support: python() })
} as unknown as IEditorLanguageRegistry;
const services = {
  languages,
  notebook: { mimeOf: (path: string, type: string) => `${path} ${type}` },
  trans: nullTranslator.load('tk-ai-extension')
} as unknown as IPanelContext;

afterEach(cleanup);

it('shows a change in the editor, in the colours of its notebook, once that is loaded', async () => {
  const change = { ...CHANGE, diff: '+def f():', turn: 't', number: 1, id: 1, time: 0 };
  const { container } = render(
    <ServicesProvider value={services}>
      <ChangeLines change={change} />
    </ServicesProvider>
  );
  const lines = screen.getByRole('group', { name: 'Lines' });
  expect(lines.textContent).toBe('+def f():');
  await waitFor(() => expect(container.querySelector('.cm-line span')?.textContent).toBe('def'));
  expect(container.querySelector('.tk-Line')).toBeNull();
  expect(asked).toEqual(['a.ipynb code']);
});
