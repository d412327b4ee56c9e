// What the builder of JupyterLab's extensions leaves undone: style sheets without spaces and comments.
module.exports = {
  module: {
    rules: [
      {
        test: /\.css$/,
        enforce: 'pre',
        loader: 'builtin:lightningcss-loader',
        options: { minify: true }
      }
    ]
  }
};
