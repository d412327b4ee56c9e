/** Every spec file in one page and one process: each alone would load JupyterLab again. */

import '@testing-library/react';

import { seedRandom } from './random';

declare const __dirname: string;
declare const require: (path: string) => unknown;
const { globSync, readFileSync } = require('fs') as {
  globSync: (pattern: string, options: { cwd: string }) => string[];
  readFileSync: (path: string, encoding: string) => string;
};
const FOLDER = `${__dirname}/..`;

for (const file of globSync('**/*.spec.{ts,tsx}', { cwd: FOLDER }).sort()) {
  // `jlpm test` runs those with another environment at the same time.
  if (!readFileSync(`${FOLDER}/${file}`, 'utf8').startsWith('/** @jest-environment')) {
    describe(file, () => {
      beforeAll(seedRandom);
      require(`../${file}`);
    });
  }
}
