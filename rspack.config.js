// What the builder of JupyterLab's extensions leaves undone: style sheets without spaces and comments.
// The merge view is in chunks of its own, whose names the tests know.
module.exports = {
  optimization: {
    splitChunks: {
      cacheGroups: {
        merge: {
          test: /[\\/](@codemirror[\\/]merge|style-mod)[\\/]/,
          name: 'diff-editor-merge',
          chunks: 'async',
          enforce: true
        }
      }
    }
  },
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
