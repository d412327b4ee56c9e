// What the builder of JupyterLab's extensions leaves undone: style sheets without spaces and comments.
// The merge view is in chunks of its own, whose names the tests know.
const { SwcJsMinimizerRspackPlugin } = require('@rspack/core');

module.exports = {
  // JupyterLab shares React without this part of it.
  resolve: { alias: { 'react/jsx-runtime': require.resolve('./lib/common/jsx.js') } },
  optimization: {
    // Small numbers: their digits are a part of each import.
    moduleIds: 'natural',
    chunkIds: 'natural',
    minimizer: [
      new SwcJsMinimizerRspackPlugin({
        minimizerOptions: {
          compress: { passes: 3, ecma: 2020, unsafe_arrows: true, unsafe_methods: true },
          // Private members of our own classes get short names; those of JupyterLab's keep theirs.
          mangle: {
            props: {
              regex: '^_[a-z]',
              reserved: ['_n', '_trusted', '_handleError', '_raiseConflict']
            }
          },
          format: { comments: false, ecma: 2020 }
        }
      })
    ],
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
