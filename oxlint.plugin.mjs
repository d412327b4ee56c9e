/** Our own rules of oxlint, as ESLint's selectors. */
const refuse = (message, selectors) => ({
  create: context =>
    Object.fromEntries(
      selectors.map(selector => [selector, node => context.report({ node, message })])
    )
});

export default {
  meta: { name: 'panel' },
  rules: {
    jupyterlab: refuse('What JupyterLab may change is used in src/lab only, with its own check.', [
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
    ]),
    keys: refuse('The server may not know this id: use notebook/keys.', [
      "MemberExpression[object.property.name='model'][property.name='id']",
      "MemberExpression[object.name='model'][property.name='id']",
      "VariableDeclarator[init.property.name='model'] > ObjectPattern > Property[key.name='id']",
      "CallExpression[callee.property.name='getId']"
    ])
  }
};
