import { tableOf } from './tables';

it('finds the table that a notebook made last', () => {
  const sources = [
    'import pandas as pd\nold = pd.read_csv("a.csv")',
    'prices = pl.DataFrame({"a": [1]})\ntotal = prices["a"].sum()',
    'if True:\n    inner = pd.DataFrame()'
  ];
  expect(tableOf(sources)).toBe('prices');
  expect(tableOf(['x = 1', '# y = pd.read_csv("b")'])).toBeNull();
});
