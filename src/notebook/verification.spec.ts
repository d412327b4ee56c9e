import { nullTranslator } from '@jupyterlab/translation';

import { loadSentences } from '../api/sentences';
import { verify } from './verification';

const verification = {
  status: 'differs',
  number: 1,
  total: 1,
  problems: [
    {
      cell: 'a',
      index: 0,
      status: 'differs',
      message: 'stdout differs; stderr is new',
      sentence: {
        code: 'differences_two',
        parameters: {
          first: { code: 'output_differs', parameters: { what: 'stdout' } },
          second: { code: 'output_new', parameters: { what: 'stderr' } }
        }
      }
    }
  ],
  left_out: 7,
  hidden_state: [
    {
      cell: 'b',
      index: 1,
      message: 'Cell 2 uses `x`, which no cell defines.',
      sentence: { code: 'hidden_undefined', parameters: { cell: 2, names: '`x`' } }
    },
    { cell: 'c', index: 2, message: 'Of a server without codes.' }
  ]
};

jest.mock('../api/client', () => ({
  ...jest.requireActual<object>('../api/client'),
  requestJson: () => Promise.resolve({ execution_id: '1', status: 'ok', verification })
}));

describe('the result of a run from the top', () => {
  it('is shown in the language of the person', async () => {
    await loadSentences('de');
    const english = nullTranslator.load('tk-ai-extension');
    const trans = {
      ...english,
      __: (text: string, ...values: unknown[]) => `<${english.__(text, ...values)}>`,
      _n: english._n.bind(english)
    };
    void verify({} as never, 'n.ipynb', {} as never, trans);
    await new Promise(resolve => setTimeout(resolve));
    const shown = [...document.querySelectorAll('.tk-Verification-cell')];
    expect(shown.map(({ textContent }) => textContent)).toEqual([
      '<Cell 1 has other outputs: <<stdout differs>; <stderr is new>>>',
      '<Cell 2 uses `x`, which no cell defines.>',
      'Of a server without codes.'
    ]);
    expect(document.querySelector('.tk-Verification p')?.textContent).toBe(
      '7 more cells fail or have other outputs.'
    );
  });
});
