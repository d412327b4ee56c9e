import { filterMathematics } from './mathematics';

it('typesets once MathJax is loaded, also where a load before has failed', async () => {
  const shown: unknown[] = [];
  const mathDocument = jest
    .fn<Promise<object>, []>()
    .mockRejectedValueOnce(new Error('offline'))
    .mockResolvedValue({ safe: { sanitize: () => undefined } });
  const typesetter = {
    typeset: (node: unknown) => Promise.resolve(void shown.push(node)),
    mathDocument
  };
  filterMathematics(typesetter, () => false);
  await expect(typesetter.typeset('first')).rejects.toThrow('offline');
  await typesetter.typeset('second');
  await typesetter.typeset('third');
  expect(shown).toEqual(['second', 'third']);
  expect(mathDocument).toHaveBeenCalledTimes(2);
});
