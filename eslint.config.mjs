import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import hooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

export default defineConfig(
  { ignores: ['**/*', '!src', '!src/**'] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  hooks.configs.flat.recommended,
  {
    languageOptions: { parserOptions: { project: './tsconfig.test.json' } },
    rules: {
      // A number in a sentence reads as a number.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // Handlers of events start what they do not wait for, with `void`.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true }
      ],
      'no-console': 'error'
    }
  }
);
