import { nullTranslator } from '@jupyterlab/translation';

import type { ErrorInfo, SentenceInfo } from './events';
import { loadSentences, say, sayProblem } from './sentences';

const GERMAN: Record<string, string> = {
  'Insert a %1 cell %2': '%2 eine %1-Zelle einfügen',
  'as cell %1': 'Als Zelle %1',
  'The model sent nothing for %1 s.': 'Das Modell hat %1 s lang nichts gesagt.',
  'Send the message again, or increase TkAIExtensionApp.chat_silence.': 'Noch einmal senden.'
};
const english = nullTranslator.load('tk-ai-extension');
const german = {
  ...english,
  __: (text: string, ...given: unknown[]) => english.__(GERMAN[text] ?? text, ...given),
  _n: (one: string, many: string, count: number, ...given: unknown[]) =>
    english._n(one, many, count, ...given)
};

const INSERT: SentenceInfo = {
  code: 'insert',
  parameters: { type: 'code', place: { code: 'place_at', parameters: { position: 3 } } }
};
const TEXT = 'Insert a code cell as cell 3';

describe('a sentence of the server', () => {
  it('is English where the page is', async () => {
    await loadSentences('en_GB');
    expect(say(TEXT, INSERT, german)).toBe(TEXT);
  });

  it('is in the language of the page, with all that stands in it', async () => {
    await loadSentences('de_DE');
    expect(say(TEXT, INSERT, german)).toBe('Als Zelle 3 eine code-Zelle einfügen');
  });

  it('has one form or another for a count', async () => {
    await loadSentences('de_DE');
    const changes = (count: number): string =>
      say('', { code: 'changes', parameters: { count } }, german);
    expect([changes(1), changes(2)]).toEqual(['1 change', '2 changes']);
  });

  it.each<[string, SentenceInfo | null | undefined]>([
    ['has no code', null],
    ['was kept by a version without codes', undefined],
    ['has a code that is not known here', { code: 'newer', parameters: {} }],
    ['is called as what every object has', { code: 'constructor', parameters: {} }],
    [
      'has a part that is not known here',
      { code: 'insert', parameters: { type: 'code', place: { code: 'newer', parameters: {} } } }
    ]
  ])('is shown as it is where it %s', async (_, sentence) => {
    await loadSentences('de_DE');
    expect(say(TEXT, sentence, german)).toBe(TEXT);
  });

  it('is what went wrong, and what to do next', async () => {
    await loadSentences('de_DE');
    const problem: ErrorInfo = {
      code: 'model_silent',
      message: 'The model sent nothing for 60 s.',
      hint: 'Send the message again, or increase TkAIExtensionApp.chat_silence.',
      retryable: true,
      sentence: { code: 'model_silent', parameters: { seconds: '60' } },
      hint_sentence: { code: 'hint_model_silent', parameters: {} }
    };
    expect(sayProblem(problem, german)).toEqual([
      'Das Modell hat 60 s lang nichts gesagt.',
      'Noch einmal senden.'
    ]);
  });
});
