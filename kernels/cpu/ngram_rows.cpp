#include "kernels/ngram_rows.hpp"

namespace millrace::kernels::cpu {
namespace {

void ngram_rows(const ExecutionContext& context, const Tensor& tokens, const NgramOptions& options, const Tensor& y) {
  const std::size_t orders = options.multipliers.size() - 1, tables = options.rows.size(), heads = tables / orders;
  context.team().for_ranges(tokens.elements(), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t place = t % options.sequence;
      const std::int32_t* token = tokens.as<std::int32_t>() + t;
      std::int32_t* ids = y.as<std::int32_t>() + t * static_cast<std::int64_t>(tables);
      std::uint32_t hash = static_cast<std::uint32_t>(*token) * static_cast<std::uint32_t>(options.multipliers[0]);
      std::int32_t first_row = 0;
      for (std::size_t j = 1, table = 0; j <= orders; ++j) {
        const std::int32_t before = place >= static_cast<std::int64_t>(j) ? token[-static_cast<std::int64_t>(j)] : options.padding;
        hash ^= static_cast<std::uint32_t>(before) * static_cast<std::uint32_t>(options.multipliers[j]);
        for (std::size_t head = 0; head < heads; ++head, ++table) {
          const std::int32_t rows = options.rows[table], rest = static_cast<std::int32_t>(hash) % rows;
          ids[table] = first_row + (rest < 0 ? rest + rows : rest);
          first_row += rows;
        }
      }
    }
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::ngram_rows, ngram_rows},
};

}  // namespace
}  // namespace millrace::kernels::cpu
