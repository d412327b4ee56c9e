import { createStore, type IPanelState, modelOf } from './app';

it.each([
  [null, 'one', 'one'],
  [['one', 'two'], 'one', 'one'],
  [['two'], 'one', ''],
  [null, null, 'preferred']
] as const)(
  'the next model, of the models %j, is the chosen one: %s',
  (models, model, expected) => {
    const { state } = createStore();
    const preferences = { ...state.preferences, model: 'preferred' };
    const known = { ...state, preferences, models: models && ({ models } as never) };
    expect(modelOf(known, { model } as IPanelState)).toBe(expected);
  }
);
