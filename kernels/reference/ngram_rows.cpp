#include "kernels/ngram_rows.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// Each row by itself, from the beginning of its n-gram.
void ngram_rows(const Tensor& tokens, const NgramOptions& options, const Tensor& y) {
  const auto tables = static_cast<std::int64_t>(options.rows.size());
  const std::int64_t heads = tables / (static_cast<std::int64_t>(options.multipliers.size()) - 1);
  for (std::int64_t t = 0; t < tokens.elements(); ++t) {
    std::int64_t first_row = 0;
    for (std::int64_t i = 0; i < tables; ++i) {
      const std::int64_t order = 2 + i / heads, rows = options.rows[static_cast<std::size_t>(i)];
      std::int64_t hash = 0;
      for (std::int64_t j = 0; j < order; ++j) {
        const std::int64_t token = t % options.sequence >= j ? tokens.as<std::int32_t>()[t - j] : options.padding;
        hash ^= static_cast<std::int32_t>(token * options.multipliers[static_cast<std::size_t>(j)] & 0xffffffff);
      }
      y.as<std::int32_t>()[t * tables + i] = static_cast<std::int32_t>(first_row + (hash % rows + rows) % rows);
      first_row += rows;
    }
  }
}

const InTable ngram_rows_in_table[] = {
    {Backend::reference, table::ngram_rows, without_context<ngram_rows>},
};

}  // namespace
}  // namespace millrace::kernels::reference
