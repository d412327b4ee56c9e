import { InlineCompletionTriggerKind } from '@jupyterlab/completer';
import { nullTranslator } from '@jupyterlab/translation';

import { inlineProvider } from './inlineProvider';

/** How often the current notebook was looked up for a completion, with this setting. */
async function lookups(composite: object, triggerKind: InlineCompletionTriggerKind) {
  const find = jest.fn();
  const provider = inlineProvider(
    { serviceManager: { contents: {}, serverSettings: {} } } as never,
    { find } as never,
    Promise.resolve({ composite } as never),
    nullTranslator.load('tk-ai-extension')
  );
  const list = await provider.fetch({ text: '', offset: 0 }, { triggerKind } as never);
  expect(list.items).toEqual([]);
  return find.mock.calls.length;
}

describe('the provider of ghost text', () => {
  const { Automatic, Invoke } = InlineCompletionTriggerKind;

  it('asks while a person types only if they have switched that on', async () => {
    expect(await lookups({ completion: false }, Automatic)).toBe(0);
    expect(await lookups({}, Automatic)).toBe(0);
    expect(await lookups({ completion: true }, Automatic)).toBe(1);
  });

  it('asks when they ask', async () => {
    expect(await lookups({ completion: false }, Invoke)).toBe(1);
  });
});
