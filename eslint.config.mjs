import eslint from '@eslint/js';
import { defineConfig } from 'eslint/config';
import hooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

/** Refuses the id of a cell's model: a separate rule, since one config replaces another's selectors. */
const keys = {
  create: context => {
    const refuse = node =>
      context.report({ node, message: 'The server may not know this id: use notebook/keys.' });
    return {
      "MemberExpression[object.property.name='model'][property.name='id']": refuse,
      "MemberExpression[object.name='model'][property.name='id']": refuse,
      "VariableDeclarator[init.property.name='model'] > ObjectPattern > Property[key.name='id']":
        refuse,
      "CallExpression[callee.property.name='getId']": refuse
    };
  }
};

export default defineConfig(
  { ignores: ['**/*', '!src', '!src/**'] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    plugins: { 'react-hooks': hooks },
    // Its other rules compile each component: a sixth of eslint's time.
    rules: { 'react-hooks/rules-of-hooks': 'error', 'react-hooks/exhaustive-deps': 'warn' }
  },
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
      // A quarter of eslint's time, for unsound assignments of enums and classes, of which there are few.
      '@typescript-eslint/no-unsafe-enum-assignment': 'off',
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      'no-console': 'error'
    }
  },
  {
    files: ['src/**'],
    ignores: ['src/lab/**', 'src/testing/**', '**/*.spec.ts*'],
    rules: {
      'no-restricted-properties': [
        'error',
        { property: 'updateSource', message: 'It may split a surrogate pair: use editSource.' }
      ],
      'no-restricted-syntax': [
        'error',
        ...[
          // A private member of another object.
          "MemberExpression[object.type!='ThisExpression'][property.name=/^_(?!n$)[a-z]/]",
          'Literal[value=/^_[a-z]\\w*$/]',
          'TSPropertySignature[key.name=/^_[a-z]/]',
          // JupyterLab's class names and ids, and what its elements and drags carry.
          'Literal[value=/(^|[ .#])jp-/]',
          'TemplateElement[value.raw=/(^|[ .#])jp-/]',
          'Literal[value=/application.(x-jupyter|vnd\\.jupyter)/]',
          // A public method that is replaced, or about to go.
          "AssignmentExpression[left.type='MemberExpression'][left.property.name=/^(save|revert|fromJSON|toJSON)$/]",
          "MemberExpression[property.name='prototype']"
        ].map(selector => ({
          selector,
          message: 'What JupyterLab may change is used in src/lab only, with its own check.'
        }))
      ]
    }
  },
  {
    // Tabs have their own names for cells.
    files: ['src/**'],
    ignores: ['src/notebook/keys.ts', 'src/{tabs,lab,testing}/**', '**/*.spec.ts*'],
    plugins: { cells: { rules: { keys } } },
    rules: { 'cells/keys': 'error' }
  }
);
