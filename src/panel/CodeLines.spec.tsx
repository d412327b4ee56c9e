import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { python } from '@codemirror/lang-python';
import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, render, waitFor } from '@testing-library/react';

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

it('shows a change in the colours of its notebook', async () => {
  const change = { ...CHANGE, diff: '+def f():', turn: 't', number: 1, id: 1, time: 0 };
  const { container } = render(
    <ServicesProvider value={services}>
      <ChangeLines change={change} />
    </ServicesProvider>
  );
  await waitFor(() => expect(container.querySelector('.cm-line span')?.textContent).toBe('def'));
  expect(asked).toEqual(['a.ipynb code']);
});
