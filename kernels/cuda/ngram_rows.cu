#include "kernels/ngram_rows.hpp"

#include <algorithm>

#include "kernels/cuda/vector.cuh"

namespace millrace::kernels::cuda {
namespace {

/// A thread hashes for one token and one table.
struct NgramRow {
  const std::int32_t* tokens;
  std::int32_t* y;
  std::int64_t sequence;
  std::int32_t padding;
  int tables, heads;
  std::int32_t multipliers[max_ngram];
  std::int32_t rows[max_ngram_tables];
  std::int32_t first_rows[max_ngram_tables];

  __device__ void operator()(std::int64_t index) const {
    const std::int64_t t = index / tables, place = t % sequence;
    const int table = static_cast<int>(index % tables), order = 2 + table / heads;
    unsigned hash = 0;
    for (int j = 0; j < order; ++j)
      hash ^= static_cast<unsigned>(place >= j ? tokens[t - j] : padding) * static_cast<unsigned>(multipliers[j]);
    const std::int32_t rest = static_cast<std::int32_t>(hash) % rows[table];
    y[index] = first_rows[table] + (rest < 0 ? rest + rows[table] : rest);
  }
};

void ngram_rows(const ExecutionContext& context, const Tensor& tokens, const NgramOptions& options, const Tensor& y) {
  NgramRow at{.tokens = tokens.as<std::int32_t>(), .y = y.as<std::int32_t>(), .sequence = options.sequence, .padding = options.padding};
  at.tables = static_cast<int>(options.rows.size());
  at.heads = at.tables / (static_cast<int>(options.multipliers.size()) - 1);
  std::ranges::copy(options.multipliers, at.multipliers);
  std::int32_t first_row = 0;
  for (int table = 0; table < at.tables; ++table) {
    at.rows[table] = options.rows[static_cast<std::size_t>(table)];
    at.first_rows[table] = first_row;
    first_row += at.rows[table];
  }
  for_each(context, "kernels.ngram_rows", y.elements(), at);
}

const InTable in_table[] = {
    {Backend::cuda, table::ngram_rows, ngram_rows},
};

}  // namespace
}  // namespace millrace::kernels::cuda
